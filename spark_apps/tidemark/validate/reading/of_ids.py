"""The inspection of some persistence ids: all of their events and rows, in every time bucket."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.context import RunContext
from tidemark.journals.pekko import frames
from tidemark.journals.pekko.shapes import MESSAGES, PLACED_PROGRESS, TAG_ROWS
from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped
from tidemark.validate import plan
from tidemark.validate.findings.checks import CHECKS
from tidemark.validate.plan import PendingTagWrites
from tidemark.validate.reading.examine import examine, read_keys
from tidemark.validate.reading.inspection import Inspection, rows_by_bucket
from tidemark.validate.scope import Scope
from tidemark.validate.tag_views.bounds import Bounds
from tidemark.window import to_millis


@dataclass(frozen=True)
class JudgeableBuckets:
    """The time buckets that can be judged: they are past, and tag-write has written their rows.

    Attributes:
        before: epoch ms; time buckets from here on cannot be judged.
        pending: the time buckets that tag-write has yet to write.
        bucket_size: of the tag views.
    """

    before: int
    pending: PendingTagWrites
    bucket_size: BucketSize

    @classmethod
    def of(cls, settings: Settings, pending: PendingTagWrites) -> JudgeableBuckets:
        """Return the time buckets that can be judged now."""
        delay = round(settings.events_by_tag_eventual_consistency_delay * 1000)
        size = settings.bucket_size
        is_open = keys.time_bucket(to_millis(clock.now()) - delay, size)
        return cls(is_open if pending.since is None else min(is_open, pending.since), pending, size)

    @property
    def newest(self) -> int:
        """The newest time bucket before `before`, epoch ms."""
        return self.before - self.bucket_size.milliseconds

    def __contains__(self, time_bucket: int) -> bool:
        """Whether a time bucket (epoch ms) can be judged."""
        return time_bucket < self.before and time_bucket not in self.pending.buckets


def inspect(run: RunContext, scope: Scope, judged: JudgeableBuckets) -> Inspection:
    """Compare the keys of a scope, read in the order of `journal_keys`."""
    settings, pending = run.settings, judged.pending
    bounds = Bounds.of_buckets(run, [judged.newest], pending)
    run.say(f"reading the keys of {scope}")
    read = read_keys(run, scope, with_snapshots=True)
    index, rows = read.index, read.keys.rows
    placed_progress = frames.placed(read.keys.progress, settings.bucket_size)
    buckets = _time_buckets(index, rows, placed_progress, judged)
    run.say("comparing messages, tag views and tag_write_progress")
    passed = plan.passed(plan.ledger(run), [], pending.buckets)
    passed_buckets = [bucket for bucket in buckets if bucket in passed]
    examination = examine(run, read, replace(bounds, buckets=buckets), passed=passed_buckets)
    return Inspection(
        None,
        "",
        CHECKS,
        examination.blocking,
        examination.warnings(run, buckets),
        rows_by_bucket(index, rows, buckets),
        None,
    )


@shaped(index=MESSAGES, rows=TAG_ROWS, progress=PLACED_PROGRESS)
def _time_buckets(
    index: DataFrame, rows: DataFrame, progress: DataFrame, judged: JudgeableBuckets
) -> list[int]:
    """Return the time buckets with events, rows or progress that can be judged.

    If there are none, return the newest that can be judged: findings without a time are in it.
    """
    of_progress = progress.select("progress_bucket")
    union = index.select("time_bucket").union(rows.select("time_bucket")).union(of_progress)
    # Progress that names no event has no time bucket.
    buckets = union.distinct().where(F.col("time_bucket").isNotNull())
    return sorted(bucket for (bucket,) in buckets.collect() if bucket in judged) or [judged.newest]
