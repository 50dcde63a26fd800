"""Inspection of a journal: an incremental check, or a full check if that is not conclusive."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.pekko import tables
from tidemark.journals.pekko.shapes import MESSAGES, TAG_ROWS
from tidemark.ledger.piece import Piece
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.spark.local_rows import local_rows
from tidemark.spark.read_once import kept_once
from tidemark.spark.shapes import ddl, shaped
from tidemark.text import counted
from tidemark.validate import shapes, store
from tidemark.validate.findings import finding
from tidemark.validate.findings.check import Check, Severity
from tidemark.validate.findings.checks import CHECKS, JOURNAL_WIDE
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET
from tidemark.validate.plan import JudgedBuckets, PendingTagWrites, ValidationScope
from tidemark.validate.reading import incremental, tails
from tidemark.validate.reading.examine import Examination, examine
from tidemark.validate.scope import Scope
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
        scope: the part of the journal that was checked; None if no time bucket was.
        why: the reason for a full check; empty after an incremental check.
        checks: all checks, users' checks last.
        findings: of the checks that block, of shape WEIGHED.
        warnings: of the checks that warn, in the planned time buckets and without a time bucket, of
            shape FINDINGS.
        read_counts: number of rows by READ_COUNTS and time bucket.
        tails: the tails that have changed, of shape TAILS; None if no run would read them.
        layers: the layers checked besides messages and the tag views.
        complete_checks: the checks of JOURNAL_WIDE that were run on the complete journal.
        held: why a time bucket without findings waits, by time bucket (epoch ms).
    """

    scope: ValidationScope | None
    why: str
    checks: Sequence[Check]
    findings: DataFrame
    warnings: DataFrame
    read_counts: Mapping[str, Mapping[int, int]]
    tails: DataFrame | None
    layers: Sequence[str] = ()
    complete_checks: Sequence[str] = ()
    held: Mapping[int, str] = field(default_factory=dict)

    @property
    def all_findings(self) -> DataFrame:
        """All findings, of shape WEIGHED; warnings are never settled."""
        return self.findings.unionByName(self.warnings, allowMissingColumns=True)

    def plus(self, run: RunContext, findings: DataFrame, buckets: Collection[int]) -> Inspection:
        """Add findings of the inspection's checks, of shape FINDINGS.

        Blocking findings are weighed by the settlements; warnings are added only in the time
        buckets (epoch ms).
        """
        names = [check.name for check in self.checks if check.severity is Severity.WARNS]
        warns = F.col("check_name").isin(names)
        settlements = store.settlements(run.spark, run.control, run.settings)
        blocking = finding.weighed(findings.where(~warns), settlements)
        warned = finding.within(findings.where(warns), buckets)
        return replace(
            self,
            findings=self.findings.unionByName(blocking, allowMissingColumns=True),
            warnings=self.warnings.unionByName(warned, allowMissingColumns=True),
        )

    def line(self) -> str:
        """Return the parts that were checked, as a line for people."""
        journal_parts = {
            None: (),
            ValidationScope.NEW: ("what is new",),
            ValidationScope.ALL: (f"everything: {self.why}",),
        }[self.scope]
        return f"looked at {', and at '.join([*journal_parts, *self.layers])}"

    def details(self) -> dict[str, Any]:
        """Return the parts that were checked, as fields for programs."""
        scope = {} if self.scope is None else {"scope": self.scope, "scope_reason": self.why}
        return {**scope, "layers": list(self.layers)}


@dataclass(frozen=True)
class Examined:
    """The time buckets that a run examines.

    Attributes:
        scope: the requested scope.
        pieces: the planned pieces, ascending.
        passed: the time buckets that have passed and are not planned, epoch ms.
        again: the passed time buckets that are examined again.
    """

    scope: ValidationScope
    pieces: Sequence[Piece]
    passed: TimeBuckets
    again: TimeBuckets


@dataclass(frozen=True)
class InspectionRequest:
    """The arguments of an inspection."""

    run: RunContext
    planned: Sequence[int]
    pending: PendingTagWrites
    user_checks: Sequence[UserCheck]
    keep: Keep

    @property
    def checks(self) -> Sequence[Check]:
        """All checks of a journal in Cassandra, users' checks last."""
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
    """Return an inspection without time buckets and checks."""
    no_findings = local_rows(run.spark, [], finding.SCHEMA)
    counts: dict[str, dict[int, int]] = {name: {} for name in READ_COUNTS}
    return Inspection(None, "", (), _none_weighed(run), no_findings, counts, None)


def _none_weighed(run: RunContext) -> DataFrame:
    return local_rows(run.spark, [], ddl(shapes.WEIGHED))


