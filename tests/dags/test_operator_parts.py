"""The operator's use of connections, without a scheduler."""

from __future__ import annotations

import asyncio
import json
import os
import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Connection, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.sdk.types import TaskInstanceKey
from fastapi import FastAPI
from markdown_it import MarkdownIt

import tidemark_plugin
from embedded.airflow import configuration
from embedded.airflow.server import Airflow
from embedded.errors import EmbeddedError
from tests.dags.fake_application import HOSTILE_ID
from tests.repository import REPOSITORY
from tidemark.postgres.connections import connection as postgres_connection
from tidemark.settings import Settings
from tidemark.text import harmless
from tidemark_airflow import data_docs, operators, purging, tasks
from tidemark_airflow.assets import TAG_VIEWS
from tidemark_airflow.environment import connections, drivers, installation, pools
from tidemark_airflow.environment.drivers import Driver


def connection(**fields: object) -> Connection:
    return Connection(conn_id="one", **fields)  # type: ignore[arg-type]


def test_a_killed_task_does_not_show_the_command() -> None:
    killed = AirflowException("Cannot execute: spark-submit --jars a.jar. Error code is: -9.")
    assert str(operators._explained(killed, None, None)) == (
        "spark-submit has ended without a report. Error code is: -9."
        " The application's error is in the log above."
    )


NO_ANSWER = {"what": "no answer", "where": "a", "do": "wait", "remedy": None}


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (None, "the task chain has left no report"),
        # As of a run that could not connect, or was ended: without `details`.
        (
            {
                "application": "chain",
                "state": "failed",
                "dry_run": False,
                "error": "no answer",
                "failure": NO_ANSWER,
            },
            r"chain: no answer \(a\)\nnext: wait",
        ),
    ],
)
def test_a_step_of_a_chain_without_its_report_has_failed(
    report: dict[str, Any] | None, words: str
) -> None:
    with DAG("any"):
        step = operators.ChainStep(task_id="validate", application_name="validate")
        EmptyOperator(task_id="chain") >> step
    task_instance = SimpleNamespace(xcom_pull=lambda **_: report, map_index=-1)
    with pytest.raises(AirflowFailException, match=words):
        step.execute(cast("Context", {"ti": task_instance}))


HOSTILE_IDS = (
    HOSTILE_ID,
    "```` ## approve",
    "~~~",
    "<img src=https://example.invalid/seen>[approve](https://example.invalid)",
)
"""Persistence ids, which are what an application has chosen, such as the key of a record."""
MASTERS: dict[str, dict[str, object]] = {
    "local": {"conn_type": "spark", "host": "local[*]"},
    "standalone": {"conn_type": "spark", "host": "spark://master", "port": 7077},
    "yarn": {"conn_type": "spark", "host": "yarn"},
    "kubernetes": {"conn_type": "spark", "host": "k8s://https://cluster", "port": 6443},
}
WANTED = {"TIDEMARK_CASSANDRA_HOSTS": "a:9042", "TIDEMARK_CASSANDRA_PASSWORD": "hidden"}
IN_CLUSTER = {
    "deploy-mode": "cluster",
    "tidemark-home": "/opt/tidemark",
    "secrets-dir": "/run/secrets/tidemark",
}


def submitted(
    monkeypatch: pytest.MonkeyPatch, directory: Path, master: str, **extra: str
) -> tuple[list[str], dict[str, str]]:
    """Return the command line and the environment with which a task starts spark-submit."""
    spark = connection(**MASTERS[master], extra=json.dumps(extra))
    monkeypatch.setattr(spark_submit.SparkSubmitHook, "get_connection", lambda hook, conn_id: spark)
    # The hook only asks whether the client of Kubernetes is installed.
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    task = operators.TidemarkOperator(task_id="one", application_name="tag_write")
    task.driver = Driver.of(spark)
    task.env_vars = task.driver.environment(WANTED)
    task.application_args = task._arguments({}, "run", directory / "report.json")
    hook = task._get_hook()
    application = task.driver.place(Path(task.application), installation.home())
    return hook._build_spark_submit_command(application), {**os.environ, **(hook._env or {})}


