"""The checks of a journal as a whole: large partitions, too fine a bucket size, lost tails."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize
from tidemark.spark.local_rows import local_rows
from tidemark.validate.findings.partition_size import sizes
from tidemark.validate.journal_wide import bucket_fit
from tidemark.validate.journal_wide.bucket_fit import too_fine
from tidemark.validate.journal_wide.message_partitions import (
    event_counts,
    event_counts_by_number,
    large_partitions,
)
from tidemark.validate.journal_wide.snapshot_tails import snapshots_beyond
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET

HOUR, DAY = BucketSize.HOUR.milliseconds, BucketSize.DAY.milliseconds
MINUTE = BucketSize.MINUTE.milliseconds
EVENTS = "persistence_id string, partition_nr bigint, sequence_nr bigint"
DELETED = "persistence_id string, deleted_to bigint"
TAG_ROWS = (
    "persistence_id string, sequence_nr bigint, timestamp string, tag string,"
    " tag_pid_sequence_nr bigint, ticks bigint, time_bucket bigint"
)
MIB = 1 << 20


def told(frame: DataFrame) -> set[tuple[object, ...]]:
    """Return (persistence id, tag, number, expected) of findings, which are in no time bucket."""
    rows = frame.collect()
    assert {row["time_bucket"] for row in rows} <= {NO_TIME_BUCKET}
    return {tuple(row[n] for n in ("persistence_id", "tag", "number", "expected")) for row in rows}


def events(spark: SparkSession, size: int, numbers: dict[str, list[int]]) -> DataFrame:
    rows = [(name, keys.partition_nr(n, size), n) for name, held in numbers.items() for n in held]
    return local_rows(spark, rows, EVENTS)


def test_partition_of_messages_with_more_bytes_than_are_advised(spark: SparkSession) -> None:
    partitions = event_counts(events(spark, 4, {"a": [1, 2, 3, 4, 5, 6, 7], "b": [5, 6]}))
    assert told(large_partitions(partitions, 25 * MIB)) == set()
    found = large_partitions(partitions, 26 * MIB)
    assert told(found) == {("a", "", 0, None)}
    assert [row["detail"] for row in found.collect()] == [
        "4 events (104.0 MB of payload, estimated) in partition 0, at most 3 of their size are"
        " advised"
    ]
    assert told(large_partitions(partitions, 40 * MIB)) == {("a", "", 0, None), ("a", "", 1, None)}


@pytest.mark.parametrize("deleted_to", [None, 0, 1, 5, 6])
def test_new_events_tell_how_full_their_partitions_are(
    spark: SparkSession, deleted_to: int | None
) -> None:
    left = [number for number in range(1, 8) if number > (deleted_to or 0)]
    whole = events(spark, 4, {"a": left, "b": [1]})
    new = events(spark, 4, {"a": [n for n in left if n > 5], "b": [1]})
    deleted = local_rows(spark, [("a", deleted_to)], DELETED)
    last = {("a", 1), ("b", 0)}
    expected = {tuple(row) for row in event_counts(whole).collect() if tuple(row)[:2] in last}
    assert {tuple(row) for row in event_counts_by_number(new, deleted, 4).collect()} == expected


def partitions(spark: SparkSession, *places: tuple[str, int, int]) -> DataFrame:
    """Return the partitions of so many rows (tag, time bucket, number)."""
    listed = [
        (f"p{n}", n, "", tag, n, 0, bucket) for tag, bucket, number in places for n in range(number)
    ]
    return sizes(local_rows(spark, listed, TAG_ROWS))


@pytest.mark.parametrize(
    ("size", "places", "expected"),
    [
        # Few rows in a short time are a small journal, which any size fits.
        (BucketSize.HOUR, [("t", 0, 1), ("t", 9_999 * HOUR, 1)], set()),
        (BucketSize.HOUR, [("t", 0, 1), ("t", 10_000 * HOUR, 1)], {("", "t", 10_001, 417)}),
        (BucketSize.HOUR, [("t", 0, 1), ("u", 10_000 * HOUR, 1)], set()),
        # Nothing is coarser.
        (BucketSize.DAY, [("t", 0, 1), ("t", 20_000 * DAY, 1)], set()),
        (BucketSize.MINUTE, [("t", 0, 1), ("t", 10_000 * MINUTE, 1)], {("", "t", 10_001, 7)}),
    ],
)
def test_size_too_fine_for_a_tag_over_a_long_time(
    spark: SparkSession,
    size: BucketSize,
    places: list[tuple[str, int, int]],
    expected: set[tuple[object, ...]],
) -> None:
    assert told(too_fine(partitions(spark, *places), size, 100)) == expected


def test_size_that_rows_or_bytes_need_is_no_finding(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_fit, "BUCKETS_ADVISED", 47)
    monkeypatch.setitem(bucket_fit.ROWS_A_DAY, BucketSize.HOUR, 10)
    # 48 Hours with 19 rows are fewer than ten a day, with 20 they are not.
    few = [("t", 0, 18), ("t", 47 * HOUR, 1)]
    assert told(too_fine(partitions(spark, *few), BucketSize.HOUR, 100)) == {("", "t", 48, 2)}
    enough = [("t", 0, 19), ("t", 47 * HOUR, 1)]
    assert told(too_fine(partitions(spark, *enough), BucketSize.HOUR, 100)) == set()
    # 18 rows of 6 MiB are too large for the partition of a Day.
    assert told(too_fine(partitions(spark, *few), BucketSize.HOUR, 6 * MIB)) == set()


def test_the_coarsest_size_whose_busiest_partition_is_not_too_large(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_fit, "BUCKETS_ADVISED", 1)
    frame = partitions(spark, *(("t", hour * HOUR + 7 * MINUTE, 2) for hour in range(20)))
    [day] = too_fine(frame, BucketSize.MINUTE, MIB).collect()
    [hour] = too_fine(frame, BucketSize.MINUTE, 4 * MIB).collect()
    assert (day["number"], day["expected"]) == (19 * 60 + 1, 1)
    assert "bucket size Day would fit, with 1" in day["detail"]
    assert hour["expected"] == 20
    assert "bucket size Hour would fit, with 20" in hour["detail"]
    assert told(too_fine(frame, BucketSize.MINUTE, 60 * MIB)) == set()


def test_snapshots_of_events_that_nothing_knows(spark: SparkSession) -> None:
    taken = [("whole", 2), ("whole", 3), ("deleted", 5), ("lost", 2), ("lost", 9), ("gone", 4)]
    snapshots = local_rows(
        spark,
        [(*snapshot, 0) for snapshot in taken],
        "persistence_id string, snapshot_nr bigint, epoch_ms bigint",
    )
    kept = events(spark, 10, {"whole": [1, 2, 3], "lost": [3, 4], "deleted": []})
    deleted = local_rows(spark, [("deleted", 5), ("lost", 2)], DELETED)
    found = snapshots_beyond(snapshots, kept, deleted)
    assert told(found) == {("lost", "", 4, 9), ("gone", "", 0, 4)}
    assert {row["detail"] for row in found.collect()} == {
        "a snapshot of sequence nr 9, the events end at 4",
        "a snapshot of sequence nr 4, but neither events nor metadata",
    }
