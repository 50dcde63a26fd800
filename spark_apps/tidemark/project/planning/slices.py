"""What is left to do of some slices, by the records of the ranges that are done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.ledger.pieces import PieceRow
from tidemark.partitioning import slice_ranges
from tidemark.partitioning.slice_ranges import ALL, Slicing
from tidemark.project.definition.model import Definition
from tidemark.project.offset_store import slice_records
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.offset_store.slice_records import SlicePart
from tidemark.project.planning.plan import ProjectionPlan, ledger


def require_independent(definitions: Sequence[Definition]) -> None:
    """Refuse to process slices one by one where a row is made of several of them.

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
    """Return what is left of a plan in some slices.

    Without `slicing` that is all of it: as whole time buckets, unless slices of some are done.
    """
    if slicing is None and (force or not plan.definition.mode.is_by_persistence_id):
        return plan
    _, parts = known(run, plan.definition)
    done = slice_records.done(parts)
    if slicing is None:
        if not any(done.get(piece.time_bucket) for piece in plan.pieces):
            return plan
        slicing = Slicing()
    left = [
        piece
        for piece in plan.pieces
        if force
        or piece.time_bucket in plan.held
        or slice_ranges.missing(slicing.slices, done.get(piece.time_bucket, ()))
        # All of it is done, but a crash came before the ledger was told.
        or not slice_ranges.missing(ALL, done.get(piece.time_bucket, ()))
    ]
    return replace(plan, pieces=left, slicing=slicing)


def known(
    run: RunContext, definition: Definition
) -> tuple[dict[int, PieceRow], dict[int, list[SlicePart]]]:
    """Read the pieces that are not done, and the parts that count, by time bucket."""
    standing = ledger(run, definition).standing()
    entries = {entry.time_bucket: entry for entry in standing.open_rows}
    version = definition.fingerprint
    wanted = [bucket for bucket, entry in entries.items() if slice_records.is_open(entry, version)]
    parts = slice_records.read(OffsetStore.of(run, definition), wanted)
    return entries, slice_records.counting(parts, entries, version)