def inspect(
    run: RunContext,
    buckets: Examined,
    pending: PendingTagWrites,
    user_checks: Sequence[UserCheck],
    keep: Keep,
) -> Inspection:
    """Inspect time buckets; `keep` is the function that `kept_frames` yields."""
    require_usable(run.spark, user_checks)
    request = InspectionRequest(
        run, [piece.time_bucket for piece in buckets.pieces], pending, user_checks, keep
    )
    if buckets.scope is ValidationScope.ALL:
        return _full_check(request, buckets.again, "it was asked for")
    if buckets.again:
        return _full_check(request, buckets.again, "time buckets of the window have passed before")
    why = incremental.reason_for_full_check(run, buckets.pieces, buckets.passed)
    if not why:
        run.say("reading what is new")
        new, warned, why = incremental.inspect(run, request.planned, pending)
        if not why:
            inspection = Inspection(
                ValidationScope.NEW,
                "",
                request.checks,
                _none_weighed(run),
                warned,
                rows_by_bucket(new.events, new.rows, request.planned),
                tails.last_rows(new.rows, max(request.planned)),
            )
            return with_user_checks(request, request.planned, new.events, new.rows, inspection)
    return _full_check(request, (), why)


def _full_check(request: InspectionRequest, again: Collection[int], why: str) -> Inspection:
    """Check the planned time buckets, and others again, against the complete history."""
    run, settings = request.run, request.run.settings
    buckets = sorted({*request.planned, *again})
    run.say(f"a full check: {why}")
    judged = JudgedBuckets(request.pending, again, buckets[-1], buckets)
    examination = examine(run, Scope(), judged)
    keys = examination.read.keys
    changed_tails = None
    if tables.has_time_index(run.control, settings):
        stored_tails = tails.read_all(run.spark, settings)
        last_rows = tails.of_journal(
            keys.rows, keys.progress, examination.suspects, buckets[-1], settings.bucket_size
        )
        changed_tails = last_rows.join(stored_tails, on=stored_tails.columns, how="left_anti")
    inspection = replace(
        _inspection(run, examination, request.planned),
        scope=ValidationScope.ALL,
        why=why,
        checks=request.checks,
        tails=changed_tails,
        complete_checks=JOURNAL_WIDE,
    )
    return with_user_checks(request, buckets, examination.read.index, keys.rows, inspection)


def inspect_scope(run: RunContext, scope: Scope, judged: JudgedBuckets) -> Inspection:
    """Inspect all events and rows of a scope in the judged time buckets."""
    examination = examine(run, scope, judged)
    return _inspection(run, examination, examination.bounds.buckets or ())


def _inspection(
    run: RunContext, examination: Examination, warned_in: Collection[int]
) -> Inspection:
    """Return an examination as an inspection, with warnings in some of its time buckets."""
    buckets = examination.bounds.buckets or ()
    return Inspection(
        None,
        "",
        CHECKS,
        examination.blocking,
        examination.warnings(run, warned_in),
        rows_by_bucket(examination.read.index, examination.partitions, buckets),
        None,
    )


@shaped(events=MESSAGES, rows=TAG_ROWS)
def with_user_checks(
    request: InspectionRequest,
    buckets: Collection[int],
    events: DataFrame,
    rows: DataFrame,
    inspection: Inspection,
) -> Inspection:
    """Add the findings of users' checks in the time buckets."""
    if not request.user_checks:
        return inspection
    request.run.say(f"making {counted(len(request.user_checks), 'check')} of your own")
    is_open = F.col("reason").isNull() & (F.col("time_bucket") != NO_TIME_BUCKET)
    present = inspection.all_findings.where(is_open).select(*shapes.FINDINGS)
    failed = failures(events, rows, present, request.user_checks, buckets, request.keep)
    # Warnings are reported in the planned time buckets only, as those of Tidemark's own checks.
    return inspection.plus(request.run, failed, request.planned)


def with_named(
    run: RunContext,
    inspection: Inspection,
    checks: Sequence[UserCheck],
    buckets: Examined,
    readers: Readers,
    keep: Keep,
) -> Inspection:
    """Add users' checks with their own sources, and their findings."""
    if not checks:
        return inspection
    run.say(f"making {counted(len(checks), 'check')} of your own, on sources of their own")
    planned = [piece.time_bucket for piece in buckets.pieces]
    findings = named.failures(run, checks, sorted({*planned, *buckets.again}), readers, keep)
    extended = replace(inspection, checks=(*inspection.checks, *(check.check for check in checks)))
    return extended.plus(run, findings, [*planned, NO_TIME_BUCKET])


def rows_by_bucket(
    index: DataFrame, rows: DataFrame, buckets: Collection[int]
) -> dict[str, dict[int, int]]:
    """Count messages and rows by bucket; messages first, since Pekko writes in this order."""
    read_frames = zip(READ_COUNTS, (index, rows), strict=True)
    return {name: finding.rows_by_bucket(frame, buckets) for name, frame in read_frames}
