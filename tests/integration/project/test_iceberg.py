"""Mode export into an Iceberg table, from the events to another program that reads it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from tests import duckdb_reader
from tests.integration.project.projections import (
    HOUR_MS,
    START_MS,
    Projections,
    counts,
    event,
)
from tests.integration.support import Result

LAKE = """\
/*---
name: lake
version: 1
source:
  tags: [red]
mode: export
file-format: iceberg
target: all.events
event: kind STRING, amount INT
---*/

SELECT time_bucket, persistence_id, sequence_nr, kind, amount FROM events
"""
POLICY = """\
policies:
  - name: old-snapshots
    target: iceberg-snapshots
    keep-days: 7
"""
EVENTS = (
    event("a|1", 1, 0.1, "red", kind="in", amount=1),
    event("a|1", 2, 1.1, "red", kind="in", amount=2),
    event("a|2", 1, 1.2, "red", kind="out"),
)
DAY_S = 86_400


def test_a_time_bucket_is_replaced_and_old_snapshots_and_files_are_purged(
    projections: Projections, tmp_path: Path
) -> None:
    projections.define(LAKE)
    projections.insert(*EVENTS)
    projections.validated(0, 1)
    first = export(projections, tmp_path)
    assert first.status == 0, first.stderr
    assert first.report["counts"] == counts(events_read=3, rows_written=3, accepted=3)
    second = START_MS + HOUR_MS
    rows = [
        (START_MS, "a|1", 1, "in", 1),
        (second, "a|1", 2, "in", 2),
        (second, "a|2", 1, "out", None),
    ]
    assert exported(tmp_path) == rows
    assert first.report["details"]["tables"]["written"] == ["all.events"]

    # Hour 0 loses its only event, hour 1 gets another.
    journal = projections.journal
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.tag_views WHERE tag_name = ? AND timebucket = ?",
        ("red", START_MS),
    )
    projections.insert(event("a|3", 1, 1.5, "red", kind="late", amount=1))
    again = export(projections, tmp_path, "--force", "--accept-purged")
    assert again.status == 0, again.stderr
    assert exported(tmp_path) == [*rows[1:], (second, "a|3", 1, "late", 1)]
    number = "SELECT count(*) FROM iceberg_snapshots('{}')".format(tmp_path / "lake/all/events")
    # The first is that of the table's creation.
    assert duckdb_reader.rows(tmp_path / "lake/all/events", number) == [(3,)]

    data = tmp_path / "lake/all/events/data"
    young, old = data / "young.parquet", data / "old.parquet"
    for file in (young, old):
        file.write_bytes(b"of a killed run")
    os.utime(old, times=(time.time() - 8 * DAY_S,) * 2)
    policies = tmp_path / "retention.yaml"
    policies.write_text(POLICY)
    options = {"RETENTION_FILE": str(policies), "PROJECTIONS_DIR": str(projections.directory)}
    planned = journal.run("purge", **options)
    assert planned.status == 0, planned.stderr
    assert "  all.events: 0 old snapshots, 1 file of killed runs" in planned.stdout.splitlines()
    assert old.exists()
    purged = journal.run("purge", "--apply", **options)
    assert purged.status == 0, purged.stderr
    assert purged.report["counts"]["iceberg_orphans_deleted"] == 1
    assert young.exists()
    assert not old.exists()
    assert len(exported(tmp_path)) == 3
    assert journal.run("purge", "--apply", **options).report["state"] == "nothing-to-do"


def test_a_changed_definition_adds_columns_and_may_not_leave_any_out(
    projections: Projections, tmp_path: Path
) -> None:
    projections.define(LAKE.replace(", amount FROM", " FROM"))
    projections.insert(*EVENTS)
    projections.validated(0, 1)
    assert export(projections, tmp_path).status == 0
    projections.define(LAKE)
    added = export(projections, tmp_path)
    assert added.status == 0, added.stderr
    assert [row[-1] for row in exported(tmp_path)] == [1, 2, None]

    projections.define(LAKE.replace(", kind, amount FROM", ", kind, 'x' AS amount FROM"))
    for options in ((), ("--dry-run",)):
        refused = export(projections, tmp_path, *options)
        assert refused.status == 3, refused.stderr
        [line] = refused.error_lines
        assert "amount is string in the result and int in the table" in line
    assert [row[-1] for row in exported(tmp_path)] == [1, 2, None]


def test_a_directory_that_cannot_hold_the_tables_is_refused_first(
    projections: Projections,
) -> None:
    projections.define(LAKE)
    projections.validated(0, 1)
    projections.journal.environment = {
        **projections.journal.environment,
        "TIDEMARK_EXPORT_DIR": "s3a://bucket/lake",
    }
    refused = projections.run(0, 2)
    assert refused.status == 2
    [line] = refused.error_lines
    assert "mode export does not write to s3a" in line
    assert "or name a catalog of Spark's in TIDEMARK_ICEBERG_CATALOG" in line
    assert projections.states() == []


def export(projections: Projections, tmp_path: Path, *options: str) -> Result:
    projections.journal.environment = {
        **projections.journal.environment,
        "TIDEMARK_EXPORT_DIR": str(tmp_path / "lake"),
    }
    return projections.run(0, 2, *options)


def exported(tmp_path: Path) -> list[tuple[Any, ...]]:
    """Read the table by DuckDB."""
    order = "SELECT * FROM events ORDER BY time_bucket, persistence_id, sequence_nr"
    return duckdb_reader.rows(tmp_path / "lake/all/events", order)
