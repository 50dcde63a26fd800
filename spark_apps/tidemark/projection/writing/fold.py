"""Mode `fold`: one state per persistence id, with the sequence nr of the last event in it.

It is stored as in mode upsert, of which each run has at most one row for a persistence id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.projection.definition.model import Definition, Mode
from tidemark.projection.offset_store import management_state
from tidemark.projection.offset_store.offsets import OffsetStore
from tidemark.projection.transformation import state_times, transform
from tidemark.projection.transformation.fold import by_fold
from tidemark.projection.transformation.fold_start import GENERATION_COLUMN
from tidemark.projection.writing import tables, upsert
from tidemark.projection.writing.mode import no_problems


def key_problem(partition_key: Sequence[str], clustering: Sequence[str]) -> str | None:
    """Return what is wrong with a key that allows several states of an id, or None."""
    if upsert.key_problem(partition_key, clustering) is None:
        return None
    key = ", ".join([*partition_key, *clustering])
    return f"the table's primary key is ({key}), mode fold needs (persistence_id)"


def states(result: DataFrame, definition: Definition) -> DataFrame:
    """Return the states with their write timestamps, see `state_times`.

    In a preview and in a unit test, which know of no stored state, _generation is absent.
    """
    rows = transform.newest(result, definition.version)
    if GENERATION_COLUMN not in rows.columns:
        return rows
    generation = F.coalesce(GENERATION_COLUMN, F.lit(0))
    write_time = F.col(transform.WRITE_TIME) + generation * F.lit(state_times.GENERATION)
    return rows.withColumn(transform.WRITE_TIME, write_time).drop(GENERATION_COLUMN)


def lacks_history(definition: Definition, deleted_to: int) -> bool:
    """Return whether a state cannot be computed again, since its first events were deleted."""
    is_from_first = definition.mode is Mode.FOLD and not definition.starts_from_snapshots
    return is_from_first and deleted_to > 0


def void_states(store: OffsetStore, persistence_ids: Sequence[str]) -> None:
    """Let the states of some persistence ids be computed again; call once the revision is raised.

    Raises:
        TidemarkError: the projection was changed by hand too often.
    """
    write_time = state_times.void_at(management_state.revision(store).revision)
    tables.void_states(store.control, store.definition, persistence_ids, write_time)


MODE = replace(
    upsert.MODE,
    rows_of=states,
    purpose="says which events are in the state",
    key_problem=key_problem,
    keeps_apart=(),
    column_problems=no_problems,
    transform=by_fold,
)
