"""Inspection of a journal: of what is new if that proves it whole, else of everything."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from tidemark import clock
from tidemark.context import RunContext
from tidemark.continuity import shapes, store
from tidemark.continuity.findings import finding, tag_sequence, unwritable
from tidemark.continuity.findings.all_findings import JournalKeys, all_findings, warnings
from tidemark.continuity.findings.checks import UNTAGGED_EVENT
from tidemark.continuity.plan import Owed, ValidationScope
from tidemark.continuity.reading import incremental, journal_keys, tails
from tidemark.journal import frames, tables
from tidemark.journal.shapes import SCANNING
from tidemark.ledger.pieces import Piece
from tidemark.ledger.purged import removed
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.tagging import rules
from tidemark.window import to_millis

READ_COUNTS = ("messages_checked", "tag_rows_checked")
Keep = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Inspection:
    """The result of an inspection of a journal.

    Attributes:
        scope: what was looked at.
        why: the reason for looking at everything; empty if only new events were looked at.
        findings: of shape WEIGHED, of the checks that block.
        warnings: of shape FINDINGS, of the checks that warn, in the planned time buckets.
        read_counts: number of rows by READ_COUNTS and time bucket.
        tails: the tails that have moved, of shape TAILS; None if no run would read them.
    """

    scope: ValidationScope
    why: str
    findings: DataFrame
    warnings: DataFrame
    read_counts: Mapping[str, Mapping[int, int]]
    tails: DataFrame | None

    def line(self) -> str:
        """Return what was looked at, as a line for people."""
        everything = f"looked at everything: {self.why}"
        return "looked at what is new" if self.scope is ValidationScope.NEW else everything

    def details(self) -> dict[str, str]:
        """Return what was looked at, as fields for programs."""
        return {"scope": self.scope, "scope_reason": self.why}


@contextmanager
def kept_frames() -> Iterator[Keep]:
    """Yield a function that keeps a frame in memory until the end of the block."""
    persisted: list[DataFrame] = []

    def keep(frame: DataFrame) -> DataFrame:
        persisted.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame

    try:
        yield keep
    finally:
        for frame in persisted:
            frame.unpersist()


def inspect(
    run: RunContext,
    scope: ValidationScope,
    pieces: Sequence[Piece],
    passed: Collection[int],
    owed: Owed,
    keep: Keep,
) -> Inspection:
    """Inspect the time buckets of the pieces; with ValidationScope.ALL also those that have passed.

    Args:
        run: the context of the run.
        scope: the requested scope.
        pieces: the planned pieces, ascending.
        passed: the time buckets that have passed and are not planned, epoch ms.
        owed: the time buckets that tag-write owes.
        keep: the function that `kept_frames` yields.

    Raises:
        DefinitionError: a tag rule cannot be used.
    """
    tag_rules = rules.load(run.settings.tagging_dir)
    rules.check(run.spark, tag_rules)
    buckets = [piece.time_bucket for piece in pieces]
    if scope is ValidationScope.ALL:
        return _everything(run, buckets, passed, tag_rules, owed, keep, "it was asked for")
    why = incremental.reason_for_everything(run, pieces, passed)
    if not why:
        run.say("reading what is new")
        new = incremental.inspect(run, buckets, tag_rules, owed)
        if not new.doubt:
            counts = _counts(new.events, new.rows, buckets)
            settled = store.settlements(run.spark, run.control, run.settings)
            no_findings = finding.weighed(local_rows(run.spark, [], finding.SCHEMA), settled)
            moved = tails.last_rows(new.rows, max(buckets))
            return Inspection(ValidationScope.NEW, "", no_findings, new.warnings, counts, moved)
        why = new.doubt
    return _everything(run, buckets, (), tag_rules, owed, keep, why)


def _everything(
    run: RunContext,
    planned: Sequence[int],
    passed: Collection[int],
    tag_rules: Sequence[rules.TagRule],
    owed: Owed,
    keep: Keep,
    why: str,
) -> Inspection:
    """Check the planned and passed time buckets against the whole history."""
    spark, settings = run.spark, run.settings
    buckets = sorted({*planned, *passed})
    run.say(f"reading the keys of tag_write_progress, messages and tag_views: {why}")
    progress = keep(frames.placed_progress(spark, settings))
    scanning = keep(frames.scanning(spark, settings))
    progress.count()
    scanning.count()
    index = keep(journal_keys.index(run, tag_rules))
    rows = keep(frames.tag_view_keys(spark, settings))
    counts = _counts(index, rows, buckets)
    run.say("comparing the numbers")
    removed_rows = removed(run.control, settings, to_millis(clock.now()))
    absent = keep(tag_sequence.absent_events(index, rows, removed_rows, owed))
    keys = JournalKeys(
        index,
        rows,
        progress,
        scanning,
        deleted=frames.deleted(spark, settings),
        listed=journal_keys.listed(spark, settings, run.control),
        unwritable=keep(unwritable.unwritable_events(absent, buckets, settings, tag_rules)),
    )
    findings = all_findings(keys, absent, removed_rows, buckets)
    if passed and owed.since is not None:
        findings = _without_late(findings, scanning, passed)
    moved = None
    if tables.has_time_index(run.control, settings):
        known = tails.known(spark, settings)
        last = tails.last_rows(rows, buckets[-1])
        moved = last.join(known, on=known.columns, how="left_anti")
    warned = keep(warnings(index, rows, settings.bucket_size, planned))
    findings = finding.weighed(findings, store.settlements(spark, run.control, settings))
    return Inspection(ValidationScope.ALL, why, keep(findings), warned, counts, moved)


@shaped(findings=shapes.FINDINGS, scanning=SCANNING, returns=shapes.FINDINGS)
def _without_late(findings: DataFrame, scanning: DataFrame, passed: Collection[int]) -> DataFrame:
    """Drop findings of untagged events that reached passed buckets after tag-write's last run.

    Such events lie beyond tag_scanning, and the next run of tag-write writes their rows.
    """
    is_beyond = F.col("number") > F.coalesce("scanned_to", F.lit(0))
    is_untagged = F.col("check_name") == UNTAGGED_EVENT
    is_passed = F.col("time_bucket").isin(*passed)
    return (
        findings.join(scanning, on="persistence_id", how="left")
        .where(~(is_untagged & is_passed & is_beyond))
        .select(*findings.columns)
    )


def _counts(
    index: DataFrame, rows: DataFrame, buckets: Collection[int]
) -> dict[str, dict[int, int]]:
    """Count messages and rows by bucket: messages first, since Pekko writes in this order."""
    read_frames = zip(READ_COUNTS, (index, rows), strict=True)
    return {name: finding.rows_by_bucket(frame, buckets) for name, frame in read_frames}
