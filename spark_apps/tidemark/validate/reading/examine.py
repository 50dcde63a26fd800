"""The examination of a scope: its keys are read and compared; nothing is written.

`validate`, `reconcile check` and `reconcile repair` all examine by it.
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
from tidemark.validate.journal_wide import find as whole
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
        keys: what is compared; its index has tags of readable events only.
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
        doubts: the persistence ids that had to be compared.
        compared: the comparison.
        bounds: of the comparison.
        found: of shape WEIGHED and EVIDENCE, in memory: all findings of the comparison, the settled
            ones too, without those of what came while it was read.
    """

    read: Read
    suspects: SuspectIds
    compared: Compared
    bounds: Bounds
    found: DataFrame

    @property
    def findings(self) -> DataFrame:
        """Those that nobody has settled."""
        return self.found.where(F.col("reason").isNull())

    @property
    def blocking(self) -> DataFrame:
        """Those of the checks that block, the settled ones too."""
        return self.found.where(~F.col("check_name").isin(*WARNING))

    def warnings(
        self, run: RunContext, buckets: Sequence[int], partitions: DataFrame | None = None
    ) -> DataFrame:
        """Return the findings of the checks that warn, of shape FINDINGS.

        Args:
            run: the context of the run.
            buckets: the time buckets (epoch ms) whose findings are returned.
            partitions: all of the tag views; None if only some persistence ids are judged.
        """
        size, row_bytes = self.bounds.bucket_size, journal_keys.row_bytes(run)
        index, deleted = self.read.index, self.read.keys.deleted
        compared = self.found.where(F.col("check_name").isin(*WARNING)).drop("reason", "owner")
        out_of_order = self.suspects.events_out_of_order(index)
        parts = [
            warnings(out_of_order, partitions, size, row_bytes, buckets),
            finding.within(compared, buckets),
            whole.find(index, deleted, self.read.snapshots, partitions, size, row_bytes),
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

    Args:
        run: the context of the run.
        scope: persistence ids, slices and tags.
        are_applied: as in `journal_keys.with_rule_tags`.
        with_snapshots: also read the snapshots.

    Raises:
        InvalidInput: the directory of the tag rules does not exist.
        DefinitionError: a tag rule cannot be used.
    """
    tag_rules = journal_keys.usable_rules(run)
    source = EventReader.of(run, scope, tag_rules, are_applied=are_applied)
    progress, scanning = once(source.progress()), once(source.scanning())
    stored = source.snapshots() if with_snapshots else None
    snapshots = None if stored is None else once(stored)
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
    """Compare the keys that were read, and weigh what is found by what operators have settled.

    Args:
        run: the context of the run.
        read: the keys.
        bounds: from before the first read.
        passed: the time buckets (epoch ms) of the bounds that had passed before.
        of_ids: as in `compare`.
    """
    bounds = bounds.with_removed(run)
    suspects = SuspectIds.of(read.keys, bounds.target_partition_size, once)
    compared = compare(read.keys, suspects, bounds, once, of_ids=of_ids)
    findings = compared.findings
    if suspects.differing:
        findings = journal_keys.without_deletes_meanwhile(run, once(findings))
        findings = _without_late_rows(run, findings, compared.keys.index)
        if passed and bounds.pending.since is not None:
            findings = _without_late(findings, compared.keys.scanning, passed)
    settlements = store.settlements(run.spark, run.control, run.settings)
    return Examination(
        read, suspects, compared, bounds, once(finding.weighed(findings, settlements))
    )


@shaped(found=shapes.FINDINGS, index=MESSAGES, returns=shapes.FINDINGS)
def _without_late_rows(run: RunContext, found: DataFrame, index: DataFrame) -> DataFrame:
    """Drop extra rows whose events messages has when it is asked once more, and had not before.

    Rows are read after messages: an event and its row may have come between the two.
    """
    event = ["persistence_id", "sequence_nr"]
    is_extra = F.col("check_name") == checks.EXTRA_ROW.name
    extra = found.where(is_extra).select(*event).distinct().localCheckpoint()
    if extra.isEmpty():
        return found
    asked = extra.join(index, on=event, how="left_anti")
    present = frames.messages_of(increments.keys_of(asked, run.settings), run.settings)
    came_late = present.select(*event, F.lit(checks.EXTRA_ROW.name).alias("check_name")).distinct()
    return found.join(came_late, on=[*event, "check_name"], how="left_anti").select(*found.columns)


@shaped(findings=shapes.FINDINGS, scanning=SCANNING, returns=shapes.FINDINGS)
def _without_late(findings: DataFrame, scanning: DataFrame, passed: Collection[int]) -> DataFrame:
    """Drop findings of untagged events that reached passed buckets after tag-write's last run.

    Such events lie beyond tag_scanning, and the next run of tag-write writes their rows.
    """
    is_beyond = F.col("number") > F.coalesce("scanned_to", F.lit(0))
    is_untagged = F.col("check_name") == checks.UNTAGGED_EVENT.name
    is_passed = F.col("time_bucket").isin(*passed)
    return (
        findings.join(scanning, on="persistence_id", how="left")
        .where(~(is_untagged & is_passed & is_beyond))
        .select(*findings.columns)
    )
