"""What a run has consumed: offsets and cursors, read and written in bulk.

Results are written first, then offsets, then cursors; the ledger comes last. A crash between any
two leaves offsets that lag, and the next run writes the same rows again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.partitioning.keys import SliceRange
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.window import from_millis, to_millis

_OFFSET, _CURSOR = "projection_offset", "projection_cursor"


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
    """After the offsets: the newest event time (epoch ms) by slice, where it moves forward."""
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
