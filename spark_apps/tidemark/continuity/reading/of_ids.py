"""The look at some persistence ids: all of their events and rows, in every time bucket."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from tidemark import clock
from tidemark.context import RunContext
from tidemark.continuity import plan, store
from tidemark.continuity.findings import (
    extra_rows,
    finding,
    row_place,
    sequence,
    tag_sequence,
    unwritable,
)
from tidemark.continuity.findings.all_findings import JournalKeys, all_findings
from tidemark.continuity.findings.checks import CHECKS
from tidemark.continuity.plan import Owed
from tidemark.continuity.reading.id_scope import IdScope, source_of
from tidemark.continuity.reading.inspection import (
    READ_COUNTS,
    Inspection,
    Keep,
    still_extra,
    without_late,
)
from tidemark.continuity.whole import find as whole
from tidemark.journal import frames
from tidemark.journal.shapes import MESSAGES, PLACED_PROGRESS, TAG_ROWS
from tidemark.ledger.purged import removed
from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped
from tidemark.tagging import rules
from tidemark.window import to_millis


@dataclass(frozen=True)
class Judged:
    """The time buckets that can be judged: over by now, and without rows that tag-write owes.

    Attributes:
        before: epoch ms; the first that cannot, whatever follows.
        owed: what tag-write owes.
        bucket_size: of the tag views.
    """

    before: int
    owed: Owed
    bucket_size: BucketSize

    @classmethod
    def of(cls, settings: Settings, owed: Owed) -> Judged:
        """Return those of the present."""
        delay = round(settings.events_by_tag_eventual_consistency_delay * 1000)
        size = settings.bucket_size
        is_open = keys.time_bucket(to_millis(clock.now()) - delay, size)
        return cls(is_open if owed.since is None else min(is_open, owed.since), owed, size)

    @property
    def newest(self) -> int:
        """The newest time bucket before `before`, epoch ms."""
        return self.before - self.bucket_size.milliseconds

    def __contains__(self, time_bucket: int) -> bool:
        """Whether a time bucket (epoch ms) can be judged."""
        return time_bucket < self.before and time_bucket not in self.owed.buckets


def inspect(run: RunContext, scope: IdScope, judged: Judged, keep: Keep) -> Inspection:
    """Compare the keys of a scope, read in the order of `journal_keys`.

    Raises:
        DefinitionError: a tag rule cannot be used.
    """
    settings, owed = run.settings, judged.owed
    tag_rules = rules.load(settings.tagging_dir)
    rules.check(run.spark, tag_rules)
    source = source_of(run, scope, tag_rules)
    run.say(f"reading the keys of {scope}")
    written = keep(source.progress())
    progress = keep(frames.placed(written, settings.bucket_size))
    scanning = keep(source.scanning())
    snapshots = source.snapshots()
    for frame in (progress, scanning, *([] if snapshots is None else [keep(snapshots)])):
        frame.count()
    index = keep(source.index())
    index.count()
    rows = keep(source.rows(index, written))
    buckets = _time_buckets(index, rows, progress, judged)
    run.say("comparing the numbers")
    removed_rows = removed(run.control, settings, to_millis(clock.now()))
    absent = keep(tag_sequence.absent_events(index, rows, removed_rows, owed))
    deleted = keep(source.deleted())
    extra = extra_rows.extra_rows(finding.within(rows, buckets), index, progress, scanning, deleted)
    journal = JournalKeys(
        index,
        index,
        rows,
        progress,
        scanning,
        deleted=deleted,
        listed=source.listed(),
        unwritable=keep(unwritable.unwritable_events(absent, buckets, settings, tag_rules)),
        misplaced=row_place.misplaced_rows(rows, settings.bucket_size),
        extra=keep(still_extra(run, extra)),
    )
    findings = all_findings(journal, absent, removed_rows, buckets, settings.target_partition_size)
    passed = plan.passed(plan.ledger(run), [], owed.buckets)
    if owed.since is not None:
        late = [bucket for bucket in buckets if bucket in passed]
        findings = without_late(findings, scanning, late)
    out_of_order = finding.of_buckets([sequence.out_of_order(index)], buckets)
    settlements = store.settlements(run.spark, run.control, settings)
    return Inspection(
        None,
        "",
        CHECKS,
        keep(finding.weighed(findings, settlements)),
        keep(out_of_order.unionByName(whole.find(run, index, deleted, snapshots))),
        {
            name: finding.rows_by_bucket(frame, buckets)
            for name, frame in zip(READ_COUNTS, (index, rows), strict=True)
        },
        None,
    )


@shaped(index=MESSAGES, rows=TAG_ROWS, progress=PLACED_PROGRESS)
def _time_buckets(
    index: DataFrame, rows: DataFrame, progress: DataFrame, judged: Judged
) -> list[int]:
    """Return the time buckets with events or rows, or where progress stands, that can be judged.

    Without any it is the newest one that can be: what has no time is found there.
    """
    named = progress.select("progress_bucket")
    places = index.select("time_bucket").union(rows.select("time_bucket")).union(named).distinct()
    return sorted(bucket for (bucket,) in places.collect() if bucket in judged) or [judged.newest]
