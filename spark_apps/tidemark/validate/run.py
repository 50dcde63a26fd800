"""The run of validate over a window, from plan to report."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from pyspark.sql import DataFrame

from tidemark.application import preflight
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import ValidationFailed, reason_of
from tidemark.journals.pekko import tables
from tidemark.journals.r2dbc.tables import journal_tables
from tidemark.ledger.claim import Claim, claim
from tidemark.ledger.piece import State
from tidemark.ledger.pieces import describe
from tidemark.ledger.schedule import left_for_later, time_buckets
from tidemark.settings import Settings
from tidemark.validate import plan, run_findings, store
from tidemark.validate.data_docs import gate, quiet_gx
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
from tidemark.validate.r2dbc import inspect as r2dbc
from tidemark.validate.reading import tails
from tidemark.validate.reading.inspection import (
    Examined,
    inspect,
    kept_frames,
    of_nothing,
    with_named,
)
from tidemark.validate.run_findings import RunFindings
from tidemark.validate.stored_findings import FINDING
from tidemark.validate.user_checks import definition
from tidemark.validate.user_checks.definition import UserCheck
from tidemark.validate.user_checks.named import NO_READERS, Readers
from tidemark.validate.user_checks.source import KEYS
from tidemark.window import Window, from_millis


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

    If a check fails, the outcome is FAILED with a `ValidationFailed`; pieces with findings end as
    failed, and the next run checks them again.

    The window consists of complete, past time buckets. `force` also checks buckets that passed
    before, and those that tag-write has not finished. `skip_passed` leaves out passed time buckets
    of the window, as runs do that a schedule or an asset has started; a window given by a person is
    checked completely. Requested layers are checked even if no time bucket is. `readers` read the
    sources that users' checks may name.
    """
    settings = run.settings
    preflight.check(run, window)
    ledger = plan.ledger(run)
    scheduled = ledger.schedule(window, most=settings.catch_up_buckets, force=force)
    looks_back = scope is ValidationScope.ALL
    if not scheduled.pieces and skip_passed and not looks_back and not layers.requested:
        return Outcome(
            RunState.NOTHING, lines=[f"every {settings.bucket_size.value} bucket has passed"]
        )
    pending = plan.pending_tag_writes(run)
    if force:
        pending = pending.without(set(window.buckets(settings.bucket_size)))
    pieces = [piece for piece in scheduled.pieces if piece.time_bucket not in pending.buckets]
    waiting = [piece for piece in scheduled.pieces if piece.time_bucket in pending.buckets]
    lines = [*scheduled.lines(), *left_for_later(waiting, "tag-write has not done them yet")]
    details = scheduled.details(waiting)
    passed = plan.passed(ledger, pieces, pending.buckets)
    rechecked = passed
    if not looks_back:
        in_window = () if skip_passed else window.buckets(settings.bucket_size)
        rechecked = passed & set(in_window)
    is_idle = not pieces and not rechecked and not layers.requested
    if rechecked:
        lines.append(f"{time_buckets(len(rechecked))} that have passed are looked at once more")
    # Loading users' checks imports Great Expectations, so it is skipped if nothing is checked.
    user_checks = [] if is_idle else definition.load(settings.checks_dir, layers.checks)
    chosen = layers.chosen(run)
    if dry_run:
        layer_lines = [f"looks at {layer.layer}" for layer in chosen]
        plan_lines = [*describe(pieces), *lines, *layer_lines]
        return Outcome(
            RunState.PLANNED, PieceCounts(len(pieces)), lines=plan_lines, details=details
        )
    ledger.note([*waiting, *scheduled.postponed])
    if is_idle:
        return Outcome(RunState.NOTHING, lines=lines, details=details)
    run.say(f"{len(pieces)} {settings.bucket_size.value} buckets to check")
    # The gate needs it when Spark's work is done; until then this process mostly waits.
    quiet_gx.import_early()
    with claim(
        run,
        ledger,
        pieces,
        resource=f"{APPLICATION}/{settings.journal_keyspace}",
    ) as claimed:
        planned = {piece.time_bucket for piece in pieces}
        checked = planned | set(rechecked)
        buckets = Examined(scope, claimed.pieces, passed, rechecked)
        findings = _check(run, claimed, buckets, pending, user_checks, readers, chosen)
        run.say("judging the findings")
        counts = {**findings.by_check, **findings.warned}
        blocked = gate.blocked(counts, findings.all_checks, checked)
        docs = publish(
            counts,
            findings.all_checks,
            checked,
            settings,
            run_findings.facts(run, findings, checked),
        )
        error = run_findings.failure(run, findings, len(checked), docs.page) if blocked else None
        _finish(claimed, findings, error)
    outcome = _outcome(findings, docs.page, error, planned)
    outcome.lines.extend(lines)
    outcome.details = {
        **details,
        **findings.inspection.details(),
        "data_docs": str(docs.page.relative_to(docs.directory)),
        "tables": {
            "read": _tables_read(settings),
            "written": [f"{settings.keyspace}.{FINDING}"],
        },
    }
    failed = findings.failed(planned)
    outcome.done = Window.hull(
        planned - failed - findings.held(failed).keys(), settings.bucket_size
    )
    return outcome