def test_the_embedded_airflow_has_the_pools_that_dags_name(tmp_path: Path) -> None:
    slots = Airflow(tmp_path, {})._pools
    assert set(slots) == {pools.journal(), pools.projections()}
    assert slots[pools.journal()] == 1


@pytest.mark.parametrize("master", MASTERS)
def test_a_driver_that_runs_here_gets_its_secrets_and_no_command_line_has_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, master: str
) -> None:
    command, environment = submitted(monkeypatch, tmp_path, master)
    assert not [word for word in command if "hidden" in word]
    assert "--report" in command
    for name, value in environment.items():
        if name.startswith("TIDEMARK_"):
            monkeypatch.setenv(name, value)
    settings = Settings.load()
    assert settings.cassandra_password.get_secret_value() == "hidden"
    assert settings.cassandra_hosts == "a:9042"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("master", "variable"),
    [("yarn", "spark.yarn.appMasterEnv"), ("kubernetes", "spark.kubernetes.driverEnv")],
)
def test_a_driver_in_the_cluster_reads_mounted_secrets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, master: str, variable: str
) -> None:
    monkeypatch.setenv("TIDEMARK_JOURNAL_KEYSPACE", "orders")
    monkeypatch.setenv("TIDEMARK_KAFKA_PASSWORD", "hidden, too")
    command, _ = submitted(monkeypatch, tmp_path, master, **IN_CLUSTER)
    assert not [word for word in command if "hidden" in word]
    assert list(tmp_path.iterdir()) == []
    assert command[command.index("--deploy-mode") + 1] == "cluster"
    for name, value in {
        "SECRETS_DIR": "/run/secrets/tidemark",
        "CASSANDRA_HOSTS": "a:9042",
        "JOURNAL_KEYSPACE": "orders",
    }.items():
        assert f"{variable}.TIDEMARK_{name}={value}" in command
    assert "local:///opt/tidemark/spark_apps/tag_write.py" in command
    assert "--report" not in command


def test_a_cluster_that_does_not_say_where_its_secrets_are_is_refused() -> None:
    extra = json.dumps({"deploy-mode": "cluster", "tidemark-home": "/opt/tidemark"})
    with pytest.raises(AirflowFailException, match=r"set the extra fields secrets-dir, see docs/"):
        Driver.of(connection(**MASTERS["yarn"], extra=extra))


@pytest.mark.parametrize(
    ("lock_ttl", "seconds"), [(None, 75), ("60", 75), ("300", 315), ("soon", 75)]
)
def test_retry_comes_when_the_locks_of_a_dead_run_have_expired(
    monkeypatch: pytest.MonkeyPatch, lock_ttl: str | None, seconds: int
) -> None:
    """An earlier retry would be refused by the locks, and there is only one retry."""
    monkeypatch.delenv("TIDEMARK_LOCK_TTL", raising=False)
    if lock_ttl is not None:
        monkeypatch.setenv("TIDEMARK_LOCK_TTL", lock_ttl)
    operator = operators.TidemarkOperator(task_id="one", application_name="tag_write")
    assert operator.retries == 1
    assert operator.retry_delay.total_seconds() == seconds


def test_cassandra_connection_becomes_the_applications_environment() -> None:
    cassandra = connection(conn_type="cassandra", host="a, b", login="tidemark", password="hidden")
    assert connections.cassandra_environment(cassandra) == {
        "TIDEMARK_CASSANDRA_HOSTS": "a:9042,b:9042",
        "TIDEMARK_CASSANDRA_USERNAME": "tidemark",
        "TIDEMARK_CASSANDRA_PASSWORD": "hidden",
    }


