"""The bounds of a comparison of messages with tag views."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.context import RunContext
from tidemark.journal.shapes import DELETED
from tidemark.ledger.purged import Removed, emptied_buckets, removed
from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize
from tidemark.reconciliation.findings import shapes
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.window import Window, to_millis

PROGRESS_GRACE_MS = 60_000
"""Pekko writes tag_write_progress after the rows and does not wait for it."""


@dataclass(frozen=True)
class Bounds:
    """Times in ticks (100 ns since 1582) unless said otherwise.

    Attributes:
        written_before: events from here on may still be on their way and are not compared.
        settled_before: the progress of events before it must have been written.
        bucket_size: the bucket size of the tag views.
        last_bucket: the newest time bucket (epoch ms) that is compared.
        target_partition_size: of messages, in events.
        removed: the time buckets whose rows purge or a TTL may have removed, as validate sees them.
        emptied_buckets: time buckets (epoch ms) that purge removed and tag-write did not refill.
        window: only rows in these time buckets are compared; all when None.
    """

    written_before: int
    settled_before: int
    bucket_size: BucketSize
    last_bucket: int
    target_partition_size: int
    removed: Removed = field(default_factory=Removed)
    emptied_buckets: Set[int] = frozenset()
    window: Window | None = None

    @classmethod
    def of(cls, run: RunContext, window: Window | None) -> Bounds:
        """Return the present bounds; they must be taken before anything is read."""
        settings = run.settings
        now, size = to_millis(clock.now()), settings.bucket_size
        last = now if window is None else to_millis(window.end) - 1
        delay = round(settings.events_by_tag_eventual_consistency_delay * 1000)
        return cls(
            keys.epoch_ms_ticks(now - delay),
            keys.epoch_ms_ticks(now - max(delay, PROGRESS_GRACE_MS)),
            size,
            keys.time_bucket(last, size),
            settings.target_partition_size,
            removed(run.control, settings, now),
            emptied_buckets(run.control, settings),
            window,
        )

    @property
    def expired_before(self) -> int:
        """Rows of events before it (ticks) may be gone by the tables' TTL."""
        limit = self.removed.expired_before
        return 0 if limit is None else keys.epoch_ms_ticks(limit)

    @shaped(expected=shapes.EXPECTED, deleted=DELETED, returns=shapes.REQUIRED)
    def mark_required(self, expected: DataFrame, deleted: DataFrame) -> DataFrame:
        """Add is_required: the (event, tag) must have a row, and deleted_to."""
        is_required = (
            (F.col("ticks") < self.written_before)
            & (F.col("ticks") >= self.expired_before)
            & (F.col("sequence_nr") > F.coalesce("deleted_to", F.lit(0)))
        )
        marked = expected.join(deleted, on="persistence_id", how="left")
        if not self.emptied_buckets:
            return marked.withColumn("is_required", is_required)
        emptied = local_rows(
            expected.sparkSession,
            [(bucket, True) for bucket in sorted(self.emptied_buckets)],
            "expected_time_bucket bigint, is_emptied boolean",
        )
        return (
            marked.join(F.broadcast(emptied), on="expected_time_bucket", how="left")
            .withColumn("is_required", is_required & F.col("is_emptied").isNull())
            .drop("is_emptied")
        )

    def holds(self, time_bucket: str) -> Column:
        """Return whether the time bucket in a column lies in the window."""
        if self.window is None:
            return F.lit(True)
        return (F.col(time_bucket) >= to_millis(self.window.start)) & (
            F.col(time_bucket) < to_millis(self.window.end)
        )
