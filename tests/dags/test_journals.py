"""The DAGs of several journals: one set for each entry of the file, and none for a wrong entry."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from embedded.airflow.server import Airflow
from tests.dags.test_parsing import _PARSE, DAG_IDS, ROOT
from tidemark_airflow import assets, purging, telemetry
from tidemark_airflow.environment import pools
from tidemark_airflow.environment.connections import kafka_connections
from tidemark_airflow.journals import file
from tidemark_airflow.journals.journal import AirflowJournal
from tidemark_airflow.next_step import Step, applied, remedy_of
from tidemark_airflow.operations import MANAGE_PROJECTIONS, MANAGE_REPLICATION, operations_of
from tidemark_airflow.timetables import (
    THREE_DAGS,
    ReachTimetable,
    by_date_bucket,
    scheduled_dags,
)

ORDERS = {
    "journal-keyspace": "orders",
    "keyspace": "tidemark_orders",
    "bucket-size": "Day",
    "cadence": "hourly",
    "kafka-journal-keyspace": "orders_topics",
    "cassandra-connection": "cassandra_orders",
    "kafka-connection": "kafka_orders",
    "replicate-minutes": 20,
}
CARTS = {
    "journal-keyspace": "carts",
    "keyspace": "tidemark_carts",
    "bucket-size": "Minute",
    "chain": "one-dag",
    "scheduled-purge": "apply",
}
STOCK = {"r2dbc-connection": "stock", "keyspace": "tidemark_stock", "bucket-size": "Hour"}
WRONG = {**CARTS, "journal-keyspace": "wrong", "keyspace": "wrong_own", "bucket-sise": "Day"}
SHARED = {**CARTS, "journal-keyspace": "more_carts"}
OF_TOPICS = {"replicate", "manage_replication"}
OF_TAG_VIEWS = {"tag_write", "cleanup"}


def written(directory: Path, **entries: object) -> Path:
    path = directory / "journals.yaml"
    path.write_text(yaml.safe_dump({"journals": entries}, sort_keys=False))
    return path


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what Airflow finds in dags/ for four journals and two entries that are wrong."""
    directory = tmp_path_factory.mktemp("journals")
    path = written(directory, orders=ORDERS, wrong=WRONG, carts=CARTS, shared=SHARED, stock=STOCK)
    facts: dict[str, Any] = read_by(_PARSE, directory, path)
    return facts


