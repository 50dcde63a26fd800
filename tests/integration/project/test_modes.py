"""The modes append and export in a real Cassandra and real files, and a tried definition."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from tests.integration.project.projections import (
    HOUR_MS,
    LATEST,
    LATEST_TABLE,
    START,
    START_MS,
    TOTALS,
    TOTALS_TABLE,
    Event,
    Projections,
    counts,
    event,
)
from tests.integration.support import Result
from tidemark.cassandra.control import Row
from tidemark.project.sources.messages import MessagesSource
from tidemark.project.writing import export_files

LOG = """\
/*---
name: log
version: 1
source: messages
mode: append
target: {keyspace}.log
event: kind STRING, amount INT
---*/

SELECT kind, hour(timestamp) AS hour, persistence_id, sequence_nr, amount FROM events
"""
LOG_TABLE = """\
CREATE TABLE {keyspace}.log (kind text, hour int, persistence_id text, sequence_nr bigint,
    amount int, PRIMARY KEY ((kind, hour), persistence_id, sequence_nr))"""
LAKE = """\
/*---
name: lake
version: 1
source:
  tags: [red]
mode: export
target: all/events
event: kind STRING, amount INT
---*/

SELECT time_bucket, persistence_id, sequence_nr, timestamp AS at, kind, amount FROM events
"""
EVENTS = (
    event("a|1", 1, 0.1, "red", kind="in", amount=5),
    event("a|1", 2, 1.2, "red", kind="in"),
    event("a|2", 1, 0.3, kind="out", amount=7),
    event("a|2", 2, 1.4, "red", kind="in", amount=9),
)


def logged(journal_rows: list[Row]) -> list[tuple[Any, ...]]:
    return sorted(
        (row["persistence_id"], row["sequence_nr"], row["kind"], row["hour"], row["amount"])
        for row in journal_rows
    )


EXPECTED_LOG = [
    ("a|1", 1, "in", 0, 5),
    ("a|1", 2, "in", 1, None),
    ("a|2", 1, "out", 0, 7),
    ("a|2", 2, "in", 1, 9),
]


def test_append_has_a_row_for_each_event_and_a_corrected_version_wins_in_every_cell(
    projections: Projections,
) -> None:
    projections.define(LOG, LOG_TABLE)
    projections.insert(*EVENTS)
    projections.validated(1)
    assert projections.run(1, 2).report["counts"]["rows_written"] == 2
    projections.validated(0)
    late = projections.run(0, 1)
    assert late.report["counts"] == counts(events_read=2, rows_written=2, duplicate=2)
    assert logged(projections.journal.rows("log")) == EXPECTED_LOG
    before = _with_write_times(projections)
    assert {row["at"] for row in before} == {1, None}
    assert projections.run(0, 2, "--force").report["counts"]["rows_written"] == 4
    assert _with_write_times(projections) == before

    # Smaller values, and a null instead of a value, replace the old ones only by write time.
    corrected = LOG.replace("amount FROM", "nullif(amount - 5, 0) AS amount FROM")
    projections.define(corrected)
    (refusal,) = projections.run(0, 2).error_lines
    assert "log has changed, but version 1 was used before" in refusal
    projections.define(corrected.replace("version: 1", "version: 2"))
    assert projections.run(0, 2).report["pieces"]["done"] == 2
    amounts = [row[-1] for row in logged(projections.journal.rows("log"))]
    assert amounts == [None, None, 2, 4]


def test_upsert_reads_what_follows_its_offsets_and_only_of_ids_with_news(
    projections: Projections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a persistence id whose new event tag-write has not seen, it is read a day later."""
    projections.define(LATEST, LATEST_TABLE)
    projections.insert(event("a|1", 1, 0.1, kind="in"), event("b|1", 1, 0.2, kind="in"))
    projections.list_persistence_ids()
    projections.validated(*range(4), 24)
    projections.tagged(1, 2, 24)
    assert projections.run(0, 1).report["counts"]["accepted"] == 2

    def refuse(*_: object) -> None:
        raise AssertionError("a time bucket was read")

    monkeypatch.setattr(MessagesSource, "_rows", refuse)

    def seen(persistence_id: str, sequence_nr: int) -> None:
        row = {"persistence_id": persistence_id, "sequence_nr": sequence_nr}
        projections.journal.insert("tag_scanning", [row])

    seen("a|1", 2)
    seen("b|1", 1)
    projections.insert(event("a|1", 2, 1.1, kind="out"), event("b|1", 2, 1.2, kind="out"))
    second = projections.run(1, 2)
    assert second.report["counts"] == counts(events_read=1, accepted=1, rows_written=1)

    seen("b|1", 2)
    third = projections.run(2, 3)
    assert third.report["counts"] == counts(events_read=1, accepted=1, rows_written=1)
    assert third.report["pieces"]["done"] == 2

    # tag-write has not been over the hour: what it has seen says nothing.
    projections.insert(event("b|1", 3, 3.3, kind="in"))
    fourth = projections.run(3, 4)
    assert fourth.report["counts"] == counts(events_read=1, accepted=1, rows_written=1)

    projections.insert(event("b|1", 4, 1.3, kind="in"))
    daily = projections.run(24, 25)
    assert daily.report["counts"] == counts(events_read=1, accepted=1, rows_written=1)


