"""project from plan to report."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidemark import termination
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import TidemarkError, outage_of, root_cause, together
from tidemark.ledger.pieces import Reason
from tidemark.partitioning.keys import BucketSize
from tidemark.projection.acceptance.accept import Policy
from tidemark.projection.analysis import analyze
from tidemark.projection.analysis.analyze import AnalyzedDefinition
from tidemark.projection.definition.model import Definition
from tidemark.projection.planning.build import PlanOptions, RunPlan, build
from tidemark.projection.planning.plan import ProjectionPlan, validated_buckets
from tidemark.projection.running import bisection, releases, slices
from tidemark.projection.running.outcome import COUNTS, ProjectionOutcome
from tidemark.projection.running.process import process
from tidemark.projection.testing.preview import sample
from tidemark.projection.transformation import result_checks
from tidemark.projection.writing.target import missing_table
from tidemark.projection.writing.write import MODES
from tidemark.text import counted
from tidemark.window import Window, from_millis, iso

_GAPS_SHOWN = 5
_ALWAYS_SHOWN = ("events_read", "rows_written", "quarantined")


@dataclass
class _Tally:
    """What the projections of a run did, one after the other."""

    pieces: PieceCounts = field(default_factory=PieceCounts)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    done: set[int] = field(default_factory=set)
    statuses: set[int] = field(default_factory=set)
    moved: dict[str, dict[str, str]] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)

    def fail(self, what: str, status: int) -> None:
        self.errors.append(what)
        self.statuses.add(status)

    def outcome(self, size: BucketSize) -> Outcome:
        state = RunState.DONE if self.pieces.done else RunState.NOTHING
        if self.errors:
            state = RunState.FAILED
        error = together("; ".join(self.errors), self.statuses) if self.errors else None
        hull = Window.hull(self.done, size)
        tables = {"read": sorted(self.read), "written": sorted(self.written)}
        details = {"projections": self.moved, "tables": tables}
        return Outcome(state, self.pieces, self.counts, self.lines, error, details, hull)


def run_window(
    run: RunContext,
    window: Window,
    options: PlanOptions,
    *,
    dry_run: bool,
    policy: Policy,
    show: int = 0,
) -> Outcome:
    """Bring the read models up to the window; paused projections are left out.

    Every definition is checked against Spark and its target before the first event is read. A
    projection that fails afterwards does not stop the others; the outcome names it.

    Args:
        run: the context of the run.
        window: whole time buckets that are over.
        options: which projections, and how much of them.
        dry_run: check and plan only.
        policy: what to do about events that are missing.
        show: in a dry run, the rows to show of each projection's result over a sample; 0 for none.

    Raises:
        TidemarkError: as `build.build` raises it, and if a definition or a target cannot be used.
    """
    plan = build(run, window, options)
    if not plan.projections:
        return _nothing(run, plan, dry_run=dry_run)
    analyzed = _check(run, plan.projections, dry_run=dry_run, shows=bool(show))
    if dry_run:
        return _planned(run, plan, analyzed, show)
    tally = _Tally(lines=[*plan.left_out])
    for projection in plan.projections:
        _attempt(run, projection, analyzed.get(projection.definition.name), policy, tally)
    try:
        settled = _settle(run, plan.definitions)
        tally.lines += settled.lines
        if settled.error is not None:
            tally.fail(str(settled.error), settled.error.exit_status)
    except TidemarkError as error:
        tally.fail(str(error), error.exit_status)
    return tally.outcome(run.settings.bucket_size)


def _nothing(run: RunContext, plan: RunPlan, *, dry_run: bool) -> Outcome:
    every = (
        [
            f"every {run.settings.bucket_size} bucket is done; late events in them are found"
            " with the next new one, or with --force"
        ]
        if plan.definitions
        else []
    )
    settled = releases.Settled() if dry_run else _settle(run, plan.definitions)
    state = RunState.DONE if settled.swapped else RunState.NOTHING
    if settled.error is not None:
        state = RunState.FAILED
    lines = [*plan.left_out, *every, *settled.lines]
    return Outcome(state, lines=lines, error=settled.error)


def _planned(
    run: RunContext, plan: RunPlan, analyzed: Mapping[str, AnalyzedDefinition], show: int
) -> Outcome:
    projections = plan.projections
    lines = [line for projection in projections for line in projection.lines()]
    if show:
        for projection in projections:
            checked = analyzed.get(projection.definition.name)
            lines += sample(run, projection, checked, show)
            lines += _to_create(run, checked) if checked is not None else []
    return Outcome(RunState.PLANNED, plan.pieces, lines=[*plan.left_out, *lines])


def _to_create(run: RunContext, checked: AnalyzedDefinition) -> list[str]:
    statement = missing_table(run.control, checked)
    if not statement:
        return []
    name = checked.definition.name
    return [f"{name}: {checked.definition.target} does not exist yet; this makes it", *statement]


def _settle(run: RunContext, definitions: Sequence[Definition]) -> releases.Settled:
    """Report what became of blue/green versions; nothing is read without any."""
    if not any(definition.is_blue_green for definition in definitions):
        return releases.Settled()
    return releases.settle(run, definitions, validated_buckets(run, run.settings))


def _check(
    run: RunContext, plans: Sequence[ProjectionPlan], *, dry_run: bool, shows: bool
) -> dict[str, AnalyzedDefinition]:
    """Analyze the definitions with something to process; without any, Spark is not started."""
    analyzed = {}
    for plan in plans:
        if plan.time_buckets:
            name = plan.definition.name
            analyzed[name] = analyze.analyze(run.spark, plan.definition)
            result_checks.analyze(run.spark, analyzed[name])
            if shows and missing_table(run.control, analyzed[name]):
                continue
            releases.require_table(run, analyzed[name], create=not dry_run)
            MODES[plan.definition.mode].require_place(run, plan.definition)
    return analyzed


def _attempt(
    run: RunContext,
    plan: ProjectionPlan,
    analyzed: AnalyzedDefinition | None,
    policy: Policy,
    tally: _Tally,
) -> None:
    done, failure, status = ProjectionOutcome(), None, 1
    try:
        if plan.slicing is not None:
            slices.process(run, plan, analyzed, policy, done)
        else:
            process(run, plan, analyzed, policy, done)
    except TidemarkError as error:
        termination.check()
        failure, status = str(error), error.exit_status
    except Exception as error:
        termination.check()
        # The trace is what a bug report needs; the report's one line is what everybody reads.
        if outage_of(error) is None:
            traceback.print_exc(file=sys.stderr)
        failure = root_cause(error)
    if failure is not None:
        _failed(plan, done, tally)
        tally.fail(f"projection {plan.definition.name} failed: {failure}", status)
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
            tally.written.add(plan.definition.target)
        tally.pieces.held += held
        for key, number in done.totals.items():
            tally.counts[key] += number
        tally.lines += _lines(plan, done)
    tally.pieces.planned += len(plan.postponed)


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
    shown = sorted(done.gaps.items())[:_GAPS_SHOWN]
    lines = [f"{name}: {from_millis(bucket):%Y-%m-%d %H:%M} held: {gap}" for bucket, gap in shown]
    more = len(done.gaps) - len(shown)
    doubts = done.fields.doubts(f"all {done.fields.events:,} events of this run")
    warnings = [*done.warnings, *(f"warning: {doubt}" for doubt in doubts)]
    lines += [f"{name}: {warning}" for warning in warnings]
    return [summary, *lines, *([f"{name}: {more:,} more held by gaps"] if more else [])]


def _failed(plan: ProjectionPlan, done: ProjectionOutcome, tally: _Tally) -> None:
    failed = {piece.time_bucket for piece in plan.pieces} | done.failed.keys()
    failed -= done.counts.keys()
    if done.counts or done.failed:
        # The ledger was told before the first event was read.
        failed -= plan.held
    tally.pieces.planned += len(failed)
    tally.pieces.failed += len(failed)
    name = plan.definition.name
    tally.lines += bisection.lines(name, done) or [f"{name}: failed"]
