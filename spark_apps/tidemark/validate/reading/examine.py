"""The examination of a scope: reads and compares its keys, and writes nothing.

`validate`, `reconcile check` and `reconcile repair` use it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial, reduce

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
from tidemark.validate.journal_wide import find as journal_wide
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
        read: the keys.
        suspects: the persistence ids that had to be compared.
        compared: the comparison.
        bounds: of the comparison.
        found: all findings, also settled ones, of shape WEIGHED and EVIDENCE, in memory; without
            findings due to writes during the reads.
    """

    read: Read
    suspects: SuspectIds
    compared: Compared
    bounds: Bounds
    found: DataFrame

    @property
    def findings(self) -> DataFrame:
        """The findings that nobody has settled."""
        return self.found.where(F.col("reason").isNull())

    @property
    def blocking(self) -> DataFrame:
        """The findings of the checks that block, also settled ones."""
        return self.found.where(~F.col("check_name").isin(*WARNING))

    def warnings(
        self, run: RunContext, buckets: Sequence[int], partitions: DataFrame | None = None
    ) -> DataFrame:
        """Return the findings of the checks that warn in the time buckets, of shape FINDINGS.

        `partitions`: all of the tag views; None if only some persistence ids are judged.
        """
        size, row_bytes = self.bounds.bucket_size, journal_keys.row_bytes(run)
        index, deleted = self.read.index, self.read.keys.deleted
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


def examine(
    run: RunContext,
    read: Read,
    bounds: Bounds,
    *,
    passed: Collection[int] = (),
    of_ids: bool = True,
) -> Examination:
    """Compare the keys that were read, and weigh the findings by the settlements.

    `bounds` are from before the first read. `passed`: their time buckets (epoch ms) that had passed
    before. `of_ids` is as in `compare`.
    """
    bounds = bounds.with_removed(run)
    suspects = SuspectIds.of(read.keys, bounds.target_partition_size, once)
    compared = compare(read.keys, suspects, bounds, once, of_ids=of_ids)
    findings = compared.findings
    if suspects.differing:
        findings = journal_keys.without_deletes_meanwhile(run, once(findings))
        findings = _without_late_rows(run, findings, compared.keys.index)
        if passed and bounds.pending.since is not None:
            findings = _without_late_events(findings, compared.keys.scanning, passed)
    settlements = store.settlements(run.spark, run.control, run.settings)
    return Examination(
        read, suspects, compared, bounds, once(finding.weighed(findings, settlements))
    )


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
