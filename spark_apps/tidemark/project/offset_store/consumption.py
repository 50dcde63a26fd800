"""Bulk reads and writes of offsets by a run.

Results are written first, then offsets, then cursors, then the ledger. After a crash between two
writes the offsets lag, and the next run writes the same rows again.
"""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.partitioning.keys import SliceRange
from tidemark.project import shapes
from tidemark.project.offset_store.offsets import OFFSET, OffsetStore
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped


@shaped(returns=shapes.OFFSETS)
def stored_offsets(store: OffsetStore, spark: SparkSession, slices: SliceRange) -> DataFrame:
    """Read the offsets of all series of some slices; the frame is in memory."""
    # Rows instead of a literal column, which Spark would push down as a filter, and scan.
    slice_keys = [
        (store.subject, slice_number) for slice_number in range(slices.first, slices.last + 1)
    ]
    keys = local_rows(spark, slice_keys, "projection string, slice int")
    offset_rows = connector.read_partitions(
        keys,
        store.settings.keyspace,
        OFFSET,
        "persistence_id",
        "tag",
        "sequence_nr",
        "tag_pid_sequence_nr",
        "timestamp",
        "snapshot_sequence_nr",
    )
    return offset_rows.select(
        "persistence_id",
        "tag",
        F.coalesce("tag_pid_sequence_nr", "sequence_nr").alias("stored_number"),
        F.col("sequence_nr").alias("stored_sequence_nr"),
        F.col("timestamp").alias("stored_timeuuid"),
        F.col("snapshot_sequence_nr").alias("snapshot_nr"),
    ).localCheckpoint()


@shaped(rows=shapes.MOVED_OFFSETS)
def write_offsets(store: OffsetStore, rows: DataFrame, now: datetime) -> None:
    """Write the offsets that move forward, after the result."""
    with_key = rows.withColumns({"projection": F.lit(store.subject), "consumed_at": F.lit(now)})
    connector.write(with_key, store.settings.keyspace, OFFSET)
