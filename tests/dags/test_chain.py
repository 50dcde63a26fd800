"""The DAGs that assets chain, in a real scheduler, with real Spark on a real journal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
import pytest

from embedded.airflow import rest
from embedded.airflow.server import Airflow
from tests.integration import flights
from tests.integration.conftest import control, make_journals, pool
from tests.integration.flights import FlightsJournal
from tests.integration.support import Journal

__all__ = ["control", "make_journals", "pool"]

WINDOW = {"window_start": "2013-01-01T00:00:00Z", "window_end": "2013-01-06T00:00:00Z"}
DAGS = ("tag_write", "validate", "project", "purge")
DEADLINE_S = 300


@dataclass
class CommandLines:
    """A watcher that collects the command lines of all processes of this machine."""

    seen: set[str] = field(default_factory=set)
    _ended: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> threading.Thread:
        """Watch until `end`."""
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        return thread

    def end(self) -> None:
        """Stop watching."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            for process in psutil.process_iter(["cmdline"]):
                self.seen.add("\0".join(process.info["cmdline"] or []))


@dataclass(frozen=True)
class Chain:
    """An Airflow whose applications work on a journal."""

    loaded: FlightsJournal
    client: httpx.Client
    password: str

    def trigger(self, dag_id: str, **conf: object) -> str:
        """Trigger a DAG with the window, wait for the end, and return the run's id."""
        run_id = rest.trigger(self.client, dag_id, conf={**WINDOW, **conf})
        rest.wait_for_run(self.client, dag_id, run_id, DEADLINE_S)
        return run_id

    def by_asset(self, dag_id: str) -> list[str]:
        """Return the ids of the runs that an asset has started."""
        runs = rest.runs(self.client, dag_id)
        return [run["dag_run_id"] for run in runs if run["run_type"] == "asset_triggered"]


@pytest.fixture(scope="module")
def chain(
    state: Path,
    make_journals: Callable[..., Journal],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Chain]:
    directory = tmp_path_factory.mktemp("chain") / "projections"
    loaded = FlightsJournal.create(make_journals, directory, flights=150, CADENCE="off")
    environment = dict(loaded.journal.environment)
    server = Airflow(state / "chain", environment)
    try:
        server.start()
        with server.client() as client:
            rest.wait_until(
                "the DAGs to be parsed",
                DEADLINE_S,
                lambda: _known(client) >= set(DAGS) or None,
            )
            for dag_id in DAGS:
                rest.unpause(client, dag_id)
            yield Chain(loaded, client, environment["TIDEMARK_CASSANDRA_PASSWORD"])
    finally:
        server.stop()


def _known(client: httpx.Client) -> set[str]:
    return {dag["dag_id"] for dag in rest.call(client, "GET", "dags")["dags"]}


def test_each_dag_starts_when_the_one_before_has_produced_something(chain: Chain) -> None:
    commands = CommandLines()
    watching = commands.watch()
    run_id = chain.trigger("tag_write")
    assert rest.task_state(chain.client, "tag_write", run_id, "tag_write") == "success", (
        rest.task_log(chain.client, "tag_write", run_id, "tag_write")
    )
    states = {}
    for dag_id in DAGS[1:]:
        [run] = rest.wait_for_runs(chain.client, dag_id, "asset_triggered", 1, DEADLINE_S)
        states[dag_id] = rest.task_state(chain.client, dag_id, run["dag_run_id"], dag_id)
        if dag_id == "purge":
            # The window that was just done never holds time buckets past their retention.
            log = rest.task_log(chain.client, dag_id, run["dag_run_id"], "resolve_window")
            assert "no window was given" in log
            continue
        window = rest.xcom(chain.client, dag_id, run["dag_run_id"], "resolve_window")
        assert (window["start"], window["end"]) == tuple(WINDOW.values())
    commands.end()
    watching.join()

    # purge, started by an asset, is a dry run: nothing is deleted, the plan is in its log.
    assert states == {"validate": "success", "project": "success", "purge": "skipped"}
    journal, events = chain.loaded.journal, chain.loaded.events
    assert len(journal.rows("tag_views")) == len(flights.expected_tag_rows(events))
    assert len(journal.rows("daily_punctuality")) == len(flights.expected_punctuality(events))
    assert len(journal.rows("aircraft_state")) == len(flights.expected_state(events))
    [audited] = journal.own_rows("audit")
    assert audited["dry_run"] is True

    assert any("spark_apps/tag_write.py" in line for line in commands.seen)
    assert not any(chain.password in line for line in commands.seen)
    log = rest.task_log(chain.client, "tag_write", run_id, "tag_write")
    assert "tag rows written" in log
    assert chain.password not in log


def test_nothing_new_starts_nothing_downstream(chain: Chain) -> None:
    before = chain.by_asset("validate")
    run_id = chain.trigger("tag_write")
    assert rest.task_state(chain.client, "tag_write", run_id, "tag_write") == "skipped"
    assert chain.by_asset("validate") == before


def test_failed_check_stops_what_is_downstream(chain: Chain) -> None:
    journal = chain.loaded.journal
    doomed = next(row for row in journal.rows("tag_views") if row["tag_pid_sequence_nr"] == 2)
    key = ("tag_name", "timebucket", "timestamp", "persistence_id", "tag_pid_sequence_nr")
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.tag_views WHERE "
        + " AND ".join(f"{name} = ?" for name in key),
        [doomed[name] for name in key],
    )
    before = chain.by_asset("project")
    run_id = rest.trigger(chain.client, "validate", conf={**WINDOW, "force": True})
    rest.wait_until(
        "the first try of validate to fail",
        DEADLINE_S,
        lambda: (
            rest.task_state(chain.client, "validate", run_id, "validate")
            in ("up_for_retry", "failed")
            or None
        ),
    )
    log = rest.task_log(chain.client, "validate", run_id, "validate")
    assert doomed["persistence_id"] in log
    assert chain.by_asset("project") == before
