"""project from plan to report."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import NO_RETRY_HELPS, TidemarkError, all_of
from tidemark.ledger.pieces import Reason
from tidemark.ledger.schedule import time_buckets
from tidemark.project.acceptance.accept import MissingEventPolicy
from tidemark.project.analysis import analyze
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.definition.model import Definition
from tidemark.project.planning.build import PlanOptions, RunPlan, build
from tidemark.project.planning.plan import ProjectionPlan, validated_buckets
from tidemark.project.running import bisection, releases, rollups, slices
from tidemark.project.running.outcome import ProjectionOutcome, RunTally, failure_of
from tidemark.project.running.process import process
from tidemark.project.sources import reference_tables
from tidemark.project.testing.preview import sample
from tidemark.project.transformation import result_checks
from tidemark.project.writing.target import create_statement, lacks_table
from tidemark.project.writing.write import MODES
from tidemark.text import counted
from tidemark.window import Window, from_millis, iso

_GAPS_SHOWN = 5
_ALWAYS_SHOWN = ("events_read", "rows_written", "quarantined")


def run_window(
    run: RunContext,
    window: Window,
    options: PlanOptions,
    *,
    dry_run: bool,
    policy: MissingEventPolicy,
    show: int = 0,
) -> Outcome:
    """Bring the read models up to the window; paused projections are left out.

    A definition is checked against Spark and its target before the first of its events is read. A
    projection that cannot be used or fails does not stop the others; the outcome has each error.
    Rollups come last, and read what their sources have done so far.

    Args:
        run: the context of the run.
        window: whole time buckets that are over.
        options: which projections, and how much of them.
        dry_run: check and plan only.
        policy: what to do about events that are missing.
        show: in a dry run, the rows to show of each projection's result over a sample; 0 for none.

    Raises:
        TidemarkError: as `build.build` raises it.
    """
    plan = build(run, window, options)
    if dry_run:
        return _planned(run, plan, show)
    if not plan.projections and not plan.rollups:
        return _nothing(run, plan)
    tally = RunTally(lines=[*plan.left_out, *_all_done(run, plan)], errors=[*plan.errors])
    for projection in plan.projections:
        _attempt(run, projection, policy, tally)
    try:
        settled = _settle(run, plan.definitions)
        tally.lines += settled.lines
        tally.swapped = settled.swapped
        if settled.error is not None:
            tally.errors.append(settled.error)
    except TidemarkError as error:
        tally.errors.append(error)
    for rollup in plan.rollups:
        rollups.attempt(run, rollup, tally, force=options.force)
    return tally.outcome(run.settings.bucket_size)


def _nothing(run: RunContext, plan: RunPlan) -> Outcome:
    settled = _settle(run, plan.definitions)
    state = RunState.DONE if settled.swapped else RunState.NOTHING
    errors = [*plan.errors, *([] if settled.error is None else [settled.error])]
    return _ended(state, [*plan.left_out, *_all_done(run, plan), *settled.lines], errors)


def _all_done(run: RunContext, plan: RunPlan) -> list[str]:
    if plan.projections or not plan.definitions:
        return []
    return [
        f"every {run.settings.bucket_size} bucket is done; late events in them are found"
        " with the next new one, or with --force"
    ]


def _planned(run: RunContext, plan: RunPlan, show: int) -> Outcome:
    plans = {projection.definition.name: projection for projection in plan.projections}
    errors = [*plan.errors]
    lines = [line for projection in plan.projections for line in projection.lines()]
    for definition in [*plan.definitions, *plan.refused]:
        try:
            lines += _tried(run, definition, plans.get(definition.name), show)
        except NO_RETRY_HELPS as error:
            errors.append(error)
    for rollup in plan.rollups:
        try:
            lines += rollups.tried(run, rollup, plans, show)
        except NO_RETRY_HELPS as error:
            errors.append(error)
    is_due = any(rollups.is_due(run, rollup, plans) for rollup in plan.rollups)
    state = RunState.PLANNED if plans or is_due else RunState.NOTHING
    lines = [*plan.left_out, *_all_done(run, plan), *lines]
    return _ended(state, lines, errors, plan.pieces)


def _ended(
    state: RunState,
    lines: list[str],
    errors: Sequence[TidemarkError],
    pieces: PieceCounts | None = None,
) -> Outcome:
    return Outcome(
        RunState.FAILED if errors else state,
        pieces or PieceCounts(),
        lines=lines,
        error=all_of(errors),
    )


def _tried(
    run: RunContext, definition: Definition, plan: ProjectionPlan | None, show: int
) -> list[str]:
    """Check what a run would process; with `show` return a sample and the table to create."""
    is_to_create = bool(show) and lacks_table(run.control, definition)
    checked = None
    if is_to_create or (plan is not None and plan.time_buckets):
        checked = _analyzed(run, definition)
        if not is_to_create:
            _require_target(run, checked, create=False)
    lines = sample(run, plan, checked, show) if show and plan is not None else []
    if checked is not None and is_to_create:
        lines.append(f"{definition.name}: {definition.target} does not exist yet; this makes it")
        lines += create_statement(checked)
    return lines


def _settle(run: RunContext, definitions: Sequence[Definition]) -> releases.Settled:
    """Report what became of blue/green versions; nothing is read without any."""
    if not any(definition.is_blue_green for definition in definitions):
        return releases.Settled()
    return releases.settle(run, definitions, validated_buckets(run, run.settings))


def _analyzed(run: RunContext, definition: Definition) -> AnalyzedDefinition:
    tables = reference_tables.read(run, definition)
    analyzed = analyze.analyze(run.spark, definition, tables)
    result_checks.analyze(run.spark, analyzed)
    return analyzed


def _require_target(run: RunContext, analyzed: AnalyzedDefinition, *, create: bool) -> None:
    releases.require_table(run, analyzed, create=create)
    MODES[analyzed.definition.mode].require_place(run, analyzed.definition)


def _attempt(
    run: RunContext, plan: ProjectionPlan, policy: MissingEventPolicy, tally: RunTally
) -> None:
    done = ProjectionOutcome()
    failure = failure_of(lambda: _process(run, plan, policy, done))
    if failure is not None:
        _failed(plan, done, tally)
        tally.errors.append(failure.within(f"projection {plan.definition.name} failed"))
    if failure is None or done.counts or done.failed:
        held = len(plan.held) + len(done.gaps)
        tally.pieces.planned += done.buckets + held
        tally.pieces.done += done.buckets
        whole = done.counts.keys() - done.gaps.keys()
        tally.done |= whole
        if hull := Window.hull(whole, run.settings.bucket_size):
            span = {"done_start": iso(hull.start), "done_end": iso(hull.end)}
            tally.moved[plan.definition.name] = span
            tally.read.add(plan.definition.source.table(run.settings))
            tally.read.update(plan.definition.tables.values())
            tally.written.add(plan.definition.target)
        tally.pieces.held += held
        for key, number in done.totals.items():
            tally.counts[key] += number
        tally.lines += _lines(plan, done)
    tally.pieces.planned += len(plan.postponed)


def _process(
    run: RunContext, plan: ProjectionPlan, policy: MissingEventPolicy, done: ProjectionOutcome
) -> None:
    analyzed = None
    if plan.time_buckets:
        # Spark is not started for pieces that are held.
        analyzed = _analyzed(run, plan.definition)
        _require_target(run, analyzed, create=True)
    try:
        if plan.slicing is not None:
            slices.process(run, plan, analyzed, policy, done)
        else:
            process(run, plan, analyzed, policy, done)
    finally:
        for frame in analyzed.tables.values() if analyzed else ():
            frame.unpersist()


def _lines(plan: ProjectionPlan, done: ProjectionOutcome) -> list[str]:
    name = plan.definition.name
    numbers = ", ".join(
        f"{number:,} {key.replace('_', ' ')}"
        for key, number in done.totals.items()
        if number or key in _ALWAYS_SHOWN
    )
    held = f", {len(plan.held)} held: {plan.waits_for}" if plan.held else ""
    later = f", {len(plan.postponed):,} left for the next run" if plan.postponed else ""
    missed = sum(piece.reason is Reason.MISSED for piece in plan.pieces)
    made_good = f", {missed:,} missed by earlier runs" if missed else ""
    older = sum(piece.reason is Reason.HISTORY for piece in plan.pieces)
    made_good += f", {older:,} of its history" if older else ""
    summary = f"{name}: {counted(done.buckets, 'bucket')}{made_good}, {numbers}{held}{later}"
    older = len(plan.changed) - sum(bucket in plan.changed for bucket in done.counts)
    still = [f"{name}: {time_buckets(older)} still of an older definition"] if older else []
    shown = sorted(done.gaps.items())[:_GAPS_SHOWN]
    lines = [f"{name}: {from_millis(bucket):%Y-%m-%d %H:%M} held: {gap}" for bucket, gap in shown]
    more = len(done.gaps) - len(shown)
    doubts = done.fields.doubts(f"all {done.fields.events:,} events of this run")
    warnings = [*done.warnings, *(f"warning: {doubt}" for doubt in doubts)]
    lines += [f"{name}: {warning}" for warning in warnings]
    return [summary, *still, *lines, *([f"{name}: {more:,} more held by gaps"] if more else [])]


def _failed(plan: ProjectionPlan, done: ProjectionOutcome, tally: RunTally) -> None:
    failed = {piece.time_bucket for piece in plan.pieces} | done.failed.keys()
    failed -= done.counts.keys()
    if done.counts or done.failed:
        # The ledger was told before the first event was read.
        failed -= plan.held
    tally.pieces.planned += len(failed)
    tally.pieces.failed += len(failed)
    name = plan.definition.name
    tally.lines += bisection.lines(name, done) or [f"{name}: failed"]
