"""Markers of states that mode fold has removed: the row is deleted, but the fold continues.

The history of a persistence id may be purged once it is folded. A marker has the sequence nr up to
which the state is None, so that folding the next event needs no event before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.journals.pekko.shapes import ID
from tidemark.partitioning import columns
from tidemark.partitioning.keys import NUMBER_OF_SLICES, slice_of
from tidemark.project import shapes
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.spark.shapes import shaped

TABLE = "projection_removed_state"
KEY = ("projection", "slice", "persistence_id")
_IS_KEY = " AND ".join(f"{name} = ?" for name in KEY)
_VOID = 0
"""The definition version of a void marker, lower than that of any definition."""


@shaped(ids=ID)
def keyed(store: OffsetStore, ids: DataFrame) -> DataFrame:
    """Add the columns of KEY to a frame with persistence_id."""
    slices = columns.slice_of(F.col("persistence_id"))
    return ids.withColumns({"projection": F.lit(store.subject), "slice": slices})


@shaped(keys=shapes.REMOVED_STATE_KEY, returns=shapes.REMOVED_STATES)
def stored(store: OffsetStore, keys: DataFrame) -> DataFrame:
    """Read the markers with these keys, by direct join; `keys` and the result are in memory."""
    return connector.read_partitions(
        keys.select(*KEY), store.settings.keyspace, TABLE, *shapes.REMOVED_STATES
    ).localCheckpoint()


@shaped(rows={**shapes.EVENT, "generation": "bigint"})
def remember(store: OffsetStore, rows: DataFrame) -> None:
    """Write the markers of states of this definition, before their rows are deleted."""
    version = F.lit(store.definition.version)
    markers = keyed(store, rows).withColumn("definition_version", version)
    connector.write(markers, store.settings.keyspace, TABLE)


@shaped(ids=ID)
def forget(store: OffsetStore, ids: DataFrame) -> None:
    """Delete the markers of persistence ids, after the rows of their new states are written."""
    connector.delete(keyed(store, ids).select(*KEY), store.settings.keyspace, TABLE)


def void(store: OffsetStore, persistence_ids: Sequence[str], generation: int) -> None:
    """Make the folds of some persistence ids begin with their first events.

    Void markers stay: the next state, of their `generation` (see `state_times`), must win over the
    deletion of the row. The persistence ids are at most a chunk, with or without a marker.
    """
    keys = [
        (store.subject, slice_of(persistence_id), persistence_id)
        for persistence_id in persistence_ids
    ]
    markers = store.control.execute_many(
        f"SELECT persistence_id FROM {store.table(TABLE)} WHERE {_IS_KEY}", keys
    )
    store.control.execute_many(
        f"UPDATE {store.table(TABLE)} SET definition_version = ?, generation = ? WHERE {_IS_KEY}",
        [(_VOID, generation, *key) for key, rows in zip(keys, markers, strict=True) if rows],
    )


def forget_all(store: OffsetStore) -> None:
    """Delete all markers of a projection."""
    store.control.execute_many(
        f"DELETE FROM {store.table(TABLE)} WHERE projection = ? AND slice = ?",
        [(store.subject, slice_number) for slice_number in range(NUMBER_OF_SLICES)],
    )
