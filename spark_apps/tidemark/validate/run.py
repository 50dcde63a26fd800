"""The run of validate, from plan to report."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from pyspark.sql import DataFrame

from tidemark.application import preflight
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import ValidationFailed, reason_of
from tidemark.journals.pekko import tables
from tidemark.ledger.claim import Claim, claim
from tidemark.ledger.pieces import State, describe
from tidemark.ledger.schedule import left_for_later, time_buckets
from tidemark.validate import plan, run_findings, store
from tidemark.validate.data_docs import gate
from tidemark.validate.data_docs.build import publish
from tidemark.validate.findings import finding
from tidemark.validate.findings.check import Check, Layer
from tidemark.validate.layers.layer import (
    NO_LAYERS,
    FurtherLayer,
    Layers,
    replace_findings,
    with_layers,
)
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET
from tidemark.validate.plan import APPLICATION, ValidationScope
from tidemark.validate.reading import tails
from tidemark.validate.reading.inspection import (
    Examined,
    inspect,
    kept_frames,
    of_nothing,
    with_named,
)
from tidemark.validate.run_findings import RunFindings
from tidemark.validate.user_checks import definition
from tidemark.validate.user_checks.definition import UserCheck
from tidemark.validate.user_checks.named import NO_READERS, Readers
from tidemark.validate.user_checks.source import KEYS
from tidemark.window import Window


def run_window(
    run: RunContext,
    window: Window,
    *,
    force: bool,
    dry_run: bool,
    scope: ValidationScope = ValidationScope.NEW,
    skip_passed: bool = True,
    layers: Layers = NO_LAYERS,
    readers: Readers = NO_READERS,
) -> Outcome:
    """Check the sequence continuity of the window's time buckets, and further layers.

    The outcome of a failed check is FAILED with a `ValidationFailed`; the pieces with findings
    end as failed, and the next run takes them up again.

    Args:
        run: the context of the run.
        window: whole time buckets that are over.
        force: also check buckets that passed before, and those that tag-write is not done with.
        dry_run: plan only.
        scope: the part of the journal to look at.
        skip_passed: whether to leave out time buckets of the window that have passed, as runs do
            that a schedule or an asset has started; if a person gives the window, it is examined.
        layers: the layers that there are beside messages and the tag views; those that are asked
            for are looked at even if no time bucket is.
        readers: of the sources that users' checks may name.

    Raises:
        InvalidInput: the window does not fit the bucket size, or lies in the future.
        DefinitionError: a tag rule or a user's check cannot be used.
        SchemaMismatch: the journal's tables are missing or of another shape.
        BucketSizeMismatch: the existing tag views have another bucket size.
        LockHeld: another run validates one of the days.
    """
    settings = run.settings
    preflight.check(run, window)
    ledger = plan.ledger(run)
    scheduled = ledger.schedule(window, most=settings.catch_up_buckets, force=force)
    looks_back = scope is ValidationScope.ALL
    if not scheduled.pieces and skip_passed and not looks_back and not layers.asked:
        return Outcome(
            RunState.NOTHING, lines=[f"every {settings.bucket_size.value} bucket has passed"]
        )
    pending = plan.pending_tag_writes(run)
    if force:
        pending = pending.without(set(window.buckets(settings.bucket_size)))
    pieces = [piece for piece in scheduled.pieces if piece.time_bucket not in pending.buckets]
    later = [piece for piece in scheduled.pieces if piece.time_bucket in pending.buckets]
    lines = [*scheduled.lines(), *left_for_later(later, "tag-write has not done them yet")]
    details = scheduled.details(later)
    passed = plan.passed(ledger, pieces, pending.buckets)
    again = passed
    if not looks_back:
        in_window = () if skip_passed else window.buckets(settings.bucket_size)
        again = passed & set(in_window)
    is_idle = not pieces and not again and not layers.asked
    if again:
        lines.append(f"{time_buckets(len(again))} that have passed are looked at once more")
    # What loads Great Expectations is left out where nothing is looked at.
    user_checks = [] if is_idle else definition.load(settings.checks_dir, layers.checks)
    chosen = layers.chosen(run)
    if dry_run:
        further = [f"looks at {layer.layer}" for layer in chosen]
        plan_lines = [*describe(pieces), *lines, *further]
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
        planned = {piece.time_bucket for piece in pieces}
        looked_at = planned | set(again)
        buckets = Examined(scope, claimed.pieces, passed, again)
        findings = _check(run, claimed, buckets, pending, user_checks, readers, chosen)
        run.say("judging the findings")
        counts = {**findings.by_check, **findings.warned}
        blocked = gate.blocked(counts, findings.known, looked_at)
        docs = publish(
            counts,
            findings.known,
            looked_at,
            settings,
            run_findings.facts(run, findings, looked_at),
        )
        error = run_findings.failure(run, findings, len(looked_at), docs.page) if blocked else None
        _finish(claimed, findings, error)
    outcome = _outcome(findings, docs.page, error, planned)
    outcome.lines.extend(lines)
    read = (tables.MESSAGES, settings.events_by_tag_table)
    outcome.details = {
        **details,
        **findings.inspection.details(),
        "data_docs": str(docs.page.relative_to(docs.directory)),
        "tables": {
            "read": [f"{settings.journal_keyspace}.{name}" for name in read],
            "written": [f"{settings.keyspace}.{store.FINDING}"],
        },
    }
    outcome.done = Window.hull(planned - findings.failed(planned), settings.bucket_size)
    return outcome


def _check(
    run: RunContext,
    claimed: Claim,
    buckets: Examined,
    pending: plan.PendingTagWrites,
    user_checks: Sequence[UserCheck],
    readers: Readers,
    layers: Sequence[FurtherLayer],
) -> RunFindings:
    with kept_frames() as keep:
        former: set[str] = set()
        if buckets.pieces or buckets.again:
            of_keys = [check for check in user_checks if check.source == KEYS]
            named = [check for check in user_checks if check.source != KEYS]
            inspection = inspect(run, buckets, pending, of_keys, keep)
            inspection = with_named(run, inspection, named, buckets, readers, keep)
            former = store.names_in_no_time_bucket(run.control, run.settings, Layer.USER)
        else:
            inspection = of_nothing(run)
        inspection = with_layers(run, inspection, layers, keep)
        numbers = run_findings.counted_of(inspection)
        reopened = buckets.passed & numbers.bad_buckets()
        claimed.cover(reopened)
        claimed.extend(plan.begun_again(plan.ledger(run), reopened))
        everything = inspection.everything
        present = {*numbers.by_check, *numbers.settled, *numbers.warned}
        write_time = plan.write_time(plan.ledger(run), claimed.pieces)
        _replace(run, claimed, everything, inspection.checks, present, write_time)
        claimed.check()
        is_any = any(bucket == NO_TIME_BUCKET for bucket, _ in present)
        of_layers = (check.name for layer in layers for check in layer.checks)
        replaced = [*inspection.whole, *of_layers, *former]
        replace_findings(run, everything, inspection.checks, replaced, write_time, is_any=is_any)
        if inspection.tails is not None:
            claimed.check()
            tails.write(inspection.tails, run.settings)
        return run_findings.read(numbers)


def _replace(
    run: RunContext,
    claimed: Claim,
    findings: DataFrame,
    checks: Sequence[Check],
    present: Collection[tuple[int, str]],
    write_time: int,
) -> None:
    """Replace the findings of the claimed pieces by the new ones.

    Args:
        run: the context of the run.
        claimed: the pieces.
        findings: of shape WEIGHED.
        checks: all checks.
        present: the time buckets and checks that have any.
        write_time: of the new ones, microseconds.
    """
    if not claimed.pieces:
        return
    settings = run.settings
    buckets = {piece.time_bucket for piece in claimed.pieces}
    before = store.stored_in(run.spark, settings, buckets).select(*store.BY_CHECK).distinct()
    older = [row.asDict() for row in before.collect()]
    claimed.check()
    # Settled findings of time buckets that have passed are not of these pieces.
    here = buckets & {bucket for bucket, _ in present}
    if here:
        found = finding.within(findings, here)
        store.write_findings(found, checks, settings, run.run_id, write_time)
    claimed.check()
    store.delete_older(run.control, settings, older, write_time)


def _finish(claimed: Claim, findings: RunFindings, error: ValidationFailed | None) -> None:
    counts = {piece.time_bucket: findings.of_bucket(piece.time_bucket) for piece in claimed.pieces}
    if error is not None:
        failed = findings.failed(counts)
        claimed.finish_some(failed, State.FAILED, counts, reason_of(error))
    claimed.finish(State.DONE, counts)


def _outcome(
    findings: RunFindings,
    page: Path,
    error: ValidationFailed | None,
    planned: Collection[int],
) -> Outcome:
    pieces = {*planned, *findings.bad_buckets()}
    failed = findings.failed(pieces)
    return Outcome(
        RunState.FAILED if error else RunState.DONE,
        PieceCounts(len(pieces), len(pieces) - len(failed), failed=len(failed)),
        findings.totals(),
        [*findings.lines(), findings.inspection.line(), f"Data Docs: {page}"],
        error,
    )
