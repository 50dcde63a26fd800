"""The command `plan`: shows what a run would do, why, and about how many rows it would read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tidemark import clock
from tidemark.application.approval import Approval
from tidemark.context import Outcome, RunContext, RunState
from tidemark.errors import all_of
from tidemark.partitioning import slice_ranges
from tidemark.project.planning.build import PlanOptions, build, digest_of
from tidemark.project.planning.estimate import Estimate, Estimates
from tidemark.project.planning.plan import ProjectionPlan
from tidemark.project.running import rollups
from tidemark.project.sources import event_source
from tidemark.window import Window, from_millis

SHOWN = 100
"""Most pieces to list for a projection."""


def run_plan(
    run: RunContext,
    window: Window,
    options: PlanOptions,
    *,
    ranges: int | None = None,
) -> Outcome:
    """List what a run would do, why, and about how many rows it would read.

    Late events are found only by the run itself, and may reopen further time buckets. `ranges` also
    shows how to divide the slices into so many ranges with about the same number of events, which
    needs Spark.

    Raises:
        InvalidInput: the window cannot be used, or a projection is unknown.
        SchemaMismatch: the journal's tables are missing or of another shape.
    """
    built = build(run, window, options)
    plans, lines = built.projections, list(built.left_out)
    estimates = Estimates.read(run, {bucket for plan in plans for bucket in plan.time_buckets})
    for plan in plans:
        lines += _lines(plan, estimates)
        if ranges is not None and plan.definition.mode.is_by_persistence_id:
            lines += _ranges(run, plan, ranges)
    if not lines and not built.errors and built.definitions:
        lines = [f"every {run.settings.bucket_size} bucket is done"]
    planned = {plan.definition.name for plan in plans}
    lines += [rollups.line(run, rollup, planned) for rollup in built.rollups]
    is_due = any(rollups.is_due(run, rollup, planned) for rollup in built.rollups)
    details: dict[str, Any] = {}
    if plans:
        approval = Approval(digest_of(run, window, built), clock.now().replace(microsecond=0))
        details = {
            "approval": str(approval),
            "projections": [_details(plan, estimates) for plan in plans],
        }
        lines.append(f"approval: {approval}")
    state = RunState.PLANNED if plans or is_due else RunState.NOTHING
    return Outcome(
        RunState.FAILED if built.errors else state,
        built.pieces,
        {"rows_estimated": sum(_estimate(plan, estimates).rows for plan in plans)},
        lines,
        all_of(built.errors),
        details,
    )


def _estimate(plan: ProjectionPlan, estimates: Estimates) -> Estimate:
    return estimates.of(plan.time_buckets, is_by_tag=plan.definition.source.reads_tag_views)


def _lines(plan: ProjectionPlan, estimates: Estimates) -> list[str]:
    name, is_by_tag = plan.definition.name, plan.definition.source.reads_tag_views
    reasons = Counter(str(piece.reason) for piece in plan.pieces)
    parts = [f"{number:,} {reason}" for reason, number in sorted(reasons.items())]
    parts += [f"{len(plan.postponed):,} left for later runs"] if plan.postponed else []
    summary = f"{name}: {', '.join(parts)}; {_estimate(plan, estimates)}, by the ledger"
    piece_lines = [
        f"{name}  {from_millis(piece.time_bucket):%Y-%m-%d %H:%M}  {piece.reason}, "
        + (
            f"held: {plan.waits_for}"
            if piece.time_bucket in plan.held
            else str(estimates.of([piece.time_bucket], is_by_tag=is_by_tag))
        )
        for piece in list(plan.pieces)[:SHOWN]
    ]
    hidden = len(plan.pieces) - len(piece_lines)
    return [summary, *piece_lines, *([f"{name}: {hidden:,} more"] if hidden else [])]


def _ranges(run: RunContext, plan: ProjectionPlan, ranges: int) -> list[str]:
    """Return a line with the option `--slices` for each of several parallel runs."""
    events = event_source(run, plan.definition).events_by_slice(plan.time_buckets)
    slice_ranges_of_runs = slice_ranges.cut(events, slice_ranges.ALL, ranges)
    numbers = (
        sum(events.get(slice_nr, 0) for slice_nr in range(r.first, r.last + 1))
        for r in slice_ranges_of_runs
    )
    return [
        f"{plan.definition.name}: --slices {slice_ranges.text(slice_range)}: {number:,} events"
        for slice_range, number in zip(slice_ranges_of_runs, numbers, strict=True)
    ]


def _details(plan: ProjectionPlan, estimates: Estimates) -> Mapping[str, Any]:
    estimate = _estimate(plan, estimates)
    return {
        "name": plan.definition.name,
        "reasons": Counter(str(piece.reason) for piece in plan.pieces),
        "held": len(plan.held),
        "postponed": len(plan.postponed),
        "rows_estimated": estimate.rows,
        "pieces_without_estimate": estimate.unknown,
    }
