"""Writes the rows of results to Cassandra, one function for each kind of write."""

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
    """Write the new rows of `time_buckets` time buckets next to the old rows: the first step."""
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
    """Delete the rows of each time bucket that are older than the new rows: the second step."""
    control.execute_many(
        f"DELETE FROM {table(definition.keyspace, definition.table)}"
        " USING TIMESTAMP ? WHERE time_bucket = ?",
        [(write_time - 1, time_bucket) for time_bucket in time_buckets],
    )


def void_states(
    control: Control, definition: Definition, persistence_ids: Sequence[str], write_time: int
) -> None:
    """Void the states of some persistence ids; readers still see the states until the next run.

    `write_time` is the result of `state_times.void_at`. The table may be absent, and ids may have
    no state; there are at most a chunk of them.
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
    """Write the rows of `transform.newest` with nulls, so that no older value remains."""
    connector.write(
        rows, definition.keyspace, definition.table, keep_nulls=True, write_time=WRITE_TIME
    )


def delete_newest(rows: DataFrame, definition: Definition) -> None:
    """Delete the rows of `transform.deletions`, unless the stored rows are newer.

    The connector can delete only at the present time. As write times are made of sequence nrs, such
    a deletion would also hide later rows. So this writes rows of nulls that expire.
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

    Nulls are written, so that no value of a lower version remains. Version 1 has no lower version,
    and avoids the tombstones.
    """
    connector.write(
        rows,
        definition.keyspace,
        definition.table,
        keep_nulls=definition.version > 1,
        write_time=WRITE_TIME,
    )