def test_postgres_connection_becomes_the_applications_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    extra = json.dumps({"sslmode": "verify-full", "keepalives": 5})
    given = {"login": "a b", "schema": "d/b", "password": "p@/%", "extra": extra}
    environment = connections.postgres_environment(
        connection(conn_type="postgres", host="::1", **given)
    )
    assert environment == {
        "TIDEMARK_POSTGRES_ONE_URL": "postgresql://a%20b@[::1]:5432/d%2Fb?sslmode=verify-full",
        "TIDEMARK_POSTGRES_ONE_PASSWORD": "p@/%",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    read = postgres_connection(Settings(), "one")
    assert (read.host, read.user, read.database) == ("::1", "a b", "d/b")
    assert read.password.get_secret_value() == "p@/%"


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"conn_type": "mysql", "host": "a", "login": "b", "schema": "c"}, "of type mysql"),
        ({"conn_type": "postgres", "login": "b", "schema": "c"}, "one has no host"),
        ({"conn_type": "postgres", "host": "a", "schema": "c"}, "one has no login"),
        ({"conn_type": "postgres", "host": "a", "login": "b"}, "one has no database"),
    ],
)
def test_a_postgres_connection_that_cannot_be_used_says_why(
    fields: dict[str, str], what: str
) -> None:
    with pytest.raises(ValueError, match=what):
        connections.postgres_environment(connection(**fields))


def test_extra_fields_of_the_cassandra_connection_are_settings() -> None:
    """A password that it does not have is left to the environment and the files of secrets."""
    extra = {
        "security_protocol": "SSL",
        "ssl_truststore": "/tls/authority.p12",
        "ssl_truststore_password": "one",
        "ssl_keystore": "/tls/client.p12",
        "ssl_keystore_password": "two",
        "local_dc": "dc1",
        "consistency": "LOCAL_QUORUM",
        "serial_consistency": "LOCAL_SERIAL",
    }
    more = {**extra, "protocol_version": 5}
    cassandra = connection(host="a", login="tidemark", extra=json.dumps(more))
    environment = connections.cassandra_environment(cassandra)
    assert environment == {
        "TIDEMARK_CASSANDRA_HOSTS": "a:9042",
        "TIDEMARK_CASSANDRA_USERNAME": "tidemark",
        **{f"TIDEMARK_CASSANDRA_{name.upper()}": value for name, value in extra.items()},
    }
    names = {name.removeprefix("TIDEMARK_").lower() for name in environment}
    assert names <= Settings.model_fields.keys()


def test_kafka_connection_becomes_the_applications_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    more = {"topic_prefix": "carts-", "journal_keyspace": "carts"}
    extra = json.dumps({"security_protocol": "SASL_SSL", "other": 1, **more})
    kafka = connection(host="a, b", port=9093, login="tidemark", password="hidden", extra=extra)
    expected = {
        "TIDEMARK_KAFKA_BOOTSTRAP_SERVERS": "a:9093,b:9093",
        "TIDEMARK_KAFKA_USERNAME": "tidemark",
        "TIDEMARK_KAFKA_PASSWORD": "hidden",
        "TIDEMARK_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
    }
    assert connections.kafka_environment(kafka) == expected
    assert connections.kafka_environment(connection(host="a")) == {
        "TIDEMARK_KAFKA_BOOTSTRAP_SERVERS": "a:9092",
        "TIDEMARK_KAFKA_USERNAME": "",
    }
    monkeypatch.setenv(connections.MORE_KAFKA, "one")
    assert connections.kafka_environment(kafka) == {
        **expected,
        "TIDEMARK_KAFKA_TOPIC_PREFIX": "carts-",
        "TIDEMARK_KAFKA_JOURNAL_KEYSPACE": "carts",
    }
    # It would write into the keyspace of the settings.
    with pytest.raises(AirflowFailException, match="one lacks the extra field journal_keyspace"):
        connections.kafka_environment(connection(host="a", extra='{"topic_prefix": "carts-"}'))


@pytest.mark.parametrize(("names", "used"), [("", "kafka_default"), ("kafka_b", "kafka_b")])
def test_the_dags_of_a_connection_of_kafka_use_it(
    monkeypatch: pytest.MonkeyPatch, names: str, used: str
) -> None:
    monkeypatch.setenv(connections.MORE_KAFKA, names)
    file = Path(operators.__file__).parents[2] / "dags" / "replicate.py"
    last = runpy.run_path(str(file))["replicating"]
    assert (last.dag_id, last.kafka_conn_id) == (
        "replicate_kafka_b" if names else "replicate",
        used,
    )
    # Only the keyspace of the settings has projections, which the asset starts.
    assert bool(last.downstream_task_ids) is (not names)