def read_by(code: str, home: Path, journals: Path) -> Any:
    """Return what code finds that reads the DAGs in a process of its own."""
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "TIDEMARK_JOURNALS_FILE": str(journals),
        # A variable of `default` alone.
        "TIDEMARK_CADENCE": "off",
    }
    done = subprocess.run(
        [sys.executable, "-c", code, str(ROOT / "dags")],
        env=environment, check=True, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    [line] = [line for line in done.stdout.splitlines() if line.startswith("FACTS ")]
    return json.loads(line.removeprefix("FACTS "))


def applications_of(dag: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tasks that start an application, a mapped one as its arguments."""
    tasks = [task["__var"] for task in dag["tasks"]]
    arguments = [{**task.get("partial_kwargs", {}), **task} for task in tasks]
    return [one for one in arguments if str(one.get("pool", "")).startswith("tidemark")]


def test_each_journal_that_can_be_used_has_its_dags(parsed: dict[str, Any]) -> None:
    of_carts = [dag_id for dag_id in DAG_IDS if dag_id not in OF_TOPICS]
    expected = [
        *DAG_IDS,
        *(f"{dag_id}.orders" for dag_id in DAG_IDS),
        *(f"{dag_id}.carts" for dag_id in of_carts),
        *(f"{dag_id}.stock" for dag_id in of_carts if dag_id not in OF_TAG_VIEWS),
    ]
    assert sorted(parsed["dags"]) == sorted(expected)
    assert parsed["loaded"] == []


def test_one_import_error_names_each_wrong_entry_and_has_no_dag(parsed: dict[str, Any]) -> None:
    [(where, text)] = parsed["import_errors"].items()
    assert where.endswith("check_journals.py")
    *_, first, second = text.strip().splitlines()
    assert "the journal wrong has no DAGs: unknown key bucket-sise, did you mean bucket-size?" in (
        first
    )
    assert (
        "the journal shared has no DAGs: keyspace: the journal carts has tidemark_carts, too"
        in (second)
    )


def test_without_tag_views_validate_is_the_first_dag(parsed: dict[str, Any]) -> None:
    timetables = {dag_id: dag["timetable"]["__type"] for dag_id, dag in parsed["dags"].items()}
    assert timetables["validate.stock"] == timetables["tag_write.orders"]
    assert timetables["validate.stock"].endswith("ReachTimetable")
    assert not timetables["validate.orders"].endswith("ReachTimetable")
    checks = {task["task_id"] for task in applications_of(parsed["dags"]["weekly_check.stock"])}
    assert checks == {"validate"}
    steps = {task["__var"]["task_id"] for task in parsed["dags"]["chain.stock"]["tasks"]}
    assert {"chain", "validate", "project"} <= steps
    assert "tag_write" not in steps
    stock = AirflowJournal("stock", STOCK)
    assert scheduled_dags(stock)[:3] == ["validate.stock", "project.stock", "purge.stock"]


def test_dags_of_a_journal_are_chained_by_its_own_assets(parsed: dict[str, Any]) -> None:
    starts: dict[str, set[str]] = {}
    gives: dict[str, set[str]] = {}
    for dag_id, dag in parsed["dags"].items():
        for arrow in dag["dag_dependencies"]:
            ends = starts if arrow["target"] == dag_id else gives
            ends.setdefault(dag_id, set()).add(arrow["label"])
    assert gives["tag_write.orders"] == starts["validate.orders"] == {"tag_views.orders"}
    assert starts["project.orders"] == {"validated.orders", "replicated.orders"}
    assert gives["replicate.orders"] == {"replicated.orders"}
    assert gives["project.orders"] == {
        "read_models.orders",
        "read_models_of_projections.orders",
    }
    assert starts["purge.orders"] == {"read_models.orders"}
    assert starts["project.stock"] == {"validated.stock", "replicated.stock"}
    # The chain of carts is one DAG, so that only replicated topics would start another.
    assert "validate.carts" not in starts
    assert gives["chain.carts"] == {
        "tag_views.carts",
        "validated.carts",
        "read_models.carts",
        "read_models_of_projections.carts",
    }
    for dag_id in {*starts, *gives}:
        journals = {label.partition(".")[2] for label in starts.get(dag_id, set())}
        journals |= {label.partition(".")[2] for label in gives.get(dag_id, set())}
        assert journals == {dag_id.partition(".")[2]}


def test_each_journal_has_its_schedule_whatever_the_variables_are(parsed: dict[str, Any]) -> None:
    def schedule(dag_id: str) -> dict[str, Any]:
        timetable: dict[str, Any] = parsed["dags"][dag_id]["timetable"]
        return {"type": timetable["__type"].rpartition(".")[2], **timetable["__var"]}

    assert schedule("tag_write")["type"] == "DateBucketTimetable"
    hourly = schedule("tag_write.orders")
    assert (hourly["type"], hourly["expression"]) == ("ReachTimetable", "0 * * * *")
    assert hourly["delay"] == 24 * 3600
    assert schedule("tag_write.carts")["type"] == "DateBucketTimetable"
    daily = schedule("chain.carts")
    assert (daily["type"], daily["expression"], daily["delay"]) == (
        "ReachTimetable", "0 0 * * *", 60,
    )  # fmt: skip
    assert schedule("replicate.orders")["expression"] == "*/20 * * * *"
    assert schedule("replicate")["expression"] == "*/5 * * * *"


@pytest.mark.parametrize("journal", ["default", "orders", "carts"])
def test_each_task_has_the_pool_of_its_journal(parsed: dict[str, Any], journal: str) -> None:
    suffix = "" if journal == "default" else f".{journal}"
    named = {
        dag_id: {task["pool"] for task in applications_of(dag)}
        for dag_id, dag in parsed["dags"].items()
        if dag_id.partition(".")[2] == suffix[1:]
    }
    of_journal = pools.journal(journal)
    of_projections = pools.projections(journal)
    assert named.pop(f"project{suffix}") == {of_projections}
    # It is no application of Spark, and waits for none.
    assert named.pop(f"observe{suffix}") == set()
    assert set(map(frozenset, named.values())) == {frozenset([of_journal])}
    if journal != "default":
        assert (of_journal, of_projections) == (
            f"tidemark.{journal}", f"tidemark.{journal}.projections",
        )  # fmt: skip


def test_twenty_journals_are_parsed_in_less_than_a_second(tmp_path: Path) -> None:
    """Of the processor's time: Airflow parses each DAG file in a process of its own."""
    entries = {
        f"j{number}": {
            "journal-keyspace": f"j{number}",
            "keyspace": f"t{number}",
            "bucket-size": "Hour",
            "kafka-journal-keyspace": f"k{number}",
        }
        for number in range(20)
    }
    code = """
import json, pathlib, sys, time
from airflow.dag_processing.dagbag import DagBag
import tidemark_airflow.purging
found = {}
for file in pathlib.Path(sys.argv[1]).glob("*.py"):
    DagBag(str(file))
    began = time.process_time()
    found[file.stem] = [len(DagBag(str(file)).dags), time.process_time() - began]
print("\\nFACTS " + json.dumps(found))
"""
    found = read_by(code, tmp_path, written(tmp_path, **entries))
    assert found.pop("check_journals")[0] == 0
    assert {number for number, _ in found.values()} == {21}
    assert max(seconds for _, seconds in found.values()) < 1, found


def test_every_task_works_on_the_journal_of_its_dag(tmp_path: Path) -> None:
    """Read from the operators themselves: what a task hands on is not in a serialized DAG."""
    path = written(tmp_path, orders=ORDERS, carts=CARTS)
    code = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag, found = DagBag(sys.argv[1]), []
for dag_id, dag in bag.dags.items():
    for task in dag.tasks:
        given = getattr(task, "partial_kwargs", None) or vars(task)
        if "application_name" in given or "driver" in given:
            more = sorted(given.get("more_connections") or {})
            kafka = given.get("kafka_conn_id")
            found.append([dag_id, given.get("journal"), given["cassandra_conn_id"], kafka, more])
        elif task.task_id == "list_projections":
            found.append([dag_id, *task.op_args, None, None, []])
print("\\nFACTS " + json.dumps(found))
"""
    tasks = read_by(code, tmp_path, path)
    connections = {
        "default": ("cassandra_default", "kafka_default"),
        "orders": ("cassandra_orders", "kafka_orders"),
        "carts": ("cassandra_default", "kafka_default"),
    }
    assert len(tasks) > 3 * len(DAG_IDS)
    for dag_id, journal, cassandra, kafka, more in tasks:
        assert journal == (dag_id.partition(".")[2] or "default"), dag_id
        expected = connections[journal]
        assert cassandra in (expected[0], None), dag_id
        assert kafka in (expected[1], None), dag_id
        assert set(more) <= {expected[1], "airflow_default"}, dag_id


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({"Orders": ORDERS}, "the journal Orders has no DAGs: a name has lower-case letters"),
        ({"default": ORDERS}, "default is the journal of the environment's variables"),
        ({"orders": {**ORDERS, "bucket-size": "Week"}}, "bucket-size: 'Week' is not one of"),
        ({"orders": {**ORDERS, "cassandra-password": "x"}}, "unknown key cassandra-password"),
        ({"orders": {**ORDERS, "keyspace": "no spaces"}}, "keyspace: 'no spaces' does not match"),
        ({"orders": {**ORDERS, "replicate-minutes": 60}}, "replicate-minutes: 60 is greater"),
        ({"orders": {"keyspace": "a"}}, "'journal-keyspace' is a required property"),
        ({"orders": None}, "None is not of type 'object'"),
        ({"orders": {**ORDERS, "keyspace": "pekko", "cassandra-connection": "cassandra_default"}},
         "keyspace: the journal default has pekko, too"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_one_line_with_file_and_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, entries: dict[str, Any], problem: str
) -> None:
    path = written(tmp_path, **entries, carts=CARTS)
    monkeypatch.setenv("TIDEMARK_JOURNALS_FILE", str(path))
    assert [journal.name for journal in file.journals()] == ["default", "carts"]
    with pytest.raises(ValueError, match=r"correct its entry") as refused:
        file.require_usable()
    assert problem in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["journals: [", "journals: 1", "more: {}", "[]", ""])
def test_a_file_without_journals_leaves_the_default_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "journals.yaml"
    path.write_text(text)
    monkeypatch.setenv("TIDEMARK_JOURNALS_FILE", str(path))
    assert [journal.name for journal in file.journals()] == ["default"]
    with pytest.raises(ValueError, match=r"journals\.yaml"):
        file.require_usable()


def test_off_needs_no_quotes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """YAML 1.1 reads it as false."""
    path = written(tmp_path, orders=ORDERS)
    path.write_text(path.read_text() + "    cadence: off\n    weekly-check: off\n")
    monkeypatch.setenv("TIDEMARK_JOURNALS_FILE", str(path))
    [_, orders] = file.journals()
    file.require_usable()
    assert (orders.entry["cadence"], orders.entry["weekly-check"]) == ("off", "off")


def test_an_entry_that_cannot_be_used_still_has_its_keyspaces(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As for the applications, whose runs would be refused."""
    path = written(tmp_path, wrong={**CARTS, "cadence": "never"}, carts=CARTS)
    monkeypatch.setenv("TIDEMARK_JOURNALS_FILE", str(path))
    assert [journal.name for journal in file.journals()] == ["default"]


def test_a_file_that_is_named_and_not_there_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIDEMARK_JOURNALS_FILE", str(tmp_path / "none.yaml"))
    with pytest.raises(ValueError, match="there is no file"):
        file.require_usable()
    monkeypatch.delenv("TIDEMARK_JOURNALS_FILE")
    file.require_usable()


def test_names_of_metrics_remedies_and_read_models_have_the_journal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(telemetry, "gauge", lambda name, value: sent.append(name))
    report = {"application": "tag-write", "state": "done", "pieces": {}, "counts": {"rows": 1}}
    telemetry.send_metrics(report, journal="orders")
    assert "tidemark.orders.tag_write.rows" in sent
    remedy = {"application": "reconcile", "command": "repair", "options": {}}
    failure = {"failure": {"remedy": remedy}}
    assert remedy_of(failure, "orders") == Step("reconcile.orders", {"operation": "repair"})
    plan = {"state": "planned", "pieces": {"planned": 1}, "details": {}}
    assert applied("manage_projections.orders", {}, plan) == Step(
        "manage_projections.orders", {"apply": True}
    )
    assert operations_of("manage_projections.orders") is MANAGE_PROJECTIONS
    assert operations_of("manage_replication") is MANAGE_REPLICATION
    assert operations_of("tag_write.orders") == {}
    asset = assets.read_model_of("totals", "orders")
    assert (asset.name, asset.uri) == (
        "read_model_totals.orders", "tidemark://read_models.orders/totals",
    )  # fmt: skip


def test_schedules_of_a_journal_are_those_of_its_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_SCHEDULED_PURGE", "apply")
    monkeypatch.setenv("TIDEMARK_CADENCE", "off")
    monkeypatch.setenv("TIDEMARK_KAFKA_CONNECTIONS", "kafka_more")
    plain = AirflowJournal("plain", {"bucket-size": "Hour"})
    assert not purging.is_applied_on_schedule(plain)
    assert purging.is_applied_on_schedule(AirflowJournal("carts", CARTS))
    assert isinstance(by_date_bucket(THREE_DAGS, plain), ReachTimetable)
    assert kafka_connections(plain) == {}
    assert kafka_connections(AirflowJournal("orders", ORDERS)) == {"": "kafka_orders"}


def test_the_pools_of_all_journals_are_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = written(tmp_path, orders=ORDERS, carts=CARTS)
    expected = {
        pool(name) for name in ("orders", "carts") for pool in (pools.journal, pools.projections)
    }
    monkeypatch.setenv("TIDEMARK_JOURNALS_FILE", str(path))
    made = pools.of_file()
    assert made.keys() == expected
    assert made["tidemark.orders"]["slots"] == 1
    of_default = {pools.journal(), pools.projections()}
    assert Airflow(tmp_path, {})._pools.keys() == expected | of_default
