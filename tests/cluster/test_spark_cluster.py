"""Applications by hand on a Spark cluster, whose workers have Spark and a bare Python only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from embedded.spark.cluster import SparkCluster
from tests.cluster.accounts import WINDOW, events
from tests.integration import fold_books
from tests.integration.projections import (
    LATEST,
    LATEST_TABLE,
    TOTALS,
    TOTALS_TABLE,
    Projections,
)
from tests.integration.support import ROOT, Journal, wait_until
from tidemark.cassandra.control import Row
from tidemark.cassandra.schema import create_own_tables
from tidemark_airflow.environment.drivers import report_of

pytestmark = pytest.mark.long
DECODED = """\
/*---
name: decoded
version: 1
source: messages
mode: upsert
target: {keyspace}.decoded
event: kind STRING, amount INT
decoders:
  - {serializer-id: 20, kind: python, function: "readers:read"}
---*/

SELECT persistence_id, sequence_nr, kind, amount FROM events
"""
READERS = """\
import json


def read(payloads):
    return payloads.map(json.loads)
"""
READ_MODELS = ("totals", "latest", "books", "decoded")


@pytest.fixture
def make_projections(
    make_journal: Callable[..., Journal], tmp_path: Path
) -> Callable[[str], Projections]:
    """Return a maker of journals with the same events and the same four projections."""

    def make(name: str) -> Projections:
        (tmp_path / name).mkdir()
        projections = Projections(make_journal(), tmp_path / name)
        projections.insert_messages(*events())
        projections.list_persistence_ids()
        create_own_tables(projections.journal.control, projections.journal.settings())
        projections.define(TOTALS, TOTALS_TABLE, "totals.sql")
        projections.define(LATEST, LATEST_TABLE, "latest.sql")
        decoded = DECODED.replace("{keyspace}", projections.journal.keyspace)
        (projections.directory / "decoded.sql").write_text(decoded)
        (projections.directory / "readers.py").write_text(READERS)
        projections.journal.control.execute_ddl(
            LATEST_TABLE.replace(".latest", ".decoded").format(
                keyspace=projections.journal.keyspace
            )
        )
        fold_books.define(projections, table=fold_books.TABLE)
        return projections

    return make


def read_models(projections: Projections) -> Mapping[str, list[Row]]:
    return {name: projections.journal.rows(name) for name in READ_MODELS}


def with_workers(projections: Projections, python: Path) -> Journal:
    """Return the journal with an environment that names the workers' Python."""
    journal = projections.journal
    own = {"PYSPARK_PYTHON": str(python), "TIDEMARK_PROJECTIONS_DIR": str(projections.directory)}
    # Nothing of the applications is on the workers' class path, either.
    left = {name: value for name, value in journal.environment.items() if "CLASSPATH" not in name}
    return Journal(journal.control, {**left, **own}, journal.keyspace, journal.own_keyspace)


def test_applications_by_hand_do_on_a_cluster_what_they_do_here(
    make_projections: Callable[[str], Projections],
    spark_cluster: SparkCluster,
    bare_python: Path,
    worker_packages: Path,
) -> None:
    here, there = make_projections("here"), make_projections("there")
    journal = with_workers(there, bare_python)
    settings = {"SPARK_MASTER": spark_cluster.url, "SPARK_WORKER_PACKAGES": str(worker_packages)}
    for application in ("tag_write", "validate", "project"):
        expected = here.journal.run(application, *WINDOW, PROJECTIONS_DIR=str(here.directory))
        assert expected.status == 0, expected.stderr
        result = journal.run_alone(application, *WINDOW, **settings)
        assert result.status == 0, result.stderr
        assert result.report["counts"] == expected.report["counts"], application
    # As Airflow asks where the driver has run elsewhere.
    report = report_of(result.report["run_id"], journal.environment, ROOT)
    assert report is not None
    assert report["counts"] == result.report["counts"]
    assert there.journal.tag_tables() == here.journal.tag_tables()
    assert read_models(there) == read_models(here)
    assert all(read_models(there).values())


def test_workers_without_packages_are_told_of_before_an_event_is_read(
    make_projections: Callable[[str], Projections], spark_cluster: SparkCluster, bare_python: Path
) -> None:
    there = make_projections("there")
    there.validated(0, 1, 2)
    there.insert_tag_views(*events())
    journal = with_workers(there, bare_python)
    result = journal.run_alone(
        "project", "--projection", "books", *WINDOW, SPARK_MASTER=spark_cluster.url
    )
    assert result.status == 2, result.stderr
    [line] = result.error_lines
    assert "the Python workers of Spark have no pandas; no pyarrow; no cbor2" in line
    assert "docs/cluster.md" in line
    assert there.journal.rows("books") == []


def test_an_executor_that_dies_changes_no_row(
    make_projections: Callable[[str], Projections], spark_cluster: SparkCluster, bare_python: Path
) -> None:
    here, there = make_projections("here"), make_projections("there")
    expected = here.journal.run("tag_write", *WINDOW)
    assert expected.status == 0, expected.stderr
    journal = with_workers(there, bare_python)
    script = ROOT / "spark_apps" / "tag_write.py"
    # Slow enough to be met in the middle of its rows.
    process = journal.start(script, *WINDOW, SPARK_MASTER=spark_cluster.url, WRITE_RATE="20")
    wait_until("the first rows", lambda: bool(journal.rows("tag_views")), deadline_s=300)
    assert spark_cluster.kill_executors("worker-1") == 1
    _, stderr = process.communicate()
    assert process.returncode == 0, stderr
    assert there.journal.tag_tables() == here.journal.tag_tables()
