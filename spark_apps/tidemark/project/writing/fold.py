"""Mode `fold`: one state per persistence id, with the sequence nr of its last event.

States are stored and deleted as in mode upsert, with at most one row per persistence id and run.
The last sequence nr of a deleted state is recorded in a table of Tidemark's own.
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
from tidemark.project.postgres import states as states_in_postgres
from tidemark.project.postgres.place import PostgresPlace
from tidemark.project.transformation import state_times, transform
from tidemark.project.transformation.fold import by_fold
from tidemark.project.transformation.fold_start import GENERATION_COLUMN, HAS_MARKER
from tidemark.project.writing import tables, upsert
from tidemark.project.writing.mode import Counted, WriteRequest, no_problems


def key_problem(partition_key: Sequence[str], clustering: Sequence[str]) -> str | None:
    """Return the problem of a key that allows several states of an id, or None."""
    if upsert.key_problem(partition_key, clustering) is None:
        return None
    key = ", ".join([*partition_key, *clustering])
    return f"the table's primary key is ({key}), mode fold needs (persistence_id)"


def states(result: DataFrame, definition: Definition) -> DataFrame:
    """Return the states with their write timestamps, see `state_times`.

    _generation is absent in a preview or unit test, which read no stored states. Columns out: also
    tidemark_is_deleted (boolean), whether all fields of the state are null.
    """
    fields = set(result.columns) - {*STATE_KEY.names, GENERATION_COLUMN, HAS_MARKER}
    is_deleted = reduce(and_, (F.col(f"`{name}`").isNull() for name in sorted(fields)))
    rows = transform.newest(result, definition.version).withColumn(transform.IS_DELETED, is_deleted)
    if GENERATION_COLUMN not in rows.columns:
        return rows
    generation = F.coalesce(GENERATION_COLUMN, F.lit(0))
    write_time = F.col(transform.WRITE_TIME) + generation * F.lit(state_times.GENERATION)
    return rows.withColumn(transform.WRITE_TIME, write_time).drop(GENERATION_COLUMN)


def lacks_history(definition: Definition, deleted_to: int) -> bool:
    """Return whether a state cannot be computed again because its first events were deleted."""
    is_from_first = definition.mode is Mode.FOLD and not definition.starts_from_snapshots
    return is_from_first and deleted_to > 0


def void_states(store: OffsetStore, persistence_ids: Sequence[str]) -> None:
    """Void the states of some persistence ids, so that the next run computes them again.

    The revision must be raised first.
    """
    revision = management_state.revision(store).revision
    write_time = state_times.void_at(revision)
    if store.definition.connection:
        place = PostgresPlace.of(store.settings, store.definition)
        states_in_postgres.void(place, persistence_ids, revision)
        return
    removed_states.void(store, persistence_ids, revision)
    tables.void_states(store.control, store.definition, persistence_ids, write_time)


def _write(batch: WriteRequest, rows: DataFrame, counted: Counted) -> Counted:
    """Write markers of removed states, then states, then delete markers of existing states.

    Meanwhile a marker has no effect, since the row of its state still exists.
    """
    if counted.deleted:
        batch.claimed.check()
        generation = state_times.generation_of(F.col(transform.WRITE_TIME)).alias("generation")
        removed = transform.deletions(rows).select(*STATE_KEY.names, generation)
        removed_states.remember(batch.store, removed)
    upsert.MODE.store(batch, rows.drop(HAS_MARKER), counted)
    ids_with_marker = transform.stored(rows).where(HAS_MARKER).select("persistence_id")
    if not ids_with_marker.isEmpty():
        batch.claimed.check()
        removed_states.forget(batch.store, ids_with_marker)
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