def _tables_read(settings: Settings) -> list[str]:
    if settings.is_r2dbc:
        return [str(journal_table.name) for journal_table in journal_tables(settings)]
    names = (tables.MESSAGES, settings.events_by_tag_table)
    return [f"{settings.journal_keyspace}.{name}" for name in names]


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
        former_checks: set[str] = set()
        if buckets.pieces or buckets.again:
            key_checks = [check for check in user_checks if check.source == KEYS]
            source_checks = [check for check in user_checks if check.source != KEYS]
            if run.settings.is_r2dbc:
                inspection = r2dbc.inspect(run, buckets, key_checks, keep)
            else:
                inspection = inspect(run, buckets, pending, key_checks, keep)
            inspection = with_named(run, inspection, source_checks, buckets, readers, keep)
            former_checks = store.names_in_no_time_bucket(run.control, run.settings, Layer.USER)
        else:
            inspection = of_nothing(run)
        inspection = with_layers(run, inspection, layers, keep)
        numbers = run_findings.counted_of(inspection)
        reopened = buckets.passed & {*numbers.bad_buckets(), *inspection.held}
        claimed.cover(reopened)
        claimed.extend(plan.restated_pieces(plan.ledger(run), reopened))
        all_findings = inspection.all_findings
        present = {*numbers.by_check, *numbers.settled, *numbers.warned}
        write_time = plan.write_time(plan.ledger(run), claimed.pieces)
        _replace(run, claimed, all_findings, inspection.checks, present, write_time)
        claimed.check()
        has_findings = any(bucket == NO_TIME_BUCKET for bucket, _ in present)
        layer_checks = (check.name for layer in layers for check in layer.checks)
        replaced_checks = [*inspection.complete_checks, *layer_checks, *former_checks]
        replace_findings(
            run, all_findings, inspection.checks, replaced_checks, write_time, is_any=has_findings
        )
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
    """Replace the findings of the claimed pieces by the new findings, of shape WEIGHED.

    `present`: the time buckets and checks with new findings. `write_time`: microseconds.
    """
    if not claimed.pieces:
        return
    settings = run.settings
    buckets = {piece.time_bucket for piece in claimed.pieces}
    stored_keys = store.stored_in(run.spark, settings, buckets).select(*store.BY_CHECK).distinct()
    older = [row.asDict() for row in stored_keys.collect()]
    claimed.check()
    # Settled findings of passed time buckets do not belong to these pieces.
    with_findings = buckets & {bucket for bucket, _ in present}
    if with_findings:
        new_findings = finding.within(findings, with_findings)
        store.write_findings(new_findings, checks, settings, run.run_id, write_time)
    claimed.check()
    store.delete_older(run.control, settings, older, write_time)


def _finish(claimed: Claim, findings: RunFindings, error: ValidationFailed | None) -> None:
    counts = {piece.time_bucket: findings.of_bucket(piece.time_bucket) for piece in claimed.pieces}
    failed = findings.failed(counts)
    if error is not None:
        claimed.finish_some(failed, State.FAILED, counts, reason_of(error))
    for bucket, why in findings.held(failed).items():
        claimed.finish_some({bucket}, State.HELD, counts, why)
    claimed.finish(State.DONE, counts)


def _outcome(
    findings: RunFindings,
    page: Path,
    error: ValidationFailed | None,
    planned: Collection[int],
) -> Outcome:
    pieces = {*planned, *findings.bad_buckets(), *findings.inspection.held}
    failed = findings.failed(pieces)
    held = findings.held(failed)
    waits = [f"{from_millis(bucket):%Y-%m-%d %H:%M} held: {why}" for bucket, why in held.items()]
    return Outcome(
        RunState.FAILED if error else RunState.DONE,
        PieceCounts(len(pieces), len(pieces) - len(failed) - len(held), len(held), len(failed)),
        findings.totals(),
        [*findings.lines(), *waits, findings.inspection.line(), f"Data Docs: {page}"],
        error,
    )