@pytest.mark.parametrize("names", ["kafka_carts,x y", "kafka_default", "kafka/carts"])
def test_what_is_no_further_connection_of_kafka_is_refused(
    monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    monkeypatch.setenv(connections.MORE_KAFKA, names)
    with pytest.raises(ValueError, match="TIDEMARK_KAFKA_CONNECTIONS names '"):
        connections.kafka_connections()


def test_a_run_of_the_chain_has_no_window_of_topics() -> None:
    def event(name: str, day: int) -> SimpleNamespace:
        extra = {"window_start": f"2013-01-0{day}T00:00:00Z", "window_end": "2013-01-09T00:00:00Z"}
        return SimpleNamespace(asset=SimpleNamespace(name=name), extra=extra)

    def start(*events: SimpleNamespace) -> str:
        facts = dict.fromkeys(("logical_date", "data_interval_start", "data_interval_end"))
        kind = SimpleNamespace(value="asset_triggered")
        run = SimpleNamespace(run_type=kind, consumed_asset_events=list(events), **facts)
        context: Any = {"dag_run": run, "params": {}}
        return tasks._resolved(context)["start"][:10]

    assert start(event("replicated", 1), event("validated", 5)) == "2013-01-05"
    assert start(event("validated", 5), event("validated", 3)) == "2013-01-03"
    assert start(event("replicated", 2)) == "2013-01-02"


def test_airflow_connection_becomes_the_applications_environment() -> None:
    airflow = connection(host="airflow.example.com", login="tidemark", password="hidden")
    assert connections.airflow_environment(airflow) == {
        "TIDEMARK_AIRFLOW_URL": "https://airflow.example.com",
        "TIDEMARK_AIRFLOW_USERNAME": "tidemark",
        "TIDEMARK_AIRFLOW_PASSWORD": "hidden",
    }
    plain = connection(host="127.0.0.1", port=8080, schema="http")
    assert connections.airflow_environment(plain)["TIDEMARK_AIRFLOW_URL"] == "http://127.0.0.1:8080"


def test_jars_are_the_fetched_ones_unless_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fetched = tmp_path / ".tidemark" / "jars" / "spark"
    fetched.mkdir(parents=True)
    for name in ("b.jar", "a.jar", "a.jar.sha256"):
        (fetched / name).touch()
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path))
    monkeypatch.delenv("TIDEMARK_SPARK_JARS", raising=False)
    own = ("spark", "TIDEMARK_SPARK_JARS")
    assert installation.spark_jars(*own) == f"{fetched / 'a.jar'},{fetched / 'b.jar'}"
    monkeypatch.setenv("TIDEMARK_SPARK_JARS", "x.jar,y.jar")
    assert installation.spark_jars(*own) == "x.jar,y.jar"


def test_params_become_options_by_their_type(tmp_path: Path) -> None:
    task = operators.TidemarkOperator(
        task_id="reconcile",
        application_name="reconcile",
        command="rebuild",
        params_as_options={"--tag": "tags", "--all": "all", "--drop-old": "old", "--to": "to"},
        dry_by_default=True,
    )
    params = {"dry_run": False, "tags": ["a", "b"], "all": True, "old": False, "to": None}
    report = tmp_path / "report.json"
    assert task._arguments(params, "run", report) == [
        "rebuild",
        *("--run-id", "run", "--report", str(report)),
        "--apply",
        *("--tag", "a", "--tag", "b", "--all"),
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [("params", []), ("asset events", ["--skip-passed"]), ("data interval", ["--skip-passed"])],
)
def test_only_a_window_of_the_form_is_one_that_somebody_gave(
    source: str, expected: list[str]
) -> None:
    task = operators.TidemarkOperator(
        task_id="validate",
        application_name="validate",
        window={"start": "2013-01-01", "end": "2013-01-02", "source": source},
        option_without_params="--skip-passed",
    )
    arguments = task._arguments({}, "run", Path("report.json"))
    assert [word for word in arguments if word == "--skip-passed"] == expected


