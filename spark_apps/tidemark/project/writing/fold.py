"""Mode `fold`: one state per persistence id, with the sequence nr of the last event in it.

It is stored and deleted as in mode upsert, of which each run has at most one row for a persistence
id. What a deleted state was folded up to is remembered in a table of Tidemark's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.project.definition.model import Definition, Mode
from tidemark.project.envelope import STATE_KEY
from tidemark.project.offset_store import management_state, removed_states
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.transformation import state_times, transform
from tidemark.project.transformation.fold import by_fold
from tidemark.project.transformation.fold_start import GENERATION_COLUMN, HAS_MARKER
from tidemark.project.writing import tables, upsert
from tidemark.project.writing.mode import Counted, WriteRequest, no_problems


def key_problem(partition_key: Sequence[str], clustering: Sequence[str]) -> str | None:
    """Return what is wrong with a key that allows several states of an id, or None."""
    if upsert.key_problem(partition_key, clustering) is None:
        return None
    key = ", ".join([*partition_key, *clustering])
    return f"the table's primary key is ({key}), mode fold needs (persistence_id)"


def states(result: DataFrame, definition: Definition) -> DataFrame:
    """Return the states with their write timestamps, see `state_times`.

    In a preview and in a unit test, which know of no stored state, _generation is absent.

    Columns out: tidemark_is_deleted (boolean), whether all fields of the state are null.
    """
    fields = set(result.columns) - {*STATE_KEY.names, GENERATION_COLUMN, HAS_MARKER}
    is_none = reduce(and_, (F.col(f"`{name}`").isNull() for name in sorted(fields)))
    rows = transform.newest(result, definition.version).withColumn(transform.IS_DELETED, is_none)
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
    revision = management_state.revision(store).revision
    write_time = state_times.void_at(revision)
    removed_states.void(store, persistence_ids, revision)
    tables.void_states(store.control, store.definition, persistence_ids, write_time)


def _write(batch: WriteRequest, rows: DataFrame, counted: Counted) -> Counted:
    """Write the markers of removed states first, and delete those of states that are there last.

    Between the two writes a marker has no effect, since the row of its state is still there.
    """
    if counted.deleted:
        batch.claimed.check()
        generation = state_times.generation_of(F.col(transform.WRITE_TIME)).alias("generation")
        removed = transform.deletions(rows).select(*STATE_KEY.names, generation)
        removed_states.remember(batch.store, removed)
    upsert.MODE.store(batch, rows.drop(HAS_MARKER), counted)
    marked = transform.stored(rows).where(HAS_MARKER).select("persistence_id")
    if not marked.isEmpty():
        batch.claimed.check()
        removed_states.forget(batch.store, marked)
    return counted


MODE = replace(
    upsert.MODE,
    rows_of=states,
    store=_write,
    purpose="says which events are in the state",
    key_problem=key_problem,
    keeps_apart=(),
    column_problems=no_problems,
    transform=by_fold,
)
