"""The writes of project, one function for each kind, in the order in which they are promised.

Result, then offsets, then cursors; the ledger comes last. A crash between any two leaves offsets
that lag, and the next run writes the same rows again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.partitioning.keys import SliceRange
from tidemark.projection.definition.model import Definition
from tidemark.projection.transformation.events import WRITE_TIME
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.window import from_millis, to_millis

_OFFSET, _CURSOR, _CONTROL = "projection_offset", "projection_cursor", "projection_control"


def next_write_time(control: Control, settings: Settings, subject: str) -> int:
    """A write timestamp (microseconds) above all that this projection used; stored before use.

    It grows even if the clock goes back, and if the run that took the last one died.

    Raises:
        CassandraUnavailable: a statement failed.
    """
    name = table(settings.keyspace, _CONTROL)
    rows = control.execute(
        "SELECT last_write_time, WRITETIME(last_write_time) AS stored_at"
        f" FROM {name} WHERE projection = ?",
        (subject,),
    )
    last = max(value or 0 for value in rows[0].values()) if rows else 0
    write_time = max(clock.now_micros(), last + 2)
    # With the time of this clock it would be hidden by what a faster one has stored.
    control.execute(
        f"INSERT INTO {name} (projection, last_write_time) VALUES (?, ?) USING TIMESTAMP ?",
        (subject, write_time, write_time),
    )
    return write_time


def write_bucket_rows(
    rows: DataFrame, definition: Definition, write_time: int, time_buckets: int
) -> None:
    """First of a bucket's replacement: the new rows of so many of them beside the old ones."""
    connector.write(
        connector.gathered(rows, ("time_bucket",), time_buckets).withColumn(
            WRITE_TIME, F.lit(write_time)
        ),
        definition.keyspace,
        definition.table,
        write_time=WRITE_TIME,
    )


def delete_older_rows(
    control: Control, definition: Definition, time_buckets: Iterable[int], write_time: int
) -> None:
    """Second of a bucket's replacement: everything in it that is older than the new rows.

    Raises:
        CassandraUnavailable: a statement failed.
    """
    control.execute_many(
        f"DELETE FROM {table(definition.keyspace, definition.table)}"
        " USING TIMESTAMP ? WHERE time_bucket = ?",
        [(write_time - 1, time_bucket) for time_bucket in time_buckets],
    )


def write_newest(rows: DataFrame, definition: Definition) -> None:
    """The rows of `transform.newest`. Nulls are written, or an older value would stay."""
    connector.write(
        rows, definition.keyspace, definition.table, keep_nulls=True, write_time=WRITE_TIME
    )


def write_events(rows: DataFrame, definition: Definition) -> None:
    """The rows of `transform.versioned`.

    Nulls are written, or a value of a lower version would stay. Below version 1 there is none, so
    the first version does without their tombstones.
    """
    connector.write(
        rows,
        definition.keyspace,
        definition.table,
        keep_nulls=definition.version > 1,
        write_time=WRITE_TIME,
    )


def stored_offsets(
    spark: SparkSession, settings: Settings, subject: str, slices: SliceRange
) -> DataFrame:
    """How far each series of those slices was consumed before, in memory.

    Columns: persistence_id, tag, stored_number, stored_sequence_nr (bigint), stored_timestamp
    (timeuuid text), snapshot_nr (bigint: the sequence nr of the snapshot that it began with, null
    if it began with an event).
    """
    # Rows and not a literal column: Spark would push the literal down as a filter, and scan.
    wanted = [(subject, number) for number in range(slices.first, slices.last + 1)]
    keys = local_rows(spark, wanted, "projection string, slice int")
    stored = connector.read_partitions(
        keys,
        settings.keyspace,
        _OFFSET,
        "persistence_id",
        "tag",
        "sequence_nr",
        "tag_pid_sequence_nr",
        "timestamp",
        "snapshot_sequence_nr",
    )
    return stored.select(
        "persistence_id",
        "tag",
        F.coalesce("tag_pid_sequence_nr", "sequence_nr").alias("stored_number"),
        F.col("sequence_nr").alias("stored_sequence_nr"),
        F.col("timestamp").alias("stored_timestamp"),
        F.col("snapshot_sequence_nr").alias("snapshot_nr"),
    ).localCheckpoint()


def write_offsets(rows: DataFrame, settings: Settings, subject: str, now: datetime) -> None:
    """After the result: the rows of `acceptance.offset_rows`."""
    with_key = rows.withColumns({"projection": F.lit(subject), "consumed_at": F.lit(now)})
    connector.write(with_key, settings.keyspace, _OFFSET)


def write_cursors(
    control: Control,
    settings: Settings,
    subject: str,
    newest: Mapping[int, int],
    now: datetime,
) -> None:
    """After the offsets: the newest event time (epoch ms) by slice, where it moves forward.

    Raises:
        CassandraUnavailable: a statement failed.
    """
    name = table(settings.keyspace, _CURSOR)
    stored = {
        row["slice"]: to_millis(row["timestamp"].replace(tzinfo=UTC))
        for row in control.execute(
            f"SELECT slice, timestamp FROM {name} WHERE projection = ?", (subject,)
        )
    }
    control.execute_many(
        f"INSERT INTO {name} (projection, slice, timestamp, updated_at) VALUES (?, ?, ?, ?)",
        [
            (subject, number, from_millis(epoch_ms), now)
            for number, epoch_ms in newest.items()
            if number not in stored or epoch_ms > stored[number]
        ],
    )
