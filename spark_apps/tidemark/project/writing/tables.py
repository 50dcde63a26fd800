"""The rows of results in Cassandra, one function for each kind of write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.project.definition.model import Definition
from tidemark.project.transformation.transform import WRITE_TIME


def write_bucket_rows(
    rows: DataFrame, definition: Definition, write_time: int, time_buckets: int
) -> None:
    """Write the new rows of so many time buckets beside the old ones: the first step."""
    connector.write(
        connector.repartition_by_key(rows, ("time_bucket",), time_buckets).withColumn(
            WRITE_TIME, F.lit(write_time)
        ),
        definition.keyspace,
        definition.table,
        write_time=WRITE_TIME,
    )


def delete_older_rows(
    control: Control, definition: Definition, time_buckets: Iterable[int], write_time: int
) -> None:
    """Delete what is older than the new rows of a time bucket: the second step."""
    control.execute_many(
        f"DELETE FROM {table(definition.keyspace, definition.table)}"
        " USING TIMESTAMP ? WHERE time_bucket = ?",
        [(write_time - 1, time_bucket) for time_bucket in time_buckets],
    )


def void_states(
    control: Control, definition: Definition, persistence_ids: Sequence[str], write_time: int
) -> None:
    """Make the states of some persistence ids void; readers see them until the next run.

    Args:
        control: the session to Cassandra.
        definition: of mode fold; its table may be absent.
        persistence_ids: ids with or without a state; not more than a chunk.
        write_time: as `state_times.void_at` returns it.
    """
    if control.table_columns(definition.keyspace, definition.table) is None:
        return
    target = table(definition.keyspace, definition.table)
    stored = control.execute_many(
        f"SELECT persistence_id, sequence_nr FROM {target} WHERE persistence_id = ?",
        [(persistence_id,) for persistence_id in persistence_ids],
    )
    control.execute_many(
        f"UPDATE {target} USING TIMESTAMP ? SET sequence_nr = ? WHERE persistence_id = ?",
        [
            (write_time, row["sequence_nr"], row["persistence_id"])
            for rows in stored
            for row in rows
        ],
    )


def write_newest(rows: DataFrame, definition: Definition) -> None:
    """Write the rows of `transform.newest`, with their nulls, since an older value would stay."""
    connector.write(
        rows, definition.keyspace, definition.table, keep_nulls=True, write_time=WRITE_TIME
    )


def delete_newest(rows: DataFrame, definition: Definition) -> None:
    """Delete the rows that `transform.deletions` names, if they are not newer.

    The connector deletes at no write time but the present, which would delete what is written
    later: write times are made of sequence nrs. A row of nulls that expires does the same.
    """
    connector.write(
        rows,
        definition.keyspace,
        definition.table,
        keep_nulls=True,
        write_time=WRITE_TIME,
        time_to_live=1,
    )


def write_events(rows: DataFrame, definition: Definition) -> None:
    """Write the rows of `transform.versioned`.

    Nulls are written, since a value of a lower version would stay. There is none below version 1,
    so the first version does without their tombstones.
    """
    connector.write(
        rows,
        definition.keyspace,
        definition.table,
        keep_nulls=definition.version > 1,
        write_time=WRITE_TIME,
    )
