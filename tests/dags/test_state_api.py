"""The page's API in this process, on the embedded Cassandra; who may use it is in test_state_page.

Airflow's login is replaced, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import yaml
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance

from embedded.cassandra.server import Endpoint
from tests.integration.conftest import control, pool
from tests.integration.pool import Pool
from tests.integration.status.status_reading import Ledger, context, journal_without_spark
from tests.integration.support import Journal
from tidemark import clock
from tidemark.cassandra.schema import table
from tidemark.command_line import status
from tidemark.errors import CassandraUnavailable
from tidemark.installation import DEFAULT_JOURNAL
from tidemark.ledger.piece import State
from tidemark.observations import store
from tidemark.observations.metrics import Observation, Sample
from tidemark.status.answers import subjects
from tidemark.status.answers.grid import Touched, touched
from tidemark.status.answers.one_projection import hourly
from tidemark.status.projections import LagAt
from tidemark.window import Window
from tidemark_airflow.pages.state import session
from tidemark_airflow.pages.state.app import app
from tidemark_airflow.pages.state.permissions import may_read
from tidemark_airflow.pages.state.session import shared

__all__ = ["control", "pool"]

FIRST = datetime(2024, 3, 1, tzinfo=UTC)
API = "/api/v1"
COMMANDS: dict[str, Callable[..., None]] = {
    "time-buckets": status.of_time_buckets,
    "projections": status.of_projections,
    "findings": status.of_findings,
    "purges": status.of_purges,
    "replication": status.of_replication,
    "groups": status.of_groups,
    "runs": status.of_runs,
}
ROWS: dict[str, dict[str, Any]] = {
    "time-buckets": {"application": "tag-write"},
    "findings": {"settled": True},
    "replication": {"held": True},
    "groups": {"stream": "default"},
}
"""The parameters with which a subject answers with rows, not with a summary."""
OF_PAGE = ("overview", "grid", "journals", "lag", "releases")
"""Further routes."""
RUN_ID = "tag_write/scheduled__2024-03-01T00:00:00+00:00/1"


@pytest.fixture
def journal(
    pool: Pool, cassandra: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Journal]:
    """Yield an empty journal, which the API reads."""
    with journal_without_spark(pool, cassandra, tmp_path) as journal:
        for name, value in journal.environment.items():
            monkeypatch.setenv(name, value)
        shared.close()
        yield journal
        shared.close()


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """Yield a client of the API that may read."""
    monkeypatch.setitem(app.dependency_overrides, may_read, lambda: None)
    with TestClient(app) as opened:
        yield opened


def got(client: TestClient, path: str, **parameters: Any) -> Any:
    answer = client.get(f"{API}/{path}", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def pages(client: TestClient, path: str, **parameters: Any) -> list[Any]:
    """Return the items of all pages."""
    items = []
    after: dict[str, str] = {}
    while True:
        page = got(client, path, **parameters, **after)
        items += page["items"]
        if page["next"] is None:
            return items
        after = {"after": page["next"]}


def problem(client: TestClient, path: str, status_code: int, **parameters: Any) -> dict[str, str]:
    answer = client.get(f"{API}/{path}", params=parameters)
    assert answer.status_code == status_code, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    found: dict[str, str] = answer.json()
    assert found.keys() == {"what", "where", "do"}
    assert "\n" not in "".join(found.values())
    return found


def seed(journal: Journal) -> None:
    tag_write = Ledger(journal, FIRST)
    tag_write.end(State.DONE, 0, counts={"events_read": 7}, run=context(journal, run_id=RUN_ID))
    tag_write.end(State.FAILED, 1, error="wrong")
    Ledger(journal, FIRST, application="validate").end(State.DONE, 0)


def test_answers_are_those_of_the_command(
    journal: Journal, client: TestClient, capsys: pytest.CaptureFixture[str]
) -> None:
    seed(journal)
    for subject, command in COMMANDS.items():
        for parameters in ({}, ROWS.get(subject, {})):
            command(as_json=True, **parameters)
            printed = json.loads(capsys.readouterr().out)
            assert without_urls(got(client, subject, **parameters)) == printed, subject
    assert len(got(client, "time-buckets")["items"]) == 2
    lines = got(client, "overview")["lines"]
    assert [line["state"] for line in lines[:3]] == ["ok", "bad", "ok"]


def without_urls(value: Any) -> Any:
    """Return an answer without the links to Airflow, which a command does not know."""
    if isinstance(value, list):
        return [without_urls(part) for part in value]
    if not isinstance(value, dict):
        return value
    has_run = "run_id" in value
    return {
        name: without_urls(part) for name, part in value.items() if not (name == "url" and has_run)
    }


def test_every_route_answers_before_the_first_run(
    journal: Journal, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_KEYSPACE", f"{journal.own_keyspace}_absent")
    empty: dict[str, Any] = {"items": [], "next": None}
    for subject in COMMANDS:
        found = got(client, subject)
        assert found == ({"policies": empty, "plans": empty} if subject == "purges" else empty)
    assert got(client, "grid") == {**empty, "rows": [], "rows_left_out": 0}
    assert got(client, "overview")["state"] == "empty"


def test_the_dag_of_a_remedy_is_that_of_the_chain(
    journal: Journal, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for chain, dags in (("three-dags", ["tag_write", "validate"]), ("one-dag", ["chain"] * 2)):
        monkeypatch.setenv("TIDEMARK_CHAIN", chain)
        lines = got(client, "overview")["lines"]
        remedies = [line["remedy"] for line in lines[1:3]]
        assert remedies == [f"airflow dags unpause {dag}" for dag in dags]


def test_pages_follow_their_cursors(journal: Journal, client: TestClient) -> None:
    Ledger(journal, FIRST).end(State.DONE, *range(7))
    for path, parameters in (("time-buckets", {"application": "tag-write"}), ("grid", {})):
        key = "bucket" if path == "grid" else "time_bucket"
        found = [item[key] for item in pages(client, path, limit=3, **parameters)]
        assert found == [
            (FIRST + timedelta(hours=hour)).isoformat().replace("+00:00", "Z")
            for hour in reversed(range(7))
        ]


def test_grid_has_a_cell_for_each_piece_and_none_for_what_was_never_begun(
    journal: Journal, client: TestClient
) -> None:
    Ledger(journal, FIRST).end(State.DONE, 100)
    seed(journal)
    Ledger(journal, FIRST, "project", f"{journal.keyspace}/daily").end(State.DONE, 1)
    page = got(client, "grid", limit=2)
    assert [row["name"] for row in page["rows"]] == ["tag-write", "validate", "project/daily"]
    # Hours that nothing has begun are left out where they end a page, not within a page.
    assert [item["cells"].keys() for item in page["items"]] == [{"tag-write"}, set()]
    assert [item["bucket"] for item in page["items"]] == [
        "2024-03-05T04:00:00Z",
        "2024-03-05T03:00:00Z",
    ]
    older = got(client, "grid", limit=2, after=page["next"])
    assert older["next"] is None
    newer, oldest = older["items"]
    assert newer["bucket"] == "2024-03-01T01:00:00Z"
    assert {name: cell["state"] for name, cell in newer["cells"].items()} == {
        "tag-write": "failed",
        "project/daily": "done",
    }
    cell = oldest["cells"]["tag-write"]
    assert (cell["state"], cell["counts"], cell["run_id"]) == ("done", {"events_read": 7}, RUN_ID)
    assert cell["url"] == "/dags/tag_write/runs/scheduled__2024-03-01T00%3A00%3A00%2B00%3A00"
    assert newer["cells"]["tag-write"]["url"] is None
    chosen = got(client, "grid", row="validate", end=newer["bucket"])
    assert [item["cells"].keys() for item in chosen["items"]] == [{"validate"}]
    bounds = {"start": newer["bucket"], "end": "2024-03-05T00:00:00Z"}
    bounded = got(client, "grid", **bounds)
    assert [item["bucket"] for item in bounded["items"]] == [newer["bucket"]]
    assert bounded["next"] is None


@pytest.fixture
def orders(
    journal: Journal, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Journal]:
    """Yield a second journal: `orders` of the file of journals, with a failed hour of validate."""
    keyspaces = pool.take()
    entry = {"journal-keyspace": keyspaces.journal, "keyspace": keyspaces.own, "cadence": "off"}
    away = {"journal-keyspace": "away", "keyspace": "away_own", "cassandra-connection": "other"}
    file = tmp_path / "journals.yaml"
    entries = {
        name: {**keys, "bucket-size": "Hour"} for name, keys in (("orders", entry), ("away", away))
    }
    content = {"journals": {**entries, "wrong": {"keyspace": "w"}}}
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    (tmp_path / "journals" / "orders" / "sql" / "projections").mkdir(parents=True)
    monkeypatch.setenv("TIDEMARK_JOURNALS_FILE", str(file))
    own = {"TIDEMARK_JOURNAL_KEYSPACE": keyspaces.journal, "TIDEMARK_KEYSPACE": keyspaces.own}
    orders = replace(
        journal,
        keyspace=keyspaces.journal,
        own_keyspace=keyspaces.own,
        environment={**journal.environment, **own},
    )
    Ledger(orders, FIRST, "validate").end(State.FAILED, 5, error="of orders")
    yield orders
    pool.give_back(keyspaces)


def test_each_journal_answers_for_itself(
    journal: Journal, orders: Journal, client: TestClient
) -> None:
    seed(journal)
    assert got(client, "journals") == {"items": ["default", "orders", "away"]}

    def errors(name: str) -> set[str]:
        cells = [item["cells"] for item in got(client, "grid", journal=name)["items"]]
        return {cell["error"] for row in cells for cell in row.values() if cell["error"]}

    names = ["default", "orders"] * 10
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(errors, names))
    expected = {"default": {"wrong"}, "orders": {"of orders"}}
    assert found == [expected[name] for name in names]


@pytest.mark.usefixtures("orders")
def test_the_orders_of_a_journal_start_its_dags(client: TestClient) -> None:
    _, tag_views, checks, *_ = got(client, "overview", journal="orders")["lines"]
    assert tag_views["unpause"] == "tag_write.orders"
    window = {"window_start": "2024-03-01T05:00:00Z", "window_end": "2024-03-01T06:00:00Z"}
    assert checks["order"] == {"dag_id": "validate.orders", "conf": window}
    assert checks["remedy"].startswith("TIDEMARK_JOURNAL=orders spark_apps/validate.py --window")


@pytest.mark.usefixtures("orders")
def test_journals_that_this_server_cannot_read_are_named(client: TestClient) -> None:
    for name, status_code, what in (
        ("carts", 422, "there is no journal 'carts'"),
        ("wrong", 422, "there is no journal 'wrong'"),
        ("away", 409, "the page does not read connections, and away has the connection other"),
    ):
        assert problem(client, "runs", status_code, journal=name)["what"].startswith(what)


def test_an_order_touches_what_the_ledger_has_in_its_window(journal: Journal) -> None:
    seed(journal)
    for name in ("daily", "weekly"):
        Ledger(journal, FIRST, "project", f"{journal.keyspace}/{name}").end(State.DONE, 1)
    window = Window(FIRST, FIRST + timedelta(hours=3))
    run = context(journal)
    assert touched(run, window, ["tag-write", "validate"]) == [
        Touched("tag-write", {"done": 1, "failed": 1}, 1, True),
        Touched("validate", {"done": 1}, 2, True),
    ]
    names = [found.name for found in touched(run, window, ["project"])]
    assert names == ["project/daily", "project/weekly"]
    assert touched(run, window, ["project"], ["weekly"]) == [
        Touched("project/weekly", {"done": 1}, 2, True)
    ]
    Ledger(journal, FIRST, "project", f"{journal.keyspace}/weekly@v2").end(State.DONE, 1)
    names = [found.name for found in touched(run, window, ["project"], ["weekly"])]
    assert names == ["project/weekly", "project/weekly@v2"]


BLUE_GREEN = """\
/*---
name: totals
version: 3
source: messages
mode: bucket
target: {keyspace}.totals
release: blue-green
event: amount INT
---*/
SELECT time_bucket, sum(amount) AS total FROM events GROUP BY time_bucket
"""


def define(journal: Journal) -> None:
    directory = Path(journal.environment["TIDEMARK_PROJECTIONS_DIR"])
    (directory / "totals.sql").write_text(BLUE_GREEN.format(keyspace=journal.keyspace))


def test_versions_are_those_with_a_table_and_the_one_in_the_file(
    journal: Journal, client: TestClient
) -> None:
    define(journal)
    [only] = got(client, "releases", projection="totals")["items"]
    assert (only["version"], only["state"]) == (3, "next")
    for version in (1, 2):
        create = f"CREATE TABLE {journal.keyspace}.totals_v{version} (id text PRIMARY KEY)"
        journal.control.execute_ddl(create)
    since = datetime(2024, 3, 2, tzinfo=UTC)
    journal.control.execute(
        f"INSERT INTO {table(journal.own_keyspace, 'projection_release')}"
        " (projection, live_version, live_table, since, owner) VALUES (?, ?, ?, ?, ?)",
        [f"{journal.keyspace}/totals", 2, f"{journal.keyspace}.totals_v2", since, "ann"],
    )
    subject = f"{journal.keyspace}/totals@v2"
    Ledger(journal, FIRST, "project", subject).end(State.DONE, *range(4))
    Ledger(journal, FIRST, "project", subject).end(State.FAILED, 6, error="wrong")
    found = [
        (row["version"], row["state"], row["table"], row["since"], row["owner"], row["states"])
        for row in got(client, "releases", projection="totals")["items"]
    ]
    name = f"{journal.keyspace}.totals_v"
    assert found == [
        (3, "next", f"{name}3", None, "", {}),
        (2, "live", f"{name}2", "2024-03-02T00:00:00Z", "ann", {"done": 4, "failed": 1}),
        (1, "ended", f"{name}1", None, "", {}),
    ]


def test_lag_over_time_is_the_largest_of_each_hour(journal: Journal, client: TestClient) -> None:
    define(journal)
    seed(journal)
    hour = clock.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    for minutes, seconds, events in ((0, 60.0, 5.0), (5, 30.0, 9.0), (70, 10.0, None)):
        samples = [Sample("projection_lag_seconds", ("totals",), seconds)]
        if events is not None:
            samples.append(Sample("projection_lag_events", ("totals",), events))
        at = hour + timedelta(minutes=minutes)
        store.write(context(journal), Observation(journal.keyspace, at, samples))
    found = got(client, "lag", projection="totals")["items"]
    assert [(point["seconds"], point["events"]) for point in found] == [(60, 9), (10, None)]
    for path in ("lag", "releases"):
        assert problem(client, path, 422, projection="none")["where"] == "projection"
        assert got(client, path, projection="totals")["next"] is None


@given(
    st.lists(
        st.tuples(
            st.integers(0, 14 * 24 * 60), st.none() | st.floats(0, 1e6), st.none() | st.floats(0, 1)
        ),
        unique_by=lambda value: value[0],
    )
)
def test_each_hour_keeps_its_largest_lag(values: list[tuple[int, Any, Any]]) -> None:
    points = [
        LagAt(FIRST + timedelta(minutes=minutes), events, seconds)
        for minutes, events, seconds in sorted(values, key=lambda value: value[0])
    ]
    found = hourly(points)
    assert [point.at for point in found] == sorted(point.at for point in found)
    assert len({point.at.replace(minute=0) for point in found}) == len(found) <= 14 * 24 + 1
    for point in found:
        hour = [one for one in points if one.at.replace(minute=0) == point.at.replace(minute=0)]
        events = [one.events for one in hour if one.events is not None]
        seconds = [one.seconds for one in hour if one.seconds is not None]
        assert (point.events, point.seconds) == (
            max(events, default=None),
            max(seconds, default=None),
        )
        assert point.at == hour[-1].at


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("time-buckets", {"application": "a", "subject": "b", "size": "Day", "state": "held"}),
        ("findings", {"settled": True, "check": "a", "severity": "warns"}),
        ("replication", {"kafka": True, "held": True}),
        ("groups", {"stream": "default"}),
        *((path, {}) for path in ("projections", "purges", "runs")),
    ],
)
def test_parameters_are_those_of_the_command(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str, parameters: dict[str, Any]
) -> None:
    given: list[Any] = []

    def answer(run: object, *arguments: Any, **options: Any) -> None:
        given.extend([*arguments, *(value for value in options.values() if value is not None)])

    async def read(_journal: str, function: Callable[[Any], Any]) -> Any:
        return function(None)

    monkeypatch.setattr(shared, "read", read)
    monkeypatch.setattr(subjects, f"of_{path.replace('-', '_')}", answer)
    got(client, path, limit=7, after="token", **parameters)
    assert given == [*parameters.values(), 7, "token"]


@pytest.mark.parametrize(
    ("path", "parameters", "where"),
    [
        ("runs", {"after": "x"}, "after"),
        ("grid", {"after": "x"}, "after"),
        ("runs", {"limit": 0}, "query.limit"),
        ("runs", {"limit": 1001}, "query.limit"),
        ("time-buckets", {"state": "x"}, "query.state"),
        ("grid", {"start": "2024-03-01T00:00:00"}, "query.start"),
    ],
)
def test_parameters_that_cannot_be_used_are_named(
    journal: Journal, client: TestClient, path: str, parameters: dict[str, Any], where: str
) -> None:
    assert problem(client, path, 422, **parameters)["where"] == where


def test_settings_that_cannot_be_used_are_not_the_readers_fault(
    journal: Journal, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_CADENCE", "weekly")
    assert "TIDEMARK_CADENCE" in problem(client, "overview", 500)["where"]


def test_an_outage_is_a_problem_of_one_line_until_it_is_over(
    journal: Journal, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = journal.environment["TIDEMARK_CASSANDRA_HOSTS"]
    monkeypatch.setenv("TIDEMARK_CASSANDRA_HOSTS", "127.0.0.1:1")
    assert problem(client, "runs", 503)["what"].startswith("cannot reach Cassandra")
    monkeypatch.setenv("TIDEMARK_CASSANDRA_HOSTS", hosts)
    # For some seconds requests do not try again: each try takes long.
    assert problem(client, "runs", 503)["where"] == "127.0.0.1:1"
    monkeypatch.setattr(session, "FRESH_S", 0)
    assert got(client, "runs")["items"] == []


def test_requests_share_a_session_and_an_outage_replaces_it(
    journal: Journal, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    got(client, "runs")
    first = shared.of(DEFAULT_JOURNAL)._control
    got(client, "grid")
    assert shared.of(DEFAULT_JOURNAL)._control is first

    def fail(*_: Any, **__: Any) -> None:
        raise CassandraUnavailable("too late")

    with monkeypatch.context() as patched:
        patched.setattr("tidemark.status.runs.runs_page", fail)
        assert problem(client, "runs", 503)["what"] == "too late"
    got(client, "runs")
    assert shared.of(DEFAULT_JOURNAL)._control is not first
    assert first is not None
    assert first._cluster.is_shutdown


def test_answers_are_as_the_openapi_document_says(
    journal: Journal, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever parameters schemathesis makes up, of the document and against it."""
    seed(journal)
    document = client.get(f"{API}/openapi.json").json()
    assert set(document["paths"]) == {
        *(f"{API}/{name}" for name in (*COMMANDS, *OF_PAGE)),
        *(f"{API}/orders", f"{API}/orders/preview"),
    }
    schema = schemathesis.openapi.from_dict(document).include(method="GET")
    schema.app = app
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        answered(result.ok().as_strategy())


def answered(cases: Any) -> None:
    @given(cases)
    @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def answers(case: Case[Any]) -> None:
        # Of tokens the document says no more than that they are texts.
        case.call_and_validate(excluded_checks=[positive_data_acceptance])

    answers()


def test_browsers_ask_for_newer_files_of_the_page(client: TestClient) -> None:
    """Otherwise they mix files of two versions after an update."""
    for path in ("/", "/static/page.js"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "no-cache")
