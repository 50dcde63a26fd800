"""Stored states of mode fold that the next run computes again from the first event."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.projection.definition.model import Definition, Mode
from tidemark.projection.offset_store import management_state
from tidemark.projection.offset_store.offsets import OffsetStore
from tidemark.projection.transformation import state_times
from tidemark.projection.writing import tables


def lack_history(definition: Definition, deleted_to: int) -> bool:
    """Return whether a state cannot be computed again, since its first events were deleted."""
    is_from_first = definition.mode is Mode.FOLD and not definition.starts_from_snapshots
    return is_from_first and deleted_to > 0


def void(store: OffsetStore, persistence_ids: Sequence[str]) -> None:
    """Make the states of some persistence ids void; call after the revision was raised."""
    write_time = state_times.void_at(management_state.revision(store).revision)
    tables.void_states(store.control, store.definition, persistence_ids, write_time)