def test_empty_fields_of_the_form_are_no_options_and_zero_is_a_number(tmp_path: Path) -> None:
    task = operators.TidemarkOperator(
        task_id="manage_projections",
        application_name="project",
        command="set-offset",
        params_as_options={"--tag": "tag", "--to": "to", "--expected": "expected"},
        params_as_arguments=["projections"],
    )
    params = {"tag": None, "to": 0, "expected": None, "projections": ["totals"]}
    report = tmp_path / "report.json"
    assert task._arguments(params, "run", report) == [
        "set-offset",
        *("--run-id", "run", "--report", str(report)),
        *("--to", "0", "--", "totals"),
    ]


def test_each_error_of_a_run_is_a_line_of_the_task() -> None:
    report = {"application": "project", "error": "one (a.sql:1); do this\ntwo", "failure": None}
    explained = operators._explained(AirflowException("Error code is: 2."), report, None)
    assert isinstance(explained, AirflowFailException)
    assert str(explained) == "project: one (a.sql:1); do this\nproject: two"


def test_texts_of_the_form_become_files_that_nobody_else_reads(tmp_path: Path) -> None:
    task = operators.TidemarkOperator(
        task_id="submit_event_groups",
        application_name="run_event_groups",
        command="submit",
        params_as_files={"group": "group.yaml"},
    )
    report, file = tmp_path / "report.json", tmp_path / "group.yaml"
    arguments = task._arguments({"group": "g: a secret"}, "run", report)
    assert arguments == ["submit", "--run-id", "run", "--report", str(report), "--", str(file)]
    assert task._arguments({"group": None}, "run", report) == arguments[:-2]
    drivers.write_private(file, "one\r\ntwo \ud83d")
    assert file.read_bytes() == b"one\r\ntwo \xed\xa0\xbd"
    assert file.stat().st_mode & 0o777 == 0o600


def test_outlets_are_told_what_was_done_and_not_what_was_asked_for() -> None:
    task = operators.TidemarkOperator(
        task_id="tag_write", application_name="tag_write", outlets=[TAG_VIEWS]
    )
    event = SimpleNamespace(extra={})
    report = {
        "state": "done",
        "dry_run": False,
        "pieces": {"done": 3},
        "run_id": "r",
        "window_start": "2026-11-02T00:00:00Z",
        "window_end": "2026-11-03T00:00:00Z",
        "done_start": "2026-11-01T23:00:00Z",
        "done_end": "2026-11-02T23:00:00Z",
    }
    task._update_outlets({"outlet_events": {TAG_VIEWS: event}}, report)  # type: ignore[typeddict-item]
    assert event.extra == {
        "window_start": "2026-11-01T23:00:00Z",
        "window_end": "2026-11-02T23:00:00Z",
        "run_id": "r",
    }


def test_addresses_of_cassandra_become_one_connection(tmp_path: Path) -> None:
    """A port that is left out is Cassandra's own."""

    def connection(hosts: str) -> dict[str, object]:
        given = {"TIDEMARK_CASSANDRA_HOSTS": hosts}
        built = configuration.build(tmp_path, 8080, given)["AIRFLOW_CONN_CASSANDRA_DEFAULT"]
        return dict(json.loads(built))

    assert connection("one, two:9042") | {"login": "", "password": ""} == {
        "conn_type": "cassandra",
        "host": "one,two",
        "port": 9042,
        "login": "",
        "password": "",
    }
    with pytest.raises(EmbeddedError, match="different ports"):
        connection("one:9042,two:9043")


