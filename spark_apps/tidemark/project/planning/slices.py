"""Restricts a plan to the slices that are not yet done, by the records of done slice ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.ledger.piece import PieceRow
from tidemark.partitioning import slice_ranges
from tidemark.partitioning.slice_ranges import ALL, Slicing
from tidemark.project.definition.model import Definition
from tidemark.project.offset_store import slice_records
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.offset_store.slice_records import SlicePart
from tidemark.project.planning.plan import ProjectionPlan, ledger


def require_independent(definitions: Sequence[Definition]) -> None:
    """Refuse to process slices separately if a row of the result is made of several slices.

    Raises:
        InvalidInput: a projection has such a mode.
    """
    for definition in definitions:
        if not definition.mode.is_by_persistence_id:
            raise InvalidInput(
                f"projection {definition.name} has mode {definition.mode}, whose rows are made of"
                " several slices",
                where="--slices",
                do="leave it out, or name the other projections with --projection",
            )


def restricted(
    run: RunContext, plan: ProjectionPlan, slicing: Slicing | None, *, force: bool
) -> ProjectionPlan:
    """Return the part of a plan that is to do in some slices.

    Without `slicing`, this is the complete plan: by whole time buckets, unless slices of some time
    buckets are done.
    """
    if slicing is None and (force or not plan.definition.mode.is_by_persistence_id):
        return plan
    _, parts = open_pieces(run, plan.definition)
    done = slice_records.done(parts)
    if slicing is None:
        if not any(done.get(piece.time_bucket) for piece in plan.pieces):
            return plan
        slicing = Slicing()
    pending = [
        piece
        for piece in plan.pieces
        if force
        or piece.time_bucket in plan.held
        or slice_ranges.missing(slicing.slices, done.get(piece.time_bucket, ()))
        # All slices are done, but a crash came before the ledger was updated.
        or not slice_ranges.missing(ALL, done.get(piece.time_bucket, ()))
    ]
    return replace(plan, pieces=pending, slicing=slicing)


def open_pieces(
    run: RunContext, definition: Definition
) -> tuple[dict[int, PieceRow], dict[int, list[SlicePart]]]:
    """Read the pieces that are not done, and the slice parts that count, by time bucket."""
    state = ledger(run, definition).standing()
    entries = {entry.time_bucket: entry for entry in state.open_rows}
    version = definition.fingerprint
    open_buckets = [
        bucket for bucket, entry in entries.items() if slice_records.is_open(entry, version)
    ]
    parts = slice_records.read(OffsetStore.of(run, definition), open_buckets)
    return entries, slice_records.counting(parts, entries, version)
