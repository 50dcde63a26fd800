"""The application project in a real Cassandra: both modes, late and repeated events, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration.project.projections import (
    LATEST,
    LATEST_TABLE,
    SOME_EVENTS,
    START,
    START_MS,
    TOTALS,
    TOTALS_TABLE,
    Event,
    Projections,
    counts,
    event,
    totals,
)
from tidemark.cassandra.schema import create_own_tables
from tidemark.partitioning import keys
from tidemark.purge.needs.tag_views import needs_of_projections

pytestmark = pytest.mark.usefixtures("production")


def test_bucket_holds_what_a_loop_computes_and_stays_when_run_again(
    projections: Projections,
) -> None:
    projections.define(TOTALS, TOTALS_TABLE)
    projections.insert(*SOME_EVENTS, event("b|1", 1, 2.5, "red", kind="in", amount=7))
    projections.validated(0, 1)
    result = projections.run(0, 2)
    assert result.status == 0, result.stderr
    assert result.report["counts"] == counts(events_read=4, rows_written=3, accepted=5)
    assert result.report["pieces"] == {"planned": 2, "done": 2, "held": 0, "failed": 0}
    assert "totals: 2 buckets, 4 events read, 3 rows written, 0 quarantined" in result.stdout
    rows = projections.journal.rows("totals")
    assert rows == totals(SOME_EVENTS)
    progress = {
        name: projections.journal.own_rows(name)
        for name in ("projection_offset", "projection_cursor")
    }
    assert projections.offsets() == {
        ("totals", "a|1", "red"): (keys.slice_of("a|1"), 3, SOME_EVENTS[4].timestamp),
        ("totals", "a|1", "blue"): (keys.slice_of("a|1"), 1, SOME_EVENTS[1].timestamp),
        ("totals", "a|2", "blue"): (keys.slice_of("a|2"), 1, SOME_EVENTS[3].timestamp),
    }
    again = projections.run(0, 2)
    assert again.report["state"] == "nothing-to-do"
    assert "or with --force" in again.report["lines"][0]
    assert "starting Spark" not in again.stderr
    forced = projections.run(0, 2, "--force")
    assert forced.report["pieces"]["done"] == 2
    assert projections.journal.rows("totals") == rows
    for name, before in progress.items():
        assert projections.journal.own_rows(name) == before


@pytest.mark.long
def test_bucket_is_replaced_as_a_whole_even_if_the_clock_went_back(
    projections: Projections,
) -> None:
    journal = projections.journal
    projections.define(TOTALS, TOTALS_TABLE)
    projections.insert(*SOME_EVENTS)
    projections.validated(0, 1)
    assert projections.run(0, 2).status == 0
    far = 4_000_000_000_000_000  # microseconds: in 2096
    # The row as a machine with that clock has stored it.
    journal.control.execute(
        f"UPDATE {journal.own_keyspace}.projection_management USING TIMESTAMP ?"
        " SET last_write_time = ? WHERE projection = ?",
        (far + 1, far, f"{journal.keyspace}/totals"),
    )
    assert projections.run(0, 2, "--force").status == 0
    # Everything of hour 0 leaves its views, and in hour 1 `in` becomes `back`.
    for tag in ("red", "blue", "green"):
        journal.control.execute(
            f"DELETE FROM {journal.keyspace}.tag_views WHERE tag_name = ? AND timebucket = ?",
            (tag, START_MS),
        )
    corrected = event("a|1", 3, 1.2, "red", kind="back", amount=5)
    projections.insert(corrected)
    assert projections.run(0, 2, "--force", "--accept-purged").status == 0
    assert journal.rows("totals") == totals([SOME_EVENTS[3], corrected])
    written = journal.control.execute(f"SELECT writetime(n) AS at FROM {journal.keyspace}.totals")
    assert all(row["at"] > far + 4 for row in written)


@pytest.mark.long
def test_a_projection_by_tags_may_look_back_at_nothing(projections: Projections) -> None:
    projections.define(TOTALS.replace("mode:", "look-back: 0\nmode:"), TOTALS_TABLE)
    projections.insert(*SOME_EVENTS)
    projections.insert_progress(SOME_EVENTS[3], SOME_EVENTS[4])
    projections.validated(0, 1)
    for hour in (0, 1):
        result = projections.run(hour, hour + 1)
        assert result.status == 0, result.stderr
    assert projections.journal.rows("totals") == totals(SOME_EVENTS)


def test_upsert_keeps_the_newest_sequence_nr_whatever_comes_late_or_twice(
    projections: Projections,
) -> None:
    projections.define(LATEST, LATEST_TABLE)
    projections.insert(
        event("a|1", 1, 0.1, kind="old", amount=1),
        event("a|1", 2, 0.2, kind="older than the null", amount=2),
        event("a|1", 3, 1.1, kind="new"),
        event("a|2", 1, 0.5, kind="only", amount=9),
    )
    projections.validated(1)
    newest = {"persistence_id": "a|1", "sequence_nr": 3, "kind": "new", "amount": None}
    only = {"persistence_id": "a|2", "sequence_nr": 1, "kind": "only", "amount": 9}
    assert projections.run(1, 2).report["counts"]["rows_written"] == 1
    assert projections.journal.rows("latest") == [{**newest, "note": None}]
    projections.validated(0)
    late = projections.run(0, 1)
    assert late.report["counts"]["rows_written"] == 2
    expected = sorted(
        ({**row, "note": None} for row in (newest, only)),
        key=lambda row: str(sorted(row.items())),
    )
    assert projections.journal.rows("latest") == expected
    assert projections.offsets()[("latest", "a|1", "")][1] == 3
    assert projections.run(0, 2, "--force").report["counts"]["rows_written"] == 2
    assert projections.journal.rows("latest") == expected


@pytest.mark.long
def test_a_definition_changed_in_place_makes_every_time_bucket_again(
    projections: Projections,
) -> None:
    hours = [event("a|1", hour + 1, hour + 0.1, "red", kind="in", amount=hour) for hour in range(5)]
    projections.define(TOTALS, TOTALS_TABLE)
    projections.insert(*hours)
    projections.validated(0, 1, 2, 3)
    only = ("--projection", "totals")
    assert projections.run(0, 4, *only).report["pieces"]["done"] == 4
    projections.define(TOTALS.replace("sum(amount)", "sum(amount + 1)"))
    projections.validated(4)
    older = "time buckets still of an older definition"
    first = projections.run(4, 5, *only, "--max-pieces", "3")
    assert first.report["pieces"] == {"planned": 5, "done": 3, "held": 0, "failed": 0}
    assert f"totals: 2 {older}" in first.stdout
    totals_by_hour = [0 + 1, 1 + 1, 2, 3, 4 + 1]
    assert [row["total"] for row in by_bucket(projections)] == totals_by_hour
    assert "totals version 1: 2 changed, 3 done" in projections.manage("status").stdout
    assert older not in projections.run(4, 5, *only).stdout
    assert [row["total"] for row in by_bucket(projections)] == [1, 2, 3, 4, 5]
    assert projections.run(4, 5, *only).report["state"] == "nothing-to-do"


def by_bucket(projections: Projections) -> list[dict[str, object]]:
    return sorted(projections.journal.rows("totals"), key=lambda row: row["time_bucket"])


def test_changed_upsert_needs_a_new_version_and_then_replaces_its_rows(
    projections: Projections,
) -> None:
    projections.define(LATEST, LATEST_TABLE)
    projections.insert(event("a|1", 1, 0.1, kind="zebra", amount=7))
    projections.validated(0)
    assert projections.run(0, 1).status == 0
    # Without a higher write time Cassandra would keep the larger of two values, here the old ones.
    changed = LATEST.replace("kind, amount FROM", "'ant' AS kind, amount - 7 AS amount FROM")
    projections.define(changed)
    refused = projections.run(0, 1)
    assert refused.status == 2
    assert refused.error_lines == [
        "project: error: latest has changed, but version 1 was used before"
        f" ({projections.directory / 'one.sql'}:3);"
        " write version 2, so that its rows replace those of the old definition;"
        " rows that it no longer has need `release: blue-green`"
    ]
    projections.define(changed.replace("version: 1", "version: 2"))
    assert projections.run(0, 1).report["pieces"]["done"] == 1
    (row,) = projections.journal.rows("latest")
    assert (row["kind"], row["amount"]) == ("ant", 0)


def test_poison_is_quarantined_and_counted_and_the_rest_goes_on(projections: Projections) -> None:
    journal = projections.journal
    projections.define(LATEST.replace("event:", "on-error: skip\nevent:"), LATEST_TABLE)
    poison = Event("a|1", 2, 0.2, payload=b"\xff\x00")
    projections.insert(event("a|1", 1, 0.1, kind="fine", amount=1), poison)
    projections.validated(0)
    result = projections.run(0, 1, "--run-id", "night")
    assert result.status == 0, result.stderr
    assert result.report["counts"] == counts(
        events_read=2, rows_written=1, quarantined=1, accepted=2
    )
    (row,) = journal.own_rows("quarantine")
    assert row.pop("found_at") is not None
    assert row == {
        "source": f"{journal.keyspace}.messages",
        "application": "project/latest",
        "persistence_id": "a|1",
        "sequence_nr": 2,
        "timestamp": poison.timestamp,
        "cause": "not UTF-8",
        "ser_id": 20,
        "ser_manifest": "",
        "event": b"\xff\x00",
        "run_id": "night",
        "definition_version": row["definition_version"],
        "revision": 0,
    }
    assert row["definition_version"].startswith("1-")
    assert [latest["sequence_nr"] for latest in journal.rows("latest")] == [1]
    assert projections.offsets()[("latest", "a|1", "")][1] == 2


def test_buckets_that_validate_has_not_passed_are_held_and_taken_up_later(
    projections: Projections,
) -> None:
    projections.define(TOTALS, TOTALS_TABLE)
    projections.insert(*SOME_EVENTS)
    projections.validated(1)
    first = projections.run(0, 2)
    assert first.report["pieces"] == {"planned": 2, "done": 0, "held": 2, "failed": 0}
    # The events of a|1 in hour 1 come after those in hour 0; a|2 has no blue one before.
    assert projections.states() == [
        ("totals", 0, "held", "not validated"),
        ("totals", 1, "held", "gap: a|1 red 1 held"),
    ]
    assert projections.journal.rows("totals") == totals(SOME_EVENTS[3:4])
    (need,) = _needs(projections)
    assert need.done == frozenset()
    projections.validated(0)
    later = projections.run(1, 2)
    assert later.report["pieces"] == {"planned": 2, "done": 2, "held": 0, "failed": 0}
    assert projections.journal.rows("totals") == totals(SOME_EVENTS)


def test_nothing_but_held_buckets_starts_no_spark(projections: Projections) -> None:
    projections.define(TOTALS, TOTALS_TABLE)
    create_own_tables(projections.journal.control, projections.journal.settings())
    idle = projections.run(0, 2)
    assert idle.report["state"] == "nothing-to-do"
    assert idle.report["pieces"]["held"] == 2
    assert "starting Spark" not in idle.stderr


def test_directory_without_definitions_is_named(projections: Projections) -> None:
    idle = projections.run(0, 1)
    assert (idle.status, idle.report["state"]) == (0, "nothing-to-do")
    assert f"no projection is defined in {projections.directory}" in idle.stdout


def test_sql_cannot_read_a_file(
    projections: Projections, spark: SparkSession, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    spark.range(1).selectExpr(
        "'p' AS persistence_id", "id AS sequence_nr", "id AS total"
    ).write.parquet(str(lake))
    projections.define(
        LATEST.partition("SELECT")[0] + f"SELECT * FROM parquet.`{lake}`", LATEST_TABLE
    )
    projections.validated(0)
    result = projections.run(0, 1)
    assert result.status == 2
    [line] = result.error_lines
    assert f"unknown table parquet.{lake}" in line
    assert "the only table is events" in line


@pytest.mark.long
def test_purge_is_told_what_is_processed_by_the_present_definition(
    projections: Projections,
) -> None:
    projections.define(TOTALS, TOTALS_TABLE)
    projections.define(LATEST, file="two.sql")
    create_own_tables(projections.journal.control, projections.journal.settings())
    (never_run,) = _needs(projections)
    assert (never_run.projection, never_run.tags, never_run.done) == (
        "totals", frozenset({"red", "blue"}), frozenset(),
    )  # fmt: skip
    projections.validated(0)
    assert projections.run(0, 1, "--projection", "totals").report["pieces"]["done"] == 1
    assert [need.done for need in _needs(projections)] == [{START_MS}]
    projections.define(TOTALS.replace("sum(amount)", "max(amount)"))
    assert [need.done for need in _needs(projections)] == [frozenset()]


@pytest.mark.parametrize(
    ("old", "new", "status", "what"),
    [
        ("sum(amount)", "sum(amuont)", 2, "unknown column amuont ({file}:10:46); the columns of"),
        ("FROM events\n", "FORM events\n", 2, "Spark refuses the SQL: Syntax error at or near"),
        (
            "count(*) AS n,",
            "'1' AS n, 1 AS m,",
            3,
            "projection totals does not fit {keyspace}.totals:"
            " n is string in the result and bigint in the table;"
            " the table has no column m (int in the result)",
        ),
        (
            "event:",
            "key: [time_bucket, n]\nevent:",
            2,
            "the key of totals is (time_bucket, n), the primary key of {keyspace}.totals is"
            " (time_bucket, kind) ({file}:7:20); write `time_bucket, kind`, or change the table",
        ),
        (
            "event:",
            "release: blue-green\nkey: [kind]\nevent:",
            2,
            "the key of totals is (kind), the primary key of {keyspace}.totals is"
            " (time_bucket, kind) ({file}:8:7);",
        ),
        (
            ".totals\n",
            ".sums\n",
            3,
            "the target {keyspace}.sums of projection totals does not exist ({file});",
        ),
    ],
)
def test_definition_that_cannot_work_is_refused_before_anything_is_written(
    projections: Projections, old: str, new: str, status: int, what: str
) -> None:
    projections.define(TOTALS.replace(old, new), TOTALS_TABLE)
    projections.insert(*SOME_EVENTS)
    projections.validated(0, 1)
    result = projections.run(0, 2)
    assert result.status == status
    (line,) = result.error_lines
    file, keyspace = projections.directory / "one.sql", projections.journal.keyspace
    assert what.format(file=file, keyspace=keyspace) in line
    assert projections.states() == []
    assert projections.offsets() == {}


def test_projection_that_fails_does_not_stop_the_others(projections: Projections) -> None:
    foreign = LATEST.replace("upsert", "bucket").replace("latest", "foreign").replace(
        "SELECT persistence_id, sequence_nr, kind, amount",
        "SELECT time_bucket + 1 AS time_bucket, kind, 1L AS n, 1L AS total",
    )  # fmt: skip
    projections.define(foreign, TOTALS_TABLE.replace("totals", "foreign"))
    projections.define(TOTALS, TOTALS_TABLE, file="two.sql")
    projections.insert(*SOME_EVENTS)
    projections.validated(0)
    result = projections.run(0, 1)
    assert result.status == 1
    assert result.report["state"] == "failed"
    assert result.report["pieces"] == {"planned": 2, "done": 1, "held": 0, "failed": 1}
    cause = (
        "the result has rows of time buckets that were not read: 2024-03-01T00:00:00.001000Z"
        f" ({projections.directory / 'one.sql'});"
        " select the events' own time_bucket and group by it"
    )
    assert result.error_lines == [f"project: error: projection foreign failed: {cause}"]
    assert projections.states() == [("foreign", 0, "failed", cause), ("totals", 0, "done", None)]
    assert projections.journal.rows("foreign") == []
    assert projections.journal.rows("totals") == totals(SOME_EVENTS[:3])


def test_locked_projection_says_whom(projections: Projections) -> None:
    journal = projections.journal
    projections.define(TOTALS, TOTALS_TABLE)
    projections.validated(0)
    resource = f"project/{journal.keyspace}/totals"
    journal.control.execute(
        f"INSERT INTO {journal.own_keyspace}.lock (resource, owner, taken_at) VALUES (?, ?, ?)",
        (resource, "other-host:7:nightly", START),
    )
    result = projections.run(0, 1)
    assert result.status == 1
    assert result.error_lines == [
        f"project: error: projection totals failed: {resource} is held by other-host:7:nightly"
        " since 2024-03-01T00:00:00Z; wait for it to end; if it died, its lock expires within 600 s"
    ]
    # As this was the first run of all, no later run would know that the bucket is due.
    assert projections.states() == [("totals", 0, "planned", None)]


@pytest.mark.long
def test_dry_run_shows_the_plan_and_writes_nothing(projections: Projections) -> None:
    projections.define(TOTALS, TOTALS_TABLE)
    projections.insert(*SOME_EVENTS)
    projections.validated(1)
    result = projections.run(0, 2, "--dry-run")
    assert result.report["state"] == "planned"
    assert result.report["pieces"] == {"planned": 2, "done": 0, "held": 1, "failed": 0}
    assert "totals  2024-03-01 00:00  new, held: not validated" in result.stdout
    assert "totals  2024-03-01 01:00  new\n" in result.stdout
    assert projections.states() == []
    assert projections.journal.rows("totals") == []


def _needs(projections: Projections) -> list[Any]:
    settings = projections.journal.settings().model_copy(
        update={"projections_dir": projections.directory}
    )
    return list(needs_of_projections(projections.journal.control, settings))
