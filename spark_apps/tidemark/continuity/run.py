"""The run of validate, from plan to report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.application import preflight
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.continuity import expectations, plan, store
from tidemark.continuity.findings import finding
from tidemark.continuity.findings.checks import CHECKS, UNWRITABLE_EVENT
from tidemark.continuity.plan import APPLICATION, ValidationScope
from tidemark.continuity.reading import tails
from tidemark.continuity.reading.inspection import READ_COUNTS, Inspection, inspect, kept_frames
from tidemark.errors import Remedy, TidemarkError, ValidationFailed, reason_of
from tidemark.ledger import applications
from tidemark.ledger.claim import Claim, claim
from tidemark.ledger.pieces import Piece, Reason, State, describe
from tidemark.ledger.schedule import left_for_later, time_buckets
from tidemark.text import counted
from tidemark.window import Window, from_millis, iso

EXAMPLES = 20
IDS_NAMED = 10
"""Up to so many persistence ids are repaired by name, more with all others."""


@dataclass(frozen=True)
class _Findings:
    """The findings of a run and the numbers of rows that it read.

    Attributes:
        inspection: the inspection that gave the findings.
        by_check: number of findings by time bucket and check.
        examples: the first findings as lines for people.
        unwritable: the options that name the first event that cannot be written.
        ids: the first IDS_NAMED + 1 persistence ids with findings, ascending.
    """

    inspection: Inspection
    by_check: Mapping[tuple[int, str], int]
    examples: list[str] = field(default_factory=list)
    unwritable: Mapping[str, object] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)

    def of_bucket(self, bucket: int) -> dict[str, int]:
        checks = {name: count for (where, name), count in self.by_check.items() if where == bucket}
        read = {name: self.inspection.read_counts[name].get(bucket, 0) for name in READ_COUNTS}
        return {**read, "findings": sum(checks.values()), **checks}

    def totals(self) -> dict[str, int]:
        checks = self.per_check()
        read = {name: sum(self.inspection.read_counts[name].values()) for name in READ_COUNTS}
        return {**read, "findings": sum(checks.values()), **checks}

    def per_check(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for (_, name), count in self.by_check.items():
            total[name] += count
        return {check.name: total[check.name] for check in CHECKS if total[check.name]}

    def bad_buckets(self) -> set[int]:
        return {bucket for bucket, _ in self.by_check}


def run_window(
    run: RunContext,
    window: Window,
    *,
    force: bool,
    dry_run: bool,
    scope: ValidationScope = ValidationScope.NEW,
) -> Outcome:
    """Check the sequence continuity of the window's time buckets.

    The outcome of a failed check is FAILED with a `ValidationFailed`; the pieces with findings
    end as failed, and the next run takes them up again.

    Args:
        run: the context of the run.
        window: whole time buckets that are over.
        force: also check buckets that passed before, and those that tag-write is not done with.
        dry_run: plan only.
        scope: the part of the journal to look at.

    Raises:
        InvalidInput: the window does not fit the bucket size, or lies in the future.
        SchemaMismatch: the journal's tables are missing or of another shape.
        BucketSizeMismatch: the existing tag views have another bucket size.
        LockHeld: another run validates one of the days.
    """
    settings = run.settings
    preflight.check(run, window)
    ledger = plan.ledger(run)
    scheduled = ledger.schedule(window, most=settings.catch_up_buckets, force=force)
    is_asked = scope is ValidationScope.ALL
    if not scheduled.pieces and not is_asked:
        return Outcome(
            RunState.NOTHING, lines=[f"every {settings.bucket_size.value} bucket has passed"]
        )
    owed = plan.owed_by_tag_write(run)
    if force:
        owed = owed.without(set(window.buckets(settings.bucket_size)))
    pieces = [piece for piece in scheduled.pieces if piece.time_bucket not in owed.buckets]
    later = [piece for piece in scheduled.pieces if piece.time_bucket in owed.buckets]
    lines = [*scheduled.lines(), *left_for_later(later, "tag-write has not done them yet")]
    details = scheduled.details(later)
    passed = plan.passed(ledger, pieces, owed.buckets)
    is_idle = not pieces and not (passed and is_asked)
    if scope is ValidationScope.ALL and passed and not is_idle:
        lines.append(f"{time_buckets(len(passed))} that have passed are looked at once more")
    if dry_run:
        plan_lines = [*describe(pieces), *lines]
        return Outcome(
            RunState.PLANNED, PieceCounts(len(pieces)), lines=plan_lines, details=details
        )
    ledger.note([*later, *scheduled.postponed])
    if is_idle:
        return Outcome(RunState.NOTHING, lines=lines, details=details)
    run.say(f"{len(pieces)} {settings.bucket_size.value} buckets to check")
    with claim(
        run,
        ledger,
        pieces,
        resource=f"{APPLICATION}/{settings.journal_keyspace}",
    ) as claimed:
        findings = _check(run, claimed, scope, passed, owed)
        run.say("judging the findings")
        planned = {piece.time_bucket for piece in pieces}
        looked_at = planned | (passed.keys() if scope is ValidationScope.ALL else set())
        verdict = expectations.judge(
            expectations.counts_table(looked_at, findings.by_check), settings, run.run_id
        )
        _require_agreement(findings, verdict)
        error = None if verdict.passed else _failure(run, findings, verdict, len(looked_at))
        _finish(claimed, findings, error)
    outcome = _outcome(findings, verdict, error, len(planned | findings.bad_buckets()))
    outcome.lines.extend(lines)
    outcome.details = {**details, **findings.inspection.details()}
    outcome.done = Window.hull(planned - findings.bad_buckets(), settings.bucket_size)
    return outcome


def _check(
    run: RunContext,
    claimed: Claim,
    scope: ValidationScope,
    passed: Mapping[int, Piece],
    owed: plan.Owed,
) -> _Findings:
    with kept_frames() as keep:
        inspection = inspect(run, scope, claimed.pieces, passed, owed, keep)
        by_check = finding.counts(inspection.findings)
        bad = {bucket for bucket, _ in by_check}
        reopened = [piece for bucket, piece in passed.items() if bucket in bad]
        claimed.cover(piece.time_bucket for piece in reopened)
        claimed.extend(reopened)
        _replace(run, claimed, inspection.findings if by_check else None)
        if inspection.tails is not None:
            claimed.check()
            tails.write(inspection.tails, run.settings)
        if not by_check:
            return _Findings(inspection, by_check)
        return _Findings(
            inspection,
            by_check,
            _examples(inspection.findings),
            _first_unwritable(inspection.findings),
            _first_ids(inspection.findings),
        )


def _replace(run: RunContext, claimed: Claim, findings: DataFrame | None) -> None:
    """Replace the findings of the claimed pieces by the new ones, if there are any."""
    if not claimed.pieces:
        return
    write_time = plan.write_time(plan.ledger(run), claimed.pieces)
    claimed.check()
    if findings is not None:
        store.write_findings(findings, run.settings, run.run_id, write_time)
    # A bucket that was never taken up has no findings, and needs no tombstone.
    never_checked = (Reason.NEW, Reason.MISSED)
    checked_before = [
        piece.time_bucket for piece in claimed.pieces if piece.reason not in never_checked
    ]
    claimed.check()
    store.delete_older(run.control, run.settings, checked_before, write_time)


def _examples(findings: DataFrame) -> list[str]:
    rows = findings.orderBy(*finding.KEY).limit(EXAMPLES).collect()
    return [
        f"{row['check_name']}: {row['persistence_id']}"
        f"{' tag ' + row['tag'] if row['tag'] else ''}: {row['detail']}"
        f" in bucket {iso(from_millis(row['time_bucket']))}"
        for row in rows
    ]


def _first_unwritable(findings: DataFrame) -> dict[str, object]:
    of_check = findings.where(F.col("check_name") == UNWRITABLE_EVENT)
    for row in of_check.orderBy(*finding.KEY).limit(1).collect():
        return {"persistence-id": row["persistence_id"], "sequence-nr": row["number"]}
    return {}


def _first_ids(findings: DataFrame) -> list[str]:
    ids = findings.select("persistence_id").distinct().orderBy("persistence_id")
    return [row["persistence_id"] for row in ids.limit(IDS_NAMED + 1).collect()]


def _finish(claimed: Claim, findings: _Findings, error: ValidationFailed | None) -> None:
    counts = {piece.time_bucket: findings.of_bucket(piece.time_bucket) for piece in claimed.pieces}
    if error is not None:
        claimed.finish_some(findings.bad_buckets(), State.FAILED, counts, reason_of(error))
    claimed.finish(State.DONE, counts)


def _require_agreement(findings: _Findings, verdict: expectations.Verdict) -> None:
    if verdict.passed == bool(findings.by_check):
        raise TidemarkError(
            f"Great Expectations {'passed' if verdict.passed else 'failed'} the window, but"
            f" {sum(findings.by_check.values())} findings were counted",
            where=str(verdict.data_docs),
            do="this is a defect of Tidemark; please report it with those Data Docs",
        )


def _failure(
    run: RunContext, findings: _Findings, verdict: expectations.Verdict, planned: int
) -> ValidationFailed:
    per_check = findings.per_check()
    kinds = ", ".join(f"{count:,} {name}" for name, count in per_check.items())
    number = sum(per_check.values())
    ids = {"persistence-id": findings.ids} if len(findings.ids) <= IDS_NAMED else {}
    repair = Remedy(applications.RECONCILE, "repair", ids)
    settle = Remedy(applications.RECONCILE, "settle", findings.unwritable)
    ways = []
    if set(per_check) - {UNWRITABLE_EVENT}:
        ways.append(f"run `{repair} --apply`")
    if UNWRITABLE_EVENT in per_check:
        ways.append(
            f"repair each event that cannot be written, or give it up: `{settle} --reason ...`"
        )
    return ValidationFailed(
        f"{counted(number, 'finding')} in {len(findings.bad_buckets())} of"
        f" {counted(planned, 'bucket')} ({kinds}); first: {findings.examples[0]}",
        where=run.settings.journal_keyspace,
        do=f"see {verdict.data_docs} and the table {run.settings.keyspace}.{store.FINDING};"
        f" {'; '.join(ways)}, then run validate again",
        remedy=settle if set(per_check) == {UNWRITABLE_EVENT} else repair,
    )


def _outcome(
    findings: _Findings, verdict: expectations.Verdict, error: ValidationFailed | None, planned: int
) -> Outcome:
    failed = len(findings.bad_buckets()) if error else 0
    return Outcome(
        RunState.FAILED if error else RunState.DONE,
        PieceCounts(planned, planned - failed, failed=failed),
        findings.totals(),
        [*findings.examples, findings.inspection.line(), f"Data Docs: {verdict.data_docs}"],
        error,
    )
