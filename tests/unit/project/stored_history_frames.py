"""Histories of `stored_history_model` as frames, and what a comparison finds in them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.unit.project.stored_history_model import HOUR, NOW_MS, Journal
from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize
from tidemark.spark.local_rows import local_rows
from tidemark.validate.tag_views.bounds import Bounds
from tidemark.validate.tag_views.compare import compare
from tidemark.validate.tag_views.expected import REMOVED
from tidemark.validate.tag_views.keys import Keys, once
from tidemark.validate.tag_views.prefilter import SuspectIds

BOUNDS = Bounds(
    keys.epoch_ms_ticks(NOW_MS),
    keys.epoch_ms_ticks(NOW_MS - 60_000),
    BucketSize.HOUR,
    keys.time_bucket(NOW_MS, BucketSize.HOUR),
    target_partition_size=3,
)
Finding = dict[str, Any]


def messages_of(spark: SparkSession, journal: Journal) -> DataFrame:
    """Return the messages, with the partition of each and why it cannot be written."""
    return _frame(
        spark,
        "persistence_id string, sequence_nr bigint, timestamp string, ticks bigint,"
        " time_bucket bigint, tags array<string>, cause string, partition_nr bigint,"
        " has_payload boolean",
        (
            (
                *(pid, e.number, e.timestamp, e.ticks, e.time_bucket, [*e.tags] or None, e.cause),
                99 if e.number in history.misplaced else (e.number - 1) // 3 + e.number % 2,
                e.cause is None,
            )
            for pid, history in sorted(journal.items())
            for e in history.events
        ),
    )


def keys_of(spark: SparkSession, journal: Journal) -> Keys:
    """Return the frames that reconcile would read from the journal."""
    items = sorted(journal.items())
    # As in `tagging.events.tagged`, an event that cannot be written has no tags.
    tags = F.when(F.col("cause").isNull(), F.col("tags"))
    return Keys(
        messages_of(spark, journal).withColumn("tags", tags),
        _frame(
            spark,
            "persistence_id string, tag string, sequence_nr bigint, tag_pid_sequence_nr bigint,"
            " timestamp string, ticks bigint, time_bucket bigint",
            (
                (pid, r.tag, r.event.number, r.number, r.event.timestamp, r.event.ticks, r[3])
                for pid, history in items
                for r in history.rows
            ),
        ),
        _frame(
            spark,
            "persistence_id string, tag string, progress_sequence_nr bigint,"
            " progress_number bigint, progress_offset string",
            ((pid, tag, *p) for pid, history in items for tag, p in history.progress.items()),
        ),
        _frame(
            spark,
            "persistence_id string, scanned_to bigint",
            ((pid, history.scanned_to) for pid, history in items if history.scanned_to is not None),
        ),
        _frame(
            spark,
            "persistence_id string, deleted_to bigint",
            (
                (pid, REMOVED if history.deleted_to is None else history.deleted_to)
                for pid, history in items
                if history.deleted_to is not None or not history.events
            ),
        ),
        _frame(
            spark,
            "persistence_id string",
            ((pid,) for pid, history in items if history.is_listed),
        ),
    )


def findings_of(spark: SparkSession, journal: Journal, bounds: Bounds = BOUNDS) -> list[Finding]:
    """Return the findings of a comparison: of `check` unless the bounds have buckets."""
    read = keys_of(spark, journal)
    doubts = SuspectIds.of(read, bounds.target_partition_size, once)
    compared = compare(read, doubts, bounds, once)
    rows = [row.asDict() for row in compared.findings.collect()]
    return rows


def bounds_of_buckets(buckets: Collection[int], bounds: Bounds = BOUNDS) -> Bounds:
    """Return the bounds by which validate looks at time buckets."""
    last = max(buckets)
    end = keys.epoch_ms_ticks(last + HOUR)
    return replace(
        bounds,
        written_before=end,
        settled_before=min(bounds.settled_before, end),
        last_bucket=last,
        window=None,
        buckets=buckets,
    )


def _frame(spark: SparkSession, schema: str, rows: Iterable[tuple[Any, ...]]) -> DataFrame:
    return local_rows(spark, list(rows), schema)
