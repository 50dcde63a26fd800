"""A real Airflow whose connection of Spark is a cluster: its runs do what runs here do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from embedded.airflow import rest
from embedded.airflow.server import Airflow
from embedded.spark.cluster import SparkCluster
from tests.cluster.accounts import WINDOW
from tests.cluster.read_models import read_models, with_workers
from tests.dags.conftest import PARSED_RARELY
from tests.integration.kafka_topic import Topic
from tests.integration.project.projections import Projections
from tests.integration.support import Journal

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
DEADLINE_S = 600
CHAIN = ("tag_write", "validate", "project", "purge")
BY_HAND: tuple[tuple[str, dict[str, object]], ...] = (
    ("reconcile", {"operation": "rebuild", "all": True, "dry_run": False}),
    ("reconcile", {"operation": "check"}),
    (
        "cleanup",
        {"operation": "tagged-events", "persistence_ids": ["account|3"], "dry_run": False},
    ),
    ("replicate", {}),
    ("manage_projections", {"operation": "status"}),
)
GROUP = """
group: raise
events:
  - {name: read, many: true, statement: "SELECT id, n FROM <note>", expect: some}
  - name: raise
    each: read
    after: [read]
    statement: UPDATE <note> SET n = :n WHERE id = :id
    needs: [{event: read, as: id}, {event: read, as: n, sql: n + 1}]
"""
TABLES = ("note", "journal", "metajournal", "pointer2")


@dataclass(frozen=True)
class There:
    """An Airflow, and what its applications work on."""

    client: httpx.Client
    projections: Projections

    def run(self, dag_id: str, **conf: object) -> None:
        """Trigger a DAG and require that it succeeds."""
        run_id = rest.trigger(self.client, dag_id, conf=conf)
        run = rest.wait_for_run(self.client, dag_id, run_id, DEADLINE_S)
        assert run["state"] == "success", rest.task_log(self.client, dag_id, run_id, dag_id)


@pytest.fixture
def topic(kafka: str) -> Topic:
    """Return a topic with a few events."""
    topic = Topic(kafka)
    topic.append("a", [1, 2, 3])
    topic.delete("a", 2)
    topic.append("b", [1])
    topic.flush()
    return topic


def make(make_projections: Callable[[str], Projections], topic: Topic, name: str) -> Projections:
    """Return a journal with projections, a topic that feeds it, and a table for event groups."""
    projections = make_projections(name)
    journal = projections.journal
    topic.feeds(journal)
    journal.control.execute_ddl(f"CREATE TABLE {journal.keyspace}.note (id int PRIMARY KEY, n int)")
    journal.insert("note", [{"id": number, "n": number} for number in range(100)])
    return projections


@pytest.fixture
def there(
    make_projections: Callable[[str], Projections],
    topic: Topic,
    spark_cluster: SparkCluster,
    bare_python: Path,
    worker_packages: Path,
    tmp_path: Path,
) -> Iterator[There]:
    """Yield an Airflow that submits to the cluster."""
    projections = make(make_projections, topic, "there")
    environment = {
        **PARSED_RARELY,
        **with_workers(projections, bare_python).environment,
        "TIDEMARK_CADENCE": "off",
        "TIDEMARK_REPLICATE_MINUTES": "0",
        "TIDEMARK_SPARK_MASTER": spark_cluster.url,
        "TIDEMARK_SPARK_WORKER_PACKAGES": str(worker_packages),
    }
    server = Airflow(tmp_path / "airflow", environment)
    try:
        server.start()
        with server.client() as client:
            dags = {*CHAIN, *(name for name, _ in BY_HAND), "submit_event_groups", "event_groups"}
            rest.wait_until("the DAGs to be parsed", DEADLINE_S, lambda: _known(client, dags))
            for dag_id in dags:
                rest.unpause(client, dag_id)
            yield There(client, projections)
    finally:
        server.stop()


def _known(client: httpx.Client, dags: set[str]) -> bool | None:
    known = {dag["dag_id"] for dag in rest.call(client, "GET", "dags")["dags"]}
    return known >= dags or None


def test_every_application_does_on_a_cluster_what_it_does_here(
    there: There,
    make_projections: Callable[[str], Projections],
    topic: Topic,
    tmp_path: Path,
) -> None:
    here = make(make_projections, topic, "here")
    group = tmp_path / "group.yaml"
    group.write_text(_group(here.journal))
    window = ("tag_write", *WINDOW), ("validate", *WINDOW), ("project", *WINDOW)
    by_hand: Sequence[tuple[str, ...]] = (
        ("reconcile", "rebuild", "--all", "--apply"),
        ("cleanup", "tagged-events", "--persistence-id", "account|3", "--apply"),
        ("replicate",),
        ("run_event_groups", "submit", str(group)),
        ("run_event_groups",),
    )
    for command in (*window, *by_hand):
        result = here.journal.run(*command, PROJECTIONS_DIR=str(here.directory))
        assert result.status == 0, result.stderr

    there.run("tag_write", window_start=WINDOW[1], window_end=WINDOW[3])
    for dag_id in CHAIN[1:]:
        [run] = rest.wait_for_runs(there.client, dag_id, "asset_triggered", 1, DEADLINE_S)
        assert run["state"] == "success", dag_id
    for dag_id, conf in BY_HAND:
        there.run(dag_id, **conf)
    there.run("submit_event_groups", group=_group(there.projections.journal))
    there.run("event_groups")

    assert there.projections.journal.tag_tables() == here.journal.tag_tables()
    assert read_models(there.projections) == read_models(here)
    for name in TABLES:
        rows = [_comparable(at, name) for at in (there.projections.journal, here.journal)]
        assert rows[0] == rows[1] != [], name


def _group(journal: Journal) -> str:
    return GROUP.replace("<note>", f"{journal.keyspace}.note")


def _comparable(journal: Journal, name: str) -> list[dict[str, object]]:
    """Return the rows of a table without the times and the name of the run that wrote them."""
    left_out = {"created", "updated", "created_date", "replicated", "origin"}
    rows = [
        {column: value for column, value in row.items() if column not in left_out}
        for row in journal.rows(name)
    ]
    return sorted(rows, key=str)
