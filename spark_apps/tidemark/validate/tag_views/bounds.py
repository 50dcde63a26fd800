"""The bounds of a comparison of messages with tag views."""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.context import RunContext
from tidemark.journals.pekko.shapes import SCANNING
from tidemark.ledger.purged import Removed, emptied_buckets, removed
from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes as continuity_shapes
from tidemark.validate.findings import finding, tag_sequence
from tidemark.validate.plan import PendingTagWrites
from tidemark.validate.tag_views import shapes
from tidemark.window import Window, to_millis

PROGRESS_GRACE_MS = 60_000
"""Pekko writes tag_write_progress after the rows and does not wait for the write."""


@dataclass(frozen=True)
class Bounds:
    """The bounds of a comparison; times are in ticks (100 ns since 1582) unless stated otherwise.

    Attributes:
        written_before: rows of events from here on may not be written yet; they are not compared.
        settled_before: the progress of earlier events must have been written.
        bucket_size: the bucket size of the tag views.
        last_bucket: the newest compared time bucket (epoch ms).
        target_partition_size: of messages, in events.
        removed: the time buckets whose rows purge or a TTL may have removed.
        emptied_buckets: time buckets (epoch ms) that purge removed and tag-write did not refill.
        window: only findings in these time buckets, or of rows in them, are reported; None for all.
        buckets: only findings in these time buckets (epoch ms) are reported; None for all.
        pending: the time buckets in which tag-write has yet to write rows and progress.
    """

    written_before: int
    settled_before: int
    bucket_size: BucketSize
    last_bucket: int
    target_partition_size: int
    removed: Removed = field(default_factory=Removed)
    emptied_buckets: Set[int] = frozenset()
    window: Window | None = None
    buckets: Collection[int] | None = None
    pending: PendingTagWrites = field(default_factory=PendingTagWrites)

    @classmethod
    def of(cls, run: RunContext, window: Window | None) -> Bounds:
        """Return the current bounds; call this before anything is read."""
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
            window=window,
        )

    @classmethod
    def of_buckets(
        cls, run: RunContext, buckets: Collection[int], pending: PendingTagWrites
    ) -> Bounds:
        """Return the bounds of past time buckets (epoch ms); call this before any read.

        All events up to the end of the last time bucket are compared.
        """
        last, size = max(buckets), run.settings.bucket_size
        end = keys.epoch_ms_ticks(last + size.milliseconds)
        present = cls.of(run, None)
        return replace(
            present,
            written_before=end,
            settled_before=min(present.settled_before, end),
            last_bucket=last,
            buckets=buckets,
            pending=pending,
        )

    def with_removed(self, run: RunContext) -> Bounds:
        """Return the bounds with the rows removed until now; call this after the rows were read."""
        now = to_millis(clock.now())
        return replace(
            self,
            removed=removed(run.control, run.settings, now),
            emptied_buckets=emptied_buckets(run.control, run.settings),
        )

    @property
    def expired_before(self) -> int:
        """Rows of events before this time (ticks) may have been removed by the tables' TTL."""
        limit = self.removed.expired_before
        return 0 if limit is None else keys.epoch_ms_ticks(limit)

    @shaped(expected=shapes.RANKED, returns=shapes.REQUIRED)
    def mark_required(self, expected: DataFrame) -> DataFrame:
        """Add is_kept: the row was not removed; is_required: the row must exist."""
        is_due = (F.col("ticks") < self.written_before) & ~F.col("is_pending")
        return self.mark_kept(expected).withColumn("is_required", F.col("is_kept") & is_due)

    @shaped(required=shapes.REQUIRED, scanning=SCANNING, returns=shapes.SETTLED)
    def mark_settled(self, required: DataFrame, scanning: DataFrame) -> DataFrame:
        """Add is_settled: progress must have reached the event."""
        marked = tag_sequence.with_is_owed(required, "expected_time_bucket", self.pending)
        is_settled = (
            (F.col("ticks") < self.settled_before) & ~F.col("is_pending") & ~F.col("is_owed")
        )
        if self.pending.since is None:
            return marked.withColumn("is_settled", is_settled)
        # The rows of late events, after tag_scanning, are written by the next run of tag-write.
        is_scanned = F.col("sequence_nr") <= F.coalesce("scanned_to", F.lit(0))
        return marked.join(scanning, on="persistence_id", how="left").withColumn(
            "is_settled", is_settled & is_scanned
        )

    @shaped(expected=shapes.EXPECTED_PLACES)
    def mark_kept(self, expected: DataFrame) -> DataFrame:
        """Add is_kept: neither a purge nor a TTL has removed the row."""
        is_kept = F.col("ticks") >= self.expired_before
        if not self.emptied_buckets:
            return expected.withColumn("is_kept", is_kept)
        emptied = local_rows(
            expected.sparkSession,
            [(bucket, True) for bucket in sorted(self.emptied_buckets)],
            "expected_time_bucket bigint, is_emptied boolean",
        )
        return (
            expected.join(F.broadcast(emptied), on="expected_time_bucket", how="left")
            .withColumn("is_kept", is_kept & F.col("is_emptied").isNull())
            .drop("is_emptied")
        )

    @shaped(findings=continuity_shapes.FINDINGS, returns=continuity_shapes.FINDINGS)
    def reported(self, findings: DataFrame) -> DataFrame:
        """Return the findings within the bounds; further columns are kept."""
        if self.buckets is not None:
            return finding.within(findings, self.buckets)
        return findings.where(
            self._is_in_window("time_bucket") | self._is_in_window("row_time_bucket")
        )

    def within(self, rows: DataFrame, time_bucket: str) -> DataFrame:
        """Return the rows whose time bucket, in that column, is within the bounds."""
        if self.buckets is None:
            return rows.where(self._is_in_window(time_bucket))
        return finding.within(rows.withColumn("time_bucket", F.col(time_bucket)), self.buckets)

    def _is_in_window(self, time_bucket: str) -> Column:
        if self.window is None:
            return F.lit(True)
        first, end = to_millis(self.window.start), to_millis(self.window.end)
        is_inside = (F.col(time_bucket) >= first) & (F.col(time_bucket) < end)
        return F.coalesce(is_inside, F.lit(False))