def test_a_row_of_upsert_that_is_deleted_goes_and_comes_back_with_a_newer_event(
    projections: Projections,
) -> None:
    deleting = LATEST.replace("kind, amount FROM", "kind, amount, kind = 'gone' AS deleted FROM")
    projections.define(deleting, LATEST_TABLE)
    projections.insert_messages(
        event("a|1", 1, 0.1, kind="in", amount=5), event("a|2", 1, 0.2, kind="in", amount=7)
    )
    projections.validated(0)
    assert projections.run(0, 1).report["counts"]["rows_written"] == 2
    projections.insert_messages(
        event("a|1", 2, 1.1, kind="gone"), event("a|3", 1, 1.2, kind="gone")
    )
    projections.validated(1)
    second = projections.run(1, 2)
    assert second.report["counts"] == counts(events_read=2, accepted=2, rows_deleted=2)

    def latest() -> list[Row]:
        return sorted(
            projections.journal.rows("latest"), key=lambda row: str(row["persistence_id"])
        )

    deadline = time.monotonic() + 60
    while len(latest()) > 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [row["persistence_id"] for row in latest()] == ["a|2"]
    # An older event that is processed again does not bring the row back; a newer one does.
    assert projections.run(0, 1, "--force").status == 0
    assert [row["persistence_id"] for row in latest()] == ["a|2"]
    projections.insert_messages(event("a|1", 3, 2.1, kind="back", amount=9))
    projections.validated(2)
    assert projections.run(2, 3).report["counts"]["rows_written"] == 1
    assert [(row["persistence_id"], row["kind"]) for row in latest()] == [
        ("a|1", "back"), ("a|2", "in")
    ]  # fmt: skip


def test_a_table_must_not_have_the_column_that_says_which_rows_are_deleted(
    projections: Projections,
) -> None:
    deleting = LATEST.replace("kind, amount FROM", "kind, amount, true AS deleted FROM")
    projections.define(deleting, LATEST_TABLE.replace("note text", "deleted boolean"))
    projections.insert_messages(event("a|1", 1, 0.1, kind="in"))
    projections.validated(0)
    (refusal,) = projections.run(0, 1).error_lines
    assert "deleted says which rows are deleted, and the table has such a column" in refusal


@pytest.mark.long
def test_all_batches_of_a_run_join_events_with_the_same_rows_of_a_table(
    projections: Projections,
) -> None:
    joining = LOG.replace("event:", "with: {kinds: {keyspace}.kinds}\nevent:").replace(
        "SELECT kind, ", "SELECT k.text AS kind, "
    )
    joining = joining.replace("FROM events", "FROM events e JOIN kinds k ON k.kind = e.kind")
    projections.define(joining, LOG_TABLE)
    projections.insert(*EVENTS)
    projections.validated(0, 1)
    (refusal,) = projections.run(0, 2).error_lines
    assert "kinds that projection log calls kinds does not exist" in refusal
    journal = projections.journal
    journal.control.execute_ddl(
        f"CREATE TABLE {journal.keyspace}.kinds (kind text PRIMARY KEY, text text)"
    )
    journal.insert("kinds", [{"kind": "in", "text": "arrival"}, {"kind": "away", "text": "none"}])
    result = projections.run(0, 2)
    assert result.report["counts"]["rows_written"] == 3
    assert {row["kind"] for row in journal.rows("log")} == {"arrival"}
    assert f"{journal.keyspace}.kinds" in result.report["details"]["tables"]["read"]


def test_export_replaces_a_bucket_and_leaves_nothing_of_a_dead_run(
    projections: Projections, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    projections.define(LAKE)
    projections.insert(*EVENTS)
    projections.validated(0, 1)
    first = _export(projections, tmp_path)
    assert first.status == 0, first.stderr
    assert first.report["counts"] == counts(events_read=3, rows_written=3, accepted=3)
    directory = tmp_path / "export" / "all" / "events"
    assert exported(directory) == expected_rows(EVENTS)
    second = START_MS + HOUR_MS
    by_spark = spark.read.parquet(f"file://{directory}").orderBy("at").collect()
    assert [row.time_bucket for row in by_spark] == [START_MS, second, second]

    # Hour 0 loses its only event, hour 1 gets another; the run dies between the two.
    journal = projections.journal
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.tag_views WHERE tag_name = ? AND timebucket = ?",
        ("red", START_MS),
    )
    late = event("a|3", 1, 1.5, "red", kind="late", amount=1)
    projections.insert(late)
    with monkeypatch.context() as patched:
        patched.setattr(export_files, "replace_bucket", _die)
        dead = _export(projections, tmp_path, "--force", "--accept-purged")
    assert dead.status == 1
    assert list(directory.parent.glob("_batch-*"))
    assert exported(directory) == expected_rows(EVENTS[1:])

    again = _export(projections, tmp_path, "--accept-purged")
    assert again.report["pieces"]["done"] == 2
    assert exported(directory) == expected_rows([*EVENTS[1:], late])
    assert [path.name for path in directory.parent.iterdir()] == ["events"]
    files = sorted(path.relative_to(directory) for path in directory.rglob("*") if path.is_file())
    assert files == [Path(f"time_bucket={second}/{journal.keyspace}.lake.parquet")]