def test_server_without_a_login_answers_only_to_its_own_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A foreign page can make its own name lead to 127.0.0.1, but the name stays its own."""
    hosts = configuration.build(tmp_path, 8080, {})["TIDEMARK_AIRFLOW_HOSTS"]
    monkeypatch.setenv("TIDEMARK_AIRFLOW_HOSTS", hosts)
    app = FastAPI()
    app.add_api_route("/", lambda: "in")
    [check] = tidemark_plugin.host_check()
    app.add_middleware(check["middleware"], **check["kwargs"])

    async def status(host: str) -> int:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport) as client:
            return (await client.get(f"http://{host}/")).status_code

    names = ("127.0.0.1:8080", "localhost:8080", "evil.example:8080")
    statuses = {name: asyncio.run(status(name)) for name in names}
    assert statuses == {"127.0.0.1:8080": 200, "localhost:8080": 200, "evil.example:8080": 400}
    monkeypatch.delenv("TIDEMARK_AIRFLOW_HOSTS")
    assert tidemark_plugin.host_check() == []


@pytest.mark.parametrize(
    ("base_url", "path"),
    [("", ""), ("http://127.0.0.1:8080", ""), ("https://jobs.example/airflow/", "/airflow")],
)
def test_data_docs_are_below_the_path_of_airflow(
    monkeypatch: pytest.MonkeyPatch, base_url: str, path: str
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base_url)
    task = operators.TidemarkOperator(task_id="validate", application_name="validate")
    key = TaskInstanceKey("validate", "one", "run")
    link = data_docs.DataDocsLink().get_link(task, ti_key=key)
    assert link == f"{path}/tidemark/data-docs/index.html"


@pytest.mark.parametrize(("named", "expected"), [(None, ".tidemark/data_docs"), ("/a/b", "/a/b")])
def test_data_docs_are_where_the_settings_of_validate_have_them(
    monkeypatch: pytest.MonkeyPatch, named: str | None, expected: str
) -> None:
    monkeypatch.delenv("TIDEMARK_HOME", raising=False)
    monkeypatch.delenv("TIDEMARK_DATA_DOCS_DIR", raising=False)
    if named is not None:
        monkeypatch.setenv("TIDEMARK_DATA_DOCS_DIR", named)
    assert data_docs.directory() == REPOSITORY / expected == Settings().data_docs_dir


@pytest.mark.parametrize(("days", "expected"), [(None, []), (7, ["--retention-days", "7"])])
def test_purge_keeps_to_the_setting_unless_its_form_says_otherwise(
    tmp_path: Path, days: int | None, expected: list[str]
) -> None:
    module = runpy.run_path(str(Path(operators.__file__).parents[2] / "dags" / "purge.py"))
    task = module["dag"].get_task("plan")
    task.window = None
    report = tmp_path / "report.json"
    form: dict[str, Any] = {
        "dry_run": True,
        "below_retention": False,
        "give_up": [],
        "policies": [],
    }
    form |= {"retention_days": days, "save_to": None}
    arguments = task._arguments(form, "run", report)
    assert arguments == ["--run-id", "run", "--report", str(report), *expected]


@pytest.mark.parametrize(
    ("run_type", "applies"),
    [("asset_triggered", True), ("scheduled", True), ("manual", False), ("backfill", False)],
)
def test_a_purge_that_nobody_started_is_applied_if_so_chosen(run_type: str, applies: bool) -> None:
    """A form and a backfill say themselves whether the purge is a dry run."""
    form = {"dry_run": True}
    for chosen in (True, False):
        task = operators.TidemarkOperator(
            task_id="purge",
            application_name="purge",
            dry_by_default=True,
            applies_on_schedule=chosen,
        )
        arguments = task._arguments(task._params(form, run_type), "run", Path("report.json"))
        assert ("--apply" in arguments) == (applies and chosen)
    assert "--retention-days" not in arguments


@pytest.mark.parametrize(("value", "expected"), [(None, False), ("plan", False), ("apply", True)])
def test_scheduled_purge_is_a_choice(
    monkeypatch: pytest.MonkeyPatch, value: str | None, expected: bool
) -> None:
    monkeypatch.delenv("TIDEMARK_SCHEDULED_PURGE", raising=False)
    if value is not None:
        monkeypatch.setenv("TIDEMARK_SCHEDULED_PURGE", value)
    assert purging.is_applied_on_schedule() is expected


def test_plan_never_applies_and_what_follows_it_always_does() -> None:
    """The form's dry run decides only whether the run goes on after its plan."""
    given: dict[str, Any] = {"task_id": "t", "application_name": "purge", "dry_by_default": True}
    plan = purging.PlanOperator(above=1000, **given)
    apply = operators.TidemarkOperator(**given, always_applies=True)
    for dry_run in (True, False):
        form = {"dry_run": dry_run}
        for task, applies in ((plan, False), (apply, True)):
            arguments = task._arguments(task._params(form, "manual"), "run", Path("report.json"))
            assert ("--apply" in arguments) == applies
        report: dict[str, Any] = {"state": "planned", "dry_run": True, "lines": []}
        report["details"] = {"can_be_applied": True}
        if dry_run:
            with pytest.raises(AirflowSkipException, match="a dry run wrote nothing"):
                plan._update_outlets(cast(Context, {}), report)
        else:
            plan._update_outlets(cast(Context, {}), report)
            report["details"] = {"can_be_applied": False}
            with pytest.raises(AirflowSkipException, match="nothing is to be deleted"):
                plan._update_outlets(cast(Context, {}), report)


