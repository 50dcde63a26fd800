"""Runs `project`, from the plan to the report."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import NO_RETRY_HELPS, TidemarkError, all_of
from tidemark.ledger.piece import Reason
from tidemark.ledger.schedule import time_buckets
from tidemark.project.acceptance.accept import MissingEventPolicy
from tidemark.project.analysis import analyze
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.definition.model import Definition
from tidemark.project.planning.build import PlanOptions, RunPlan, build
from tidemark.project.planning.plan import ProjectionPlan
from tidemark.project.position.ready import validated_buckets
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
    """Update the read models up to the end of the window, except for paused projections.

    A definition is checked against Spark and its target before its events are read. A projection
    that cannot be used or fails does not stop the others; the outcome has all errors. Rollups come
    last, and read the rows that their sources have so far.

    `dry_run` only checks and plans; `show` is then the number of rows to show of each result over
    a sample.

    Raises:
        TidemarkError: from `build.build`.
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
            lines += _checked_lines(run, definition, plans.get(definition.name), show)
        except NO_RETRY_HELPS as error:
            errors.append(error)
    for rollup in plan.rollups:
        try:
            lines += rollups.checked_lines(run, rollup, plans, show)
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


def _checked_lines(
    run: RunContext, definition: Definition, plan: ProjectionPlan | None, show: int
) -> list[str]:
    """Check a projection as a run does; with `show`, return a sample and the table to create."""
    is_to_create = bool(show) and lacks_table(run, definition)
    analyzed = None
    if is_to_create or (plan is not None and plan.time_buckets):
        analyzed = _analyzed(run, definition)
        if not is_to_create:
            _require_target(run, analyzed, create=False)
    lines = sample(run, plan, analyzed, show) if show and plan is not None else []
    if analyzed is not None and is_to_create:
        lines.append(f"{definition.name}: {definition.target} does not exist yet; this makes it")
        lines += create_statement(run, analyzed)
    return lines


def _settle(run: RunContext, definitions: Sequence[Definition]) -> releases.Settled:
    """Settle the blue/green versions; read nothing if there are none."""
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
    MODES[analyzed.definition.mode].require_place(run, analyzed)


def _attempt(
    run: RunContext, plan: ProjectionPlan, policy: MissingEventPolicy, tally: RunTally
) -> None:
    outcome = ProjectionOutcome()
    failure = failure_of(lambda: _process(run, plan, policy, outcome))
    if failure is not None:
        _failed(plan, outcome, tally)
        tally.errors.append(failure.within(f"projection {plan.definition.name} failed"))
    if failure is None or outcome.counts or outcome.failed:
        held = len(plan.held) + len(outcome.gaps)
        tally.pieces.planned += outcome.buckets + held
        tally.pieces.done += outcome.buckets
        complete = outcome.counts.keys() - outcome.gaps.keys()
        tally.done |= complete
        if hull := Window.hull(complete, run.settings.bucket_size):
            span = {"done_start": iso(hull.start), "done_end": iso(hull.end)}
            tally.moved[plan.definition.name] = span
            tally.read.add(plan.definition.source.table(run.settings))
            tally.read.update(plan.definition.tables.values())
            tally.written.add(plan.definition.target)
        tally.pieces.held += held
        for key, count in outcome.totals.items():
            tally.counts[key] += count
        tally.lines += _lines(plan, outcome)
    tally.pieces.planned += len(plan.postponed)


def _process(
    run: RunContext, plan: ProjectionPlan, policy: MissingEventPolicy, outcome: ProjectionOutcome
) -> None:
    analyzed = None
    if plan.time_buckets:
        # Held pieces do not start Spark.
        analyzed = _analyzed(run, plan.definition)
        _require_target(run, analyzed, create=True)
    try:
        if plan.slicing is not None:
            slices.process(run, plan, analyzed, policy, outcome)
        else:
            process(run, plan, analyzed, policy, outcome)
    finally:
        for frame in analyzed.tables.values() if analyzed else ():
            frame.unpersist()


def _lines(plan: ProjectionPlan, outcome: ProjectionOutcome) -> list[str]:
    name = plan.definition.name
    counts = ", ".join(
        f"{count:,} {key.replace('_', ' ')}"
        for key, count in outcome.totals.items()
        if count or key in _ALWAYS_SHOWN
    )
    held = f", {len(plan.held)} held: {plan.waits_for}" if plan.held else ""
    postponed = f", {len(plan.postponed):,} left for the next run" if plan.postponed else ""
    missed = sum(piece.reason is Reason.MISSED for piece in plan.pieces)
    caught_up = f", {missed:,} missed by earlier runs" if missed else ""
    older = sum(piece.reason is Reason.HISTORY for piece in plan.pieces)
    caught_up += f", {older:,} of its history" if older else ""
    summary = f"{name}: {counted(outcome.buckets, 'bucket')}{caught_up}, {counts}{held}{postponed}"
    older = len(plan.changed) - sum(bucket in plan.changed for bucket in outcome.counts)
    stale = [f"{name}: {time_buckets(older)} still of an older definition"] if older else []
    shown = sorted(outcome.gaps.items())[:_GAPS_SHOWN]
    lines = [f"{name}: {from_millis(bucket):%Y-%m-%d %H:%M} held: {gap}" for bucket, gap in shown]
    more = len(outcome.gaps) - len(shown)
    doubts = outcome.fields.doubts(f"all {outcome.fields.events:,} events of this run")
    warnings = [*outcome.warnings, *(f"warning: {doubt}" for doubt in doubts)]
    lines += [f"{name}: {warning}" for warning in warnings]
    return [
        summary,
        *stale,
        *lines,
        *([f"{name}: {more:,} more held by gaps"] if more else []),
    ]


def _failed(plan: ProjectionPlan, outcome: ProjectionOutcome, tally: RunTally) -> None:
    failed = {piece.time_bucket for piece in plan.pieces} | outcome.failed.keys()
    failed -= outcome.counts.keys()
    if outcome.counts or outcome.failed:
        # Held pieces were recorded in the ledger before the first event was read.
        failed -= plan.held
    tally.pieces.planned += len(failed)
    tally.pieces.failed += len(failed)
    name = plan.definition.name
    tally.lines += bisection.lines(name, outcome) or [f"{name}: failed"]
