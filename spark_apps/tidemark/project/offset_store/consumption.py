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
from tidemark.project.offset_store.offset_places import OFFSET
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.spark.shapes import shaped


@shaped(returns=shapes.OFFSETS)
def stored_offsets(store: OffsetStore, spark: SparkSession, slices: SliceRange) -> DataFrame:
    """Read the offsets of all series of some slices; the frame is in memory."""
    offset_rows = store.place.frame(spark, slices)
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
