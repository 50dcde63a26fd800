"""The examination of a scope: reads and compares its keys, and writes nothing.

A scope is persistence ids, slices, tags, a window or everything. `validate`, `reconcile check`,
`repair` and `rebuild` call `examine`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.pekko import frames
from tidemark.journals.pekko.messages import increments
from tidemark.journals.pekko.shapes import MESSAGES, SCANNING
from tidemark.spark.shapes import shaped
from tidemark.tag_write import rules
from tidemark.validate import shapes, store
from tidemark.validate.findings import checks, finding
from tidemark.validate.findings.all_findings import warnings
from tidemark.validate.findings.checks import WARNING
from tidemark.validate.findings.partition_size import sizes
from tidemark.validate.journal_wide import find as journal_wide
from tidemark.validate.plan import JudgedBuckets
from tidemark.validate.reading import journal_keys
from tidemark.validate.reading.source import EventReader
from tidemark.validate.scope import Scope
from tidemark.validate.tag_views.bounds import Bounds
from tidemark.validate.tag_views.compare import Compared, compare
from tidemark.validate.tag_views.keys import Keys, once
from tidemark.validate.tag_views.prefilter import SuspectIds


@dataclass(frozen=True)
class Read:
    """The keys of a scope, in memory.

    Attributes:
        index: the messages, as `journal_keys.with_rule_tags` returns them.
        keys: the keys to compare; their index has tags of readable events only.
        snapshots: the snapshots; None without a snapshot store.
    """

    index: DataFrame
    keys: Keys
    snapshots: DataFrame | None


@dataclass(frozen=True)
class Examination:
    """The result of an examination.

    Attributes:
        scope: the examined scope.
        read: its keys.
        suspects: the persistence ids that had to be compared.
        compared: the comparison.
        bounds: of the comparison.
        found: all findings, also settled ones, of shape WEIGHED and EVIDENCE, in memory; without
            findings due to writes during the reads.
    """

    scope: Scope
    read: Read
    suspects: SuspectIds
    compared: Compared
    bounds: Bounds
    found: DataFrame

    @cached_property
    def partitions(self) -> DataFrame:
        """The partitions of the tag views with the number of rows that were read, in memory."""
        return once(sizes(self.read.keys.rows))

    @property
    def findings(self) -> DataFrame:
        """The findings that nobody has settled."""
        return self.found.where(F.col("reason").isNull())

    @property
    def blocking(self) -> DataFrame:
        """The findings of the checks that block, also settled ones."""
        return self.found.where(~F.col("check_name").isin(*WARNING))

    def warnings(self, run: RunContext, buckets: Collection[int]) -> DataFrame:
        """Return the findings of the checks that warn in the time buckets, of shape FINDINGS."""
        size, row_bytes = self.bounds.bucket_size, journal_keys.row_bytes(run)
        index, deleted = self.read.index, self.read.keys.deleted
        partitions = self.partitions if self.scope.is_everything else None
        compared = self.found.where(F.col("check_name").isin(*WARNING)).drop("reason", "owner")
        out_of_order = self.suspects.events_out_of_order(index)
        parts = [
            warnings(out_of_order, partitions, size, row_bytes, buckets),
            finding.within(compared, buckets),
            journal_wide.find(index, deleted, self.read.snapshots, partitions, size, row_bytes),
        ]
        add = partial(DataFrame.unionByName, allowMissingColumns=True)
        return once(reduce(add, parts))


def read_keys(
    run: RunContext,
    scope: Scope,
    *,
    are_applied: bool = False,
    with_snapshots: bool = False,
) -> Read:
    """Read the keys of a scope, in the order of `journal_keys`.

    `are_applied` is as in `journal_keys.with_rule_tags`.
    """
    tag_rules = journal_keys.usable_rules(run)
    source = EventReader.of(run, scope, tag_rules, are_applied=are_applied)
    progress, scanning = once(source.progress()), once(source.scanning())
    unread_snapshots = source.snapshots() if with_snapshots else None
    snapshots = None if unread_snapshots is None else once(unread_snapshots)
    # Each is read when it is counted.
    for frame in (progress, scanning, *([] if snapshots is None else [snapshots])):
        frame.count()
    index = once(source.index(progress, scanning))
    index.count()
    rows = once(source.rows(index, progress))
    rows.count()
    index = source.with_events_of(index, rows)
    keys = Keys(
        journal_keys.of_readable(index),
        rows,
        progress,
        scanning,
        deleted=once(source.deleted()),
        listed=source.listed(),
        ruled_tags=rules.tags_of(tag_rules),
    )
    return Read(index, keys, snapshots)


def examine(run: RunContext, scope: Scope, judged: JudgedBuckets | None = None) -> Examination:
    """Read the keys of a scope, compare them, and weigh the findings by the settlements.

    With `judged`, the findings are those in these time buckets, and the checks that warn get their
    data as well; the scope has no window. Without it, every row up to now must exist, also the rows
    of tag rules that tag-write has yet to apply.
    """
    if judged is None:
        bounds = Bounds.of(run, scope.window)
    else:
        bounds = Bounds.of_buckets(run, judged.named or [judged.newest], judged.pending)
    is_judged = judged is not None
    run.say(f"reading the keys of messages and tag views: {scope}")
    read = read_keys(run, scope, are_applied=not is_judged, with_snapshots=is_judged)
    if judged is not None and not judged.named:
        bounds = replace(bounds, buckets=_time_buckets(run, read, judged))
    run.say("comparing messages, tag views and tag_write_progress")
    bounds = bounds.with_removed(run)
    suspects = SuspectIds.of(read.keys, bounds.target_partition_size, once)
    compared = compare(read.keys, suspects, bounds, once, of_ids=scope.tags is None)
    findings = compared.findings
    if suspects.differing:
        findings = journal_keys.without_deletes_meanwhile(run, once(findings))
        findings = _without_late_rows(run, findings, compared.keys.index)
        if judged is not None and judged.pending.since is not None:
            passed = [bucket for bucket in bounds.buckets or () if bucket in judged.passed]
            findings = _without_late_events(findings, compared.keys.scanning, passed)
    settlements = store.settlements(run.spark, run.control, run.settings)
    found = once(finding.weighed(findings, settlements))
    return Examination(scope, read, suspects, compared, bounds, found)


def _time_buckets(run: RunContext, read: Read, judged: JudgedBuckets) -> list[int]:
    """Return the judged time buckets with events, rows or progress.

    If there are none, return the newest that is judged: findings without a time are in it.
    """
    progress = frames.placed(read.keys.progress, run.settings.bucket_size)
    parts = [read.index.select("time_bucket"), read.keys.rows.select("time_bucket")]
    union = reduce(DataFrame.union, [*parts, progress.select("progress_bucket")])
    # Progress that names no event has no time bucket.
    buckets = union.distinct().where(F.col("time_bucket").isNotNull())
    return sorted(bucket for (bucket,) in buckets.collect() if bucket in judged) or [judged.newest]


@shaped(findings=shapes.FINDINGS, index=MESSAGES, returns=shapes.FINDINGS)
def _without_late_rows(run: RunContext, findings: DataFrame, index: DataFrame) -> DataFrame:
    """Drop findings of extra rows whose events a second read of messages returns.

    Rows are read after messages: an event and its row may have been written between the two reads.
    """
    event = ["persistence_id", "sequence_nr"]
    is_extra = F.col("check_name") == checks.EXTRA_ROW.name
    extra = findings.where(is_extra).select(*event).distinct().localCheckpoint()
    if extra.isEmpty():
        return findings
    unread = extra.join(index, on=event, how="left_anti")
    present = frames.messages_of(increments.keys_of(unread, run.settings), run.settings)
    late_events = present.select(
        *event, F.lit(checks.EXTRA_ROW.name).alias("check_name")
    ).distinct()
    return findings.join(late_events, on=[*event, "check_name"], how="left_anti").select(
        *findings.columns
    )


@shaped(findings=shapes.FINDINGS, scanning=SCANNING, returns=shapes.FINDINGS)
def _without_late_events(
    findings: DataFrame, scanning: DataFrame, passed: Collection[int]
) -> DataFrame:
    """Drop findings of untagged events that reached passed buckets after tag-write's last run.

    Such events are after tag_scanning, and the next run of tag-write writes their rows.
    """
    is_unscanned = F.col("number") > F.coalesce("scanned_to", F.lit(0))
    is_untagged = F.col("check_name") == checks.UNTAGGED_EVENT.name
    is_passed = F.col("time_bucket").isin(*passed)
    return (
        findings.join(scanning, on="persistence_id", how="left")
        .where(~(is_untagged & is_passed & is_unscanned))
        .select(*findings.columns)
    )
