"""Makes the plan of a run, for `run`, `--dry-run` and `plan` alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemark.application import preflight
from tidemark.application.approval import OPTION, Approval, digest
from tidemark.context import PieceCounts, RunContext
from tidemark.errors import NO_RETRY_HELPS, InvalidInput, TidemarkError
from tidemark.partitioning.slice_ranges import Slicing
from tidemark.project.definition import catalog
from tidemark.project.definition.catalog import Rollup
from tidemark.project.definition.model import Definition
from tidemark.project.offset_store import management_state
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning import live_release, slices
from tidemark.project.planning.limit import limit_pieces
from tidemark.project.planning.plan import ProjectionPlan, failed_since, plan
from tidemark.window import Window, iso


@dataclass(frozen=True)
class PlanOptions:
    """The scope of a run.

    Attributes:
        names: the projections to run; all if empty.
        force: also process buckets that are done or that validate has not passed.
        slicing: the slices to process; None for whole time buckets.
        max_pieces: process at most this many time buckets of each projection, the oldest first;
            the rest stays planned.
        approved: the only plan that may be run; None for any.
    """

    names: Sequence[str] = ()
    force: bool = False
    slicing: Slicing | None = None
    max_pieces: int | None = None
    approved: Approval | None = None


@dataclass(frozen=True)
class RunPlan:
    """The plans of all projections and rollups of a run.

    Attributes:
        definitions: the planned projections, without paused ones.
        projections: the plans that have a piece.
        rollups: the rollups to update afterwards, without paused ones.
        refused: the projections that cannot be planned.
        errors: why projections cannot be planned or files cannot be used.
        left_out: messages about what is not run, and why.
    """

    definitions: Sequence[Definition]
    projections: Sequence[ProjectionPlan]
    rollups: Sequence[Rollup]
    refused: Sequence[Definition]
    errors: Sequence[TidemarkError]
    left_out: Sequence[str]

    @property
    def pieces(self) -> PieceCounts:
        """Numbers of planned pieces, including those left to later runs, and of held pieces."""
        return PieceCounts(
            planned=sum(len(plan.pieces) + len(plan.postponed) for plan in self.projections),
            held=sum(len(plan.held) for plan in self.projections),
        )


def build(run: RunContext, window: Window, options: PlanOptions) -> RunPlan:
    """Plan a run over a window of whole time buckets that have ended.

    Writes nothing, but creates Tidemark's own tables if they are absent. A projection that cannot
    be planned, or whose file cannot be used, does not prevent the planning of others.

    Raises:
        InvalidInput: the window does not fit the bucket size, or lies in the future; a
            projection is unknown, or cannot be processed by slices; or another plan was approved.
        SchemaMismatch: the journal's tables are missing or have another shape.
        BucketSizeMismatch: the existing tag views have another bucket size.
    """
    settings, force = run.settings, options.force
    selected = catalog.select(settings.projections_dir, options.names, with_rollups=True)
    definitions = selected.definitions
    rollup_definitions = [rollup.definition for rollup in selected.rollups]
    if options.slicing is not None:
        slices.require_independent([*definitions, *rollup_definitions])
    preflight.check(run, window, has_journal=catalog.reads_journal(selected.sources))
    errors: list[TidemarkError] = [*selected.errors]
    left_out = []
    if not definitions and not rollup_definitions and not errors:
        left_out.append(f"no projection is defined in {settings.projections_dir}")
    definitions = management_state.unpaused(run, definitions, left_out.append)
    unpaused = management_state.unpaused(run, rollup_definitions, left_out.append)
    rollup_names = {definition.name for definition in unpaused}
    rollups = [rollup for rollup in selected.rollups if rollup.definition.name in rollup_names]
    left_out += failed_since(run, window, definitions)
    plans, refused = [], []
    for definition in definitions:
        try:
            live_release.require_in_place(run.control, settings, definition)
            plans.append(plan(run, definition, window, force=force))
        except NO_RETRY_HELPS as error:
            refused.append(definition)
            errors.append(error)
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
    result = RunPlan(planned, with_pieces, rollups, refused, errors, left_out)
    if options.approved is not None and options.approved.digest != digest_of(run, window, result):
        raise InvalidInput(
            f"the plan of {iso(options.approved.moment)} is out of date, or was made with other"
            " options",
            where=OPTION,
            do="nothing was written; plan again with these options, and approve that",
        )
    return result


def digest_of(run: RunContext, window: Window, built: RunPlan) -> str:
    """Return the hash of what a run would do: definitions, offsets changed by hand, and pieces."""
    parts: list[object] = [run.settings.journal_keyspace, iso(window.start), iso(window.end)]
    for projection in built.projections:
        definition = projection.definition
        revision = management_state.revision(OffsetStore.of(run, definition)).revision
        parts += [definition.name, definition.fingerprint, revision]
        parts += [
            (
                piece.time_bucket,
                str(piece.reason),
                piece.attempt,
                piece.time_bucket in projection.held,
            )
            for piece in projection.pieces
        ]
    return digest(parts)