@pytest.mark.parametrize(
    ("environment_of", "setting"),
    [
        (connections.cassandra_environment, "cassandra_password"),
        (connections.kafka_environment, "kafka_password"),
        (connections.airflow_environment, "airflow_password"),
    ],
)
def test_password_that_a_connection_lacks_is_read_from_the_file_of_secrets(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    environment_of: Callable[[Connection], dict[str, str]],
    setting: str,
) -> None:
    name = f"tidemark_{setting}"
    (tmp_path / name).write_text("of the file")
    monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("TIDEMARK_SECRETS_DIR", str(tmp_path))
    for variable, value in environment_of(connection(host="a", login="tidemark")).items():
        monkeypatch.setenv(variable, value)
    assert getattr(Settings.load(), setting).get_secret_value() == "of the file"


def test_form_only_lowers_the_deletes_without_approval() -> None:
    assert purging.deletes_without_approval({"approval_above": None}, 1000) == 1000
    assert purging.deletes_without_approval({"approval_above": 0}, 1000) == 0
    with pytest.raises(AirflowFailException) as refused:
        purging.deletes_without_approval({"approval_above": 1001}, 1000)
    assert str(refused.value) == (
        '"Deletes without approval" is 1001, which is more than TIDEMARK_PURGE_APPROVAL_ABOVE'
        " allows (1000); leave the field empty, or give a lower number"
    )


@pytest.mark.parametrize(
    ("value", "names"), [(None, None), ("", None), ("ann", ["ann"]), ("ann, 7", ["ann", "7"])]
)
def test_approvers_are_users_of_airflow(
    monkeypatch: pytest.MonkeyPatch, value: str | None, names: list[str] | None
) -> None:
    monkeypatch.delenv(purging.APPROVERS, raising=False)
    if value is not None:
        monkeypatch.setenv(purging.APPROVERS, value)
    expected = None if names is None else [{"id": name, "name": name} for name in names]
    assert purging.approvers() == expected


def test_approvers_that_name_nobody_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(purging.APPROVERS, "ann,")
    with pytest.raises(ValueError, match=r"TIDEMARK_PURGE_APPROVERS is 'ann,'; set it to ids"):
        purging.approvers()


@pytest.mark.parametrize("text", HOSTILE_IDS)
def test_plan_is_text_on_the_page_of_its_approval(text: str) -> None:
    line = harmless(f"{text} expires on 2013-01-01")
    report = {
        "lines": [line, "`" * 7],
        "details": {"tombstones": 3, "policies": {}},
    }
    tokens = (
        MarkdownIt("commonmark", {"html": True})
        .enable("table")
        .parse(purging.approval_text(report))
    )
    kinds = [token.type for token in tokens]
    assert kinds == ["paragraph_open", "inline", "paragraph_close", "fence"]
    assert tokens[-1].content == f"{line}\n{'`' * 7}\n"


@pytest.mark.parametrize(("variable", "refused"), [(purging.ABOVE, "-1"), (purging.HOURS, "0")])
def test_approval_has_numbers_that_can_be_used(
    monkeypatch: pytest.MonkeyPatch, variable: str, refused: str
) -> None:
    monkeypatch.delenv(variable, raising=False)
    assert (purging.approval_above(), purging.approval_hours()) == (1000, 24)
    monkeypatch.setenv(variable, refused)
    with pytest.raises(ValueError, match=variable):
        (purging.approval_above(), purging.approval_hours())


def test_another_choice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_SCHEDULED_PURGE", "yes")
    with pytest.raises(ValueError, match="set it to plan or apply"):
        purging.is_applied_on_schedule()