def test_a_target_that_cannot_be_replaced_in_one_step_is_refused_first(
    projections: Projections, tmp_path: Path
) -> None:
    projections.define(LAKE.replace("all/events", "s3a://bucket/x"))
    projections.validated(0, 1)
    refused = _export(projections, tmp_path)
    assert refused.status == 2
    assert "mode export does not write to s3a" in refused.error_lines[0]
    assert projections.states() == []


@pytest.mark.long
def test_show_tries_a_definition_and_writes_nothing(
    projections: Projections, tmp_path: Path
) -> None:
    projections.define(TOTALS, TOTALS_TABLE)
    projections.define(LAKE, file="two.sql")
    poison = Event("a|9", 1, 1.1, frozenset({"red"}), b"{")
    projections.insert(*EVENTS[1:], poison)
    projections.validated(0, 1)
    result = _export(projections, tmp_path, "--dry-run", "--show", "--rows", "1")
    assert result.status == 0, result.stderr
    assert result.report["state"] == "planned"
    lines = [line.strip() for line in result.stdout.splitlines()]
    shown = lines.index("totals: 3 events of 2024-03-01 01:00, the first 1 rows of the result")
    assert lines[shown + 1 : shown + 8] == [
        "cannot be processed: a|9 1, not JSON",
        "no event has the tag blue: is it spelt as the actors spell it?",
        "+-------------+----+---+-----+",
        "|  time_bucket|kind|  n|total|",
        "+-------------+----+---+-----+",
        f"|{START_MS + HOUR_MS}|  in|  2|    9|",
        "+-------------+----+---+-----+",
    ]
    assert any(line.startswith("lake: 3 events of 2024-03-01 01:00") for line in lines)
    assert projections.states() == []
    assert projections.offsets() == {}
    assert projections.journal.rows("totals") == []
    assert projections.journal.own_rows("quarantine") == []
    assert not (tmp_path / "export").exists()
    alone = _export(projections, tmp_path, "--show")
    assert alone.status == 2
    assert "it writes nothing; give --dry-run with it" in alone.stderr


def exported(directory: Path) -> list[tuple[Any, ...]]:
    """Read the export with pandas: time bucket, id, number, time, kind and amount of each row."""
    rows: list[dict[str, Any]] = pd.read_parquet(directory).to_dict("records")  # type: ignore[assignment]
    return sorted(
        (
            (
                int(row["time_bucket"]),
                row["persistence_id"],
                row["sequence_nr"],
                row["at"].to_pydatetime(),
                row["kind"],
                None if pd.isna(row["amount"]) else int(row["amount"]),
            )
            for row in rows
        ),
        key=lambda row: row[1:3],
    )


def expected_rows(events: Any) -> list[tuple[Any, ...]]:
    """Compute by a loop the rows of the events that are tagged red."""
    rows = []
    for e in sorted(events, key=lambda e: (e.persistence_id, e.sequence_nr)):
        if "red" in e.tags:
            fields = json.loads(e.payload)
            moment = START.timestamp() + e.hours * 3600
            at = datetime.fromtimestamp(round(moment, 6), UTC)
            rows.append(
                (e.time_bucket, e.persistence_id, e.sequence_nr, at, fields["kind"],
                 fields.get("amount"))
            )  # fmt: skip
    return rows


def _export(projections: Projections, tmp_path: Path, *options: str) -> Result:
    projections.journal.environment = {
        **projections.journal.environment,
        "TIDEMARK_EXPORT_DIR": str(tmp_path / "export"),
    }
    return projections.run(0, 2, *options)


def _die(*arguments: object) -> None:
    raise RuntimeError("killed")


def _with_write_times(projections: Projections) -> list[Row]:
    keyspace = projections.journal.keyspace
    rows = projections.journal.control.execute(
        f"SELECT persistence_id, sequence_nr, amount, writetime(amount) AS at FROM {keyspace}.log"
    )
    return sorted(rows, key=lambda row: (row["persistence_id"], row["sequence_nr"]))
