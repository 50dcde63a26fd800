"""Inspection of a journal: of what is new if that proves it whole, else of everything."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.pekko import tables
from tidemark.journals.pekko.shapes import MESSAGES, TAG_ROWS
from tidemark.ledger.pieces import Piece
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.spark.local_rows import local_rows
from tidemark.spark.read_once import kept_once
from tidemark.spark.shapes import ddl, shaped
from tidemark.text import counted
from tidemark.validate import shapes, store
from tidemark.validate.findings import finding
from tidemark.validate.findings.check import Check, Severity
from tidemark.validate.findings.checks import CHECKS, JOURNAL_WIDE
from tidemark.validate.findings.partition_size import sizes
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET
from tidemark.validate.plan import PendingTagWrites, ValidationScope
from tidemark.validate.reading import incremental, tails
from tidemark.validate.reading.examine import examine, read_keys
from tidemark.validate.scope import Scope
from tidemark.validate.tag_views.bounds import Bounds
from tidemark.validate.tag_views.keys import once
from tidemark.validate.user_checks import named
from tidemark.validate.user_checks.definition import UserCheck
from tidemark.validate.user_checks.evaluate import failures, require_usable
from tidemark.validate.user_checks.named import Readers

READ_COUNTS = ("messages_checked", "tag_rows_checked")
Keep = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Inspection:
    """The result of an inspection of a journal.

    Attributes:
        scope: what was looked at; None if no time bucket was.
        why: the reason for looking at everything; empty if only new events were looked at.
        checks: all checks, those of users last.
        findings: of shape WEIGHED, of the checks that block.
        warnings: of shape FINDINGS, of the checks that warn, in the planned time buckets and in
            none.
        read_counts: number of rows by READ_COUNTS and time bucket.
        tails: the tails that have moved, of shape TAILS; None if no run would read them.
        layers: the layers that were looked at beside messages and the tag views.
        whole: the checks of JOURNAL_WIDE whose findings are all here; of others only new ones are.
    """

    scope: ValidationScope | None
    why: str
    checks: Sequence[Check]
    findings: DataFrame
    warnings: DataFrame
    read_counts: Mapping[str, Mapping[int, int]]
    tails: DataFrame | None
    layers: Sequence[str] = ()
    whole: Sequence[str] = ()

    @property
    def everything(self) -> DataFrame:
        """All findings, of shape WEIGHED; those that warn are not settled."""
        return self.findings.unionByName(self.warnings, allowMissingColumns=True)

    def plus(self, run: RunContext, found: DataFrame, buckets: Collection[int]) -> Inspection:
        """Add findings of its checks, of shape FINDINGS.

        Those that block are weighed by what operators have settled; those that warn are added in
        the time buckets (epoch ms) alone.
        """
        names = [check.name for check in self.checks if check.severity is Severity.WARNS]
        warns = F.col("check_name").isin(names)
        settlements = store.settlements(run.spark, run.control, run.settings)
        blocking = finding.weighed(found.where(~warns), settlements)
        warned = finding.within(found.where(warns), buckets)
        return replace(
            self,
            findings=self.findings.unionByName(blocking, allowMissingColumns=True),
            warnings=self.warnings.unionByName(warned, allowMissingColumns=True),
        )

    def line(self) -> str:
        """Return what was looked at, as a line for people."""
        of_journal = {
            None: (),
            ValidationScope.NEW: ("what is new",),
            ValidationScope.ALL: (f"everything: {self.why}",),
        }[self.scope]
        return f"looked at {', and at '.join([*of_journal, *self.layers])}"

    def details(self) -> dict[str, Any]:
        """Return what was looked at, as fields for programs."""
        scope = {} if self.scope is None else {"scope": self.scope, "scope_reason": self.why}
        return {**scope, "layers": list(self.layers)}


@dataclass(frozen=True)
class Examined:
    """The time buckets that a run examines.

    Attributes:
        scope: the requested scope.
        pieces: the planned pieces, ascending.
        passed: the time buckets that have passed and are not planned, epoch ms.
        again: those of them that are examined once more.
    """

    scope: ValidationScope
    pieces: Sequence[Piece]
    passed: TimeBuckets
    again: TimeBuckets


@dataclass(frozen=True)
class _InspectionRequest:
    """What an inspection is to look at."""

    run: RunContext
    planned: Sequence[int]
    pending: PendingTagWrites
    user_checks: Sequence[UserCheck]
    keep: Keep

    @property
    def checks(self) -> Sequence[Check]:
        return (*CHECKS, *(check.check for check in self.user_checks))


@contextmanager
def kept_frames() -> Iterator[Keep]:
    """Yield a function that keeps a frame in memory until the end of the block."""
    persisted: list[DataFrame] = []

    def keep(frame: DataFrame) -> DataFrame:
        persisted.append(kept_once(frame))
        return persisted[-1]

    try:
        yield keep
    finally:
        for frame in persisted:
            frame.unpersist()


def of_nothing(run: RunContext) -> Inspection:
    """Return the inspection of no time bucket, which has no checks."""
    none = local_rows(run.spark, [], finding.SCHEMA)
    counts: dict[str, dict[int, int]] = {name: {} for name in READ_COUNTS}
    return Inspection(None, "", (), _none_weighed(run), none, counts, None)


def _none_weighed(run: RunContext) -> DataFrame:
    return local_rows(run.spark, [], ddl(shapes.WEIGHED))


def inspect(
    run: RunContext,
    buckets: Examined,
    pending: PendingTagWrites,
    user_checks: Sequence[UserCheck],
    keep: Keep,
) -> Inspection:
    """Inspect time buckets.

    Args:
        run: the context of the run.
        buckets: which.
        pending: the time buckets that tag-write owes.
        user_checks: the checks of users.
        keep: the function that `kept_frames` yields.

    Raises:
        DefinitionError: a tag rule or a user's check cannot be used.
    """
    require_usable(run.spark, user_checks)
    asked = _InspectionRequest(
        run, [piece.time_bucket for piece in buckets.pieces], pending, user_checks, keep
    )
    if buckets.scope is ValidationScope.ALL:
        return _everything(asked, buckets.again, "it was asked for")
    if buckets.again:
        return _everything(asked, buckets.again, "time buckets of the window have passed before")
    why = incremental.reason_for_everything(run, buckets.pieces, buckets.passed)
    if not why:
        run.say("reading what is new")
        new, warned, why = incremental.inspect(run, asked.planned, pending)
        if not why:
            proven = Inspection(
                ValidationScope.NEW,
                "",
                asked.checks,
                _none_weighed(run),
                warned,
                rows_by_bucket(new.events, new.rows, asked.planned),
                tails.last_rows(new.rows, max(asked.planned)),
            )
            return _with_user_checks(asked, asked.planned, new.events, new.rows, proven)
    return _everything(asked, (), why)


def _everything(asked: _InspectionRequest, passed: Collection[int], why: str) -> Inspection:
    """Check the planned and passed time buckets against the whole history."""
    run, planned, pending = asked.run, asked.planned, asked.pending
    spark, settings = run.spark, run.settings
    buckets = sorted({*planned, *passed})
    run.say(f"reading the keys of tag_write_progress, messages and tag_views: {why}")
    bounds = Bounds.of_buckets(run, buckets, pending)
    read = read_keys(run, Scope(), with_snapshots=True)
    index, rows = read.index, read.keys.rows
    partitions = once(sizes(rows))
    counts = rows_by_bucket(index, partitions, buckets)
    run.say("comparing messages, tag views and tag_write_progress")
    examination = examine(run, read, bounds, passed=passed)
    moved = None
    if tables.has_time_index(run.control, settings):
        known = tails.known(spark, settings)
        last = tails.of_journal(
            rows, read.keys.progress, examination.suspects, buckets[-1], settings.bucket_size
        )
        moved = last.join(known, on=known.columns, how="left_anti")
    compared = Inspection(
        ValidationScope.ALL,
        why,
        asked.checks,
        examination.blocking,
        examination.warnings(run, planned, partitions),
        counts,
        moved,
        whole=JOURNAL_WIDE,
    )
    return _with_user_checks(asked, buckets, index, rows, compared)


@shaped(events=MESSAGES, rows=TAG_ROWS)
def _with_user_checks(
    asked: _InspectionRequest,
    buckets: Collection[int],
    events: DataFrame,
    rows: DataFrame,
    inspection: Inspection,
) -> Inspection:
    """Add what users' checks find in the time buckets."""
    if not asked.user_checks:
        return inspection
    asked.run.say(f"making {counted(len(asked.user_checks), 'check')} of your own")
    is_open = F.col("reason").isNull() & (F.col("time_bucket") != NO_TIME_BUCKET)
    present = inspection.everything.where(is_open).select(*shapes.FINDINGS)
    failed = failures(events, rows, present, asked.user_checks, buckets, asked.keep)
    # Those that warn are told of the planned time buckets only, as Tidemark's own are.
    return inspection.plus(asked.run, failed, asked.planned)


def with_named(
    run: RunContext,
    inspection: Inspection,
    checks: Sequence[UserCheck],
    buckets: Examined,
    readers: Readers,
    keep: Keep,
) -> Inspection:
    """Add users' checks with sources of their own, and what they find.

    Raises:
        DefinitionError: a check cannot be used or computed.
    """
    if not checks:
        return inspection
    run.say(f"making {counted(len(checks), 'check')} of your own, on sources of their own")
    planned = [piece.time_bucket for piece in buckets.pieces]
    found = named.failures(run, checks, sorted({*planned, *buckets.again}), readers, keep)
    extended = replace(inspection, checks=(*inspection.checks, *(check.check for check in checks)))
    return extended.plus(run, found, [*planned, NO_TIME_BUCKET])


def rows_by_bucket(
    index: DataFrame, rows: DataFrame, buckets: Collection[int]
) -> dict[str, dict[int, int]]:
    """Count messages and rows by bucket: messages first, since Pekko writes in this order."""
    read_frames = zip(READ_COUNTS, (index, rows), strict=True)
    return {name: finding.rows_by_bucket(frame, buckets) for name, frame in read_frames}
