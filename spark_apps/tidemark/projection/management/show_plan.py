"""What a run would do, why, and about how much that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tidemark import clock
from tidemark.application import preflight
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.partitioning import slice_ranges
from tidemark.projection.definition import catalog
from tidemark.projection.offset_store import pause_state
from tidemark.projection.planning.estimate import Estimate, Estimates
from tidemark.projection.planning.limit import limit_pieces
from tidemark.projection.planning.plan import Work, plan
from tidemark.projection.planning.saved_plan import SavedPlan, saved_work
from tidemark.projection.sources import registry, scope
from tidemark.window import Window, from_millis, iso

SHOWN = 100
"""Pieces of a projection that are listed."""


def run_plan(
    run: RunContext,
    window: Window,
    *,
    names: Sequence[str],
    force: bool,
    max_pieces: int | None,
    save: Path | None,
    ranges: int | None = None,
) -> Outcome:
    """List what a run would do, why, and about how many rows it would read.

    Spark is started only to count events for `ranges`.

    Late events are found by the run itself and may reopen further time buckets.

    Args:
        run: the application's frame.
        window: whole time buckets that are over.
        names: the projections; all if empty.
        force: as of a run.
        max_pieces: as of a run.
        save: keep the plan in this file.
        ranges: also say how to cut the slices into that many ranges with about as many events each.

    Raises:
        InvalidInput: the window cannot be used, a projection is unknown, or the file cannot be
            written.
        DefinitionError: a projection file cannot be used.
        SchemaMismatch: the journal's tables are missing or of another shape.
    """
    definitions = catalog.select(run.settings.projections_dir, names)
    preflight.check(run, window, has_journal=catalog.reads_pekko(definitions))
    lines: list[str] = []
    definitions = pause_state.unpaused(run, definitions, lines.append)
    works = [plan(run, definition, window, force=force) for definition in definitions]
    if max_pieces is not None:
        works = [limit_pieces(work, max_pieces) for work in works]
    works = [work for work in works if work.pieces]
    estimates = Estimates.read(run)
    for work in works:
        lines += _lines(work, estimates)
        if ranges is not None and work.definition.mode.is_by_persistence_id:
            lines += _ranges(run, work, ranges)
    kept = [saved_work(run, work) for work in works]
    if save is not None and works:
        SavedPlan(
            run.settings.journal_keyspace,
            iso(window.start),
            iso(window.end),
            force,
            iso(clock.now().replace(microsecond=0)),
            kept,
        ).save(save)
        lines.append(f"saved; `project.py --plan {save}` runs exactly this")
    pieces = PieceCounts(
        planned=sum(len(work.pieces) + len(work.postponed) for work in works),
        held=sum(len(work.held) for work in works),
    )
    return Outcome(
        RunState.PLANNED if works else RunState.NOTHING,
        pieces,
        {"rows_estimated": sum(_estimate(work, estimates).rows for work in works)},
        lines or [f"every {run.settings.bucket_size} bucket is done"],
        details={"projections": [_details(work, estimates) for work in works]} if works else {},
    )


def _estimate(work: Work, estimates: Estimates) -> Estimate:
    return estimates.of(work.time_buckets, is_by_tag=work.definition.tags is not None)


def _lines(work: Work, estimates: Estimates) -> list[str]:
    name, is_by_tag = work.definition.name, work.definition.tags is not None
    reasons = Counter(str(piece.reason) for piece in work.pieces)
    parts = [f"{number:,} {reason}" for reason, number in sorted(reasons.items())]
    parts += [f"{len(work.postponed):,} left for later runs"] if work.postponed else []
    summary = f"{name}: {', '.join(parts)}; {_estimate(work, estimates)}, by the ledger"
    listed = [
        f"{name}  {from_millis(piece.time_bucket):%Y-%m-%d %H:%M}  {piece.reason}, "
        + (
            f"held: {work.waits_for}"
            if piece.time_bucket in work.held
            else str(estimates.of([piece.time_bucket], is_by_tag=is_by_tag))
        )
        for piece in list(work.pieces)[:SHOWN]
    ]
    more = len(work.pieces) - len(listed)
    return [summary, *listed, *([f"{name}: {more:,} more, see --save"] if more else [])]


def _ranges(run: RunContext, work: Work, ranges: int) -> list[str]:
    """The option of each of as many runs, which may work at the same time."""
    events = scope.events_by_slice(run, work, registry.reader(work.definition.source))
    cut = slice_ranges.cut(events, slice_ranges.ALL, ranges)
    numbers = (sum(events.get(each, 0) for each in range(r.first, r.last + 1)) for r in cut)
    return [
        f"{work.definition.name}: --slices {slice_ranges.text(one)}: {number:,} events"
        for one, number in zip(cut, numbers, strict=True)
    ]


def _details(work: Work, estimates: Estimates) -> Mapping[str, Any]:
    estimate = _estimate(work, estimates)
    return {
        "name": work.definition.name,
        "reasons": Counter(str(piece.reason) for piece in work.pieces),
        "held": len(work.held),
        "postponed": len(work.postponed),
        "rows_estimated": estimate.rows,
        "pieces_without_estimate": estimate.unknown,
    }
