"""The plan of a run: the same for `run`, `--dry-run`, `plan` and `--plan`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemark.application import preflight
from tidemark.context import PieceCounts, RunContext
from tidemark.errors import NO_RETRY_HELPS, TidemarkError
from tidemark.partitioning.slice_ranges import Slicing
from tidemark.project.definition import catalog
from tidemark.project.definition.catalog import Rollup
from tidemark.project.definition.model import Definition
from tidemark.project.offset_store import management_state
from tidemark.project.planning import live_release, slices
from tidemark.project.planning.limit import limit_pieces
from tidemark.project.planning.plan import ProjectionPlan, failed_since, plan
from tidemark.project.planning.saved_plan import SavedPlan
from tidemark.window import Window, iso


@dataclass(frozen=True)
class PlanOptions:
    """What a run is asked to do.

    Attributes:
        names: the projections to run; all if empty.
        force: also do buckets that are done, and those that validate has not passed.
        slicing: the slices to process; None for whole time buckets.
        max_pieces: process at most so many time buckets of each projection, the oldest first; the
            rest stays planned.
        saved: run exactly this plan, made for the same window; its projections and its force count.
    """

    names: Sequence[str] = ()
    force: bool = False
    slicing: Slicing | None = None
    max_pieces: int | None = None
    saved: SavedPlan | None = None


@dataclass(frozen=True)
class RunPlan:
    """What a run will do.

    Attributes:
        definitions: the projections that are planned; those that are paused are not among them.
        projections: the plans of those that have a piece.
        rollups: what is brought up to date after them; those that are paused are not among it.
        refused: the projections that cannot be planned.
        errors: why, and why files cannot be used.
        left_out: for people, what is not run and why.
    """

    definitions: Sequence[Definition]
    projections: Sequence[ProjectionPlan]
    rollups: Sequence[Rollup]
    refused: Sequence[Definition]
    errors: Sequence[TidemarkError]
    left_out: Sequence[str]

    @property
    def pieces(self) -> PieceCounts:
        """How many pieces are planned, with those left to later runs, and how many are held."""
        return PieceCounts(
            planned=sum(len(plan.pieces) + len(plan.postponed) for plan in self.projections),
            held=sum(len(plan.held) for plan in self.projections),
        )


def build(run: RunContext, window: Window, options: PlanOptions) -> RunPlan:
    """Plan a run over a window of whole time buckets that are over.

    Nothing is written, but Tidemark's own tables are made if they are absent. A projection that
    cannot be planned, or whose file cannot be used, does not keep the others from being planned.

    Raises:
        InvalidInput: the window does not fit the bucket size, or lies in the future; a
            projection is unknown, or cannot be processed by slices.
        SchemaMismatch: the journal's tables are missing or of another shape.
        BucketSizeMismatch: the existing tag views have another bucket size.
        TidemarkError: what the saved plan was made upon has changed.
    """
    settings, saved = run.settings, options.saved
    names, force = options.names, options.force
    if saved is not None:
        saved.require_journal(settings.journal_keyspace)
        names, force = saved.names, saved.force
    selected = catalog.select(settings.projections_dir, names, with_rollups=True)
    definitions = selected.definitions
    of_rollups = [rollup.definition for rollup in selected.rollups]
    if options.slicing is not None:
        slices.require_independent([*definitions, *of_rollups])
    preflight.check(run, window, has_journal=catalog.reads_journal(selected.sources))
    errors: list[TidemarkError] = [*selected.errors]
    left_out = []
    if not definitions and not of_rollups and not errors:
        left_out.append(f"no projection is defined in {settings.projections_dir}")
    definitions = management_state.unpaused(run, definitions, left_out.append)
    unpaused = {each.name for each in management_state.unpaused(run, of_rollups, left_out.append)}
    rollups = [rollup for rollup in selected.rollups if rollup.definition.name in unpaused]
    left_out += failed_since(run, window, definitions)
    plans, refused = [], []
    for definition in definitions:
        try:
            live_release.require_in_place(run.control, settings, definition)
            plans.append(plan(run, definition, window, force=force))
        except NO_RETRY_HELPS as error:
            refused.append(definition)
            errors.append(error)
    if saved is not None:
        plans = [saved.restricted(run, projection) for projection in plans]
    planned = [projection.definition for projection in plans]
    left_out += [
        f"{projection.definition.name} begins at {iso(projection.definition.begin)}:"
        " the window lies before"
        for projection in plans
        if projection.definition.begin is not None and projection.first >= projection.end
    ]
    plans = [
        slices.restricted(run, projection, options.slicing, force=force)
        for projection in plans
        if projection.pieces
    ]
    if options.max_pieces is not None:
        plans = [limit_pieces(projection, options.max_pieces) for projection in plans]
    with_pieces = [projection for projection in plans if projection.pieces]
    return RunPlan(planned, with_pieces, rollups, refused, errors, left_out)
