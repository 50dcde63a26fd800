"""Three journals of one Airflow, compared with three installations with a journal each."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook, Connection
from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.sdk.exceptions import AirflowNotFoundException

from embedded.cassandra.server import Endpoint
from tests.integration.connections import know
from tests.integration.flights import FlightsJournal
from tests.integration.support import ROOT, Journal, run_inside
from tests.integration.test_chain import stored
from tidemark_airflow.environment.drivers import projection_names
from tidemark_airflow.journals.journal import environment

FLIGHTS = 20
APPLICATIONS = ("tag_write", "validate", "project")
WINDOWS = {
    "Day": ("2013-01-01", "2013-01-02"),
    "Hour": ("2013-01-01T08:00Z", "2013-01-01T12:00Z"),
    "Minute": ("2013-01-01T09:00Z", "2013-01-01T09:10Z"),
}
"""The window of each bucket size; each has events."""


def flights_in(make_journal: Callable[..., Journal], directory: Path) -> FlightsJournal:
    """Return a journal with one projection: each further one costs a run in each journal."""
    flights = FlightsJournal.create(make_journal, directory, FLIGHTS)
    (directory / "daily_punctuality.sql").unlink()
    return flights


@pytest.fixture
def apart(make_journal: Callable[..., Journal], tmp_path: Path) -> dict[str, FlightsJournal]:
    """Return a journal of each bucket size, after a chain in an installation of its own."""
    journals = {}
    for size, (start, end) in WINDOWS.items():
        flights = flights_in(make_journal, tmp_path / f"apart-{size}")
        window = ("--window-start", start, "--window-end", end)
        for application in APPLICATIONS:
            result = flights.journal.run(application, *window, BUCKET_SIZE=size)
            assert result.status == 0, result.stderr
        journals[size] = flights
    return journals


@pytest.fixture
def together(make_journal: Callable[..., Journal], tmp_path: Path) -> dict[str, FlightsJournal]:
    """Return an empty journal of each bucket size with the same events."""
    return {size: flights_in(make_journal, tmp_path / f"together-{size}") for size in WINDOWS}


def test_journals_of_one_airflow_have_the_tables_of_single_installations(
    apart: dict[str, FlightsJournal],
    together: dict[str, FlightsJournal],
    make_journal: Callable[..., Journal],
    cassandra: Endpoint,
    tmp_path: Path,
) -> None:
    """The journal of the environment has another keyspace, bucket size and directory."""
    other = flights_in(make_journal, tmp_path / "default")
    entries = {
        size.lower(): {
            "journal-keyspace": flights.journal.keyspace,
            "keyspace": flights.journal.own_keyspace,
            "bucket-size": size,
            "projections-dir": flights.journal.environment["TIDEMARK_PROJECTIONS_DIR"],
            "tagging-dir": str(ROOT / "include" / "sql" / "tagging"),
            "checks-dir": str(ROOT / "include" / "sql" / "checks"),
        }
        for size, flights in together.items()
    }
    file = tmp_path / "journals.yaml"
    file.write_text(yaml.safe_dump({"journals": entries}))
    variables = {**other.journal.environment, "TIDEMARK_JOURNALS_FILE": str(file)}
    variables["TIDEMARK_CASSANDRA_HOSTS"] = "127.0.0.1:1"  # The connection comes before it.
    with airflow(cassandra, variables) as bag:
        # Interleaved, as their schedules would start them.
        for application in APPLICATIONS:
            for size, flights in together.items():
                know(
                    flights.journal.control, flights.journal.keyspace, flights.journal.own_keyspace
                )
                run_task(bag, application, size)
    for size, flights in together.items():
        assert stored(flights) == stored(apart[size]), size
        assert flights.journal.rows("tag_views")
        assert {row["bucket_size"] for row in flights.journal.own_rows("piece")} == {size}
    assert other.journal.rows("tag_views") == []
    assert other.journal.own_rows("run") == []


@contextmanager
def airflow(
    cassandra: Endpoint,
    variables: dict[str, str],
    more_connections: Mapping[str, Connection] | None = None,
) -> Iterator[Any]:
    """Yield the DAGs; their operators run applications here in place of spark-submit."""
    connections = {
        **(more_connections or {}),
        "spark_default": Connection(conn_id="spark_default", conn_type="spark", host="local[*]"),
        "cassandra_default": Connection(
            conn_id="cassandra_default",
            conn_type="cassandra",
            host=cassandra.host,
            port=cassandra.port,
            login=cassandra.username,
            password=cassandra.password,
        ),
    }

    def submit(operator: Any, context: Any) -> None:
        given = {**os.environ, **operator.env_vars}
        result = run_inside(Path(operator.application), operator.application_args, given)
        assert result.status == 0, result.stderr

    def connection_of(conn_id: str) -> Connection:
        if conn_id not in connections:
            raise AirflowNotFoundException(f"the conn_id `{conn_id}` isn't defined")
        return connections[conn_id]

    with (
        patch.dict(os.environ, variables),
        patch.object(BaseHook, "get_connection", connection_of),
        patch.object(SparkSubmitOperator, "execute", submit),
        patch.object(ExecutorSafeguard, "test_mode", True),
    ):
        bag = DagBag(str(ROOT / "dags"))
        assert not bag.import_errors
        yield bag


def run_task(bag: Any, application: str, size: str) -> None:
    """Run an application of a journal over its window, as the task of its DAG does."""
    run_task_of(bag, application, size.lower(), WINDOWS[size])


def run_task_of(bag: Any, application: str, journal: str, window: tuple[str, str]) -> None:
    """Run an application of a journal over a window, as the task of its DAG does."""
    dag = bag.dags[f"{application}.{journal}"]
    task = dag.get_task(application)
    start, end = window
    tasks = [copy.copy(task)]
    if isinstance(task, MappedOperator):
        names = projection_names(ROOT, environment(journal))
        tasks = [task.unmap({"options": {"--projection": name}}) for name in names]
    for number, one in enumerate(tasks):
        one.window = {"start": start, "end": end, "source": "params"}
        context: dict[str, Any] = {
            "dag_run": SimpleNamespace(run_type=SimpleNamespace(value="manual"), conf={}),
            "params": dag.params.dump(),
            "outlet_events": _Outlets(),
            "ti": SimpleNamespace(
                dag_id=dag.dag_id,
                run_id="r",
                try_number=1,
                map_index=number,
                xcom_push=lambda **_: None,
            ),
        }
        one.execute(context)


class _Outlets:
    """The outlet_events of a context, which take everything."""

    def __getitem__(self, asset: Any) -> Any:
        return SimpleNamespace(extra={}, add=lambda *_, **__: None)
