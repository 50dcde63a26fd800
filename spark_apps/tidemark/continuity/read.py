"""The keys that validate compares, read in the order that rules out false findings.

The journal may be alive. Pekko writes messages, then tag_views, then tag_write_progress, and
metadata before it deletes; so we read progress first, then messages, then tag_views, and last
what excuses absence (facts: pekko-cassandra §3, §6).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import spark_io
from tidemark.cassandra.control import Control
from tidemark.journal import tables
from tidemark.partitioning import columns
from tidemark.settings import Settings


def progress(spark: SparkSession, settings: Settings) -> DataFrame:
    """tag_write_progress with the time bucket of its last event.

    Columns: persistence_id, tag, progress_sequence_nr, progress_number, progress_bucket (bigint).
    """
    rows = spark_io.read(
        spark,
        settings.journal_keyspace,
        tables.TAG_WRITE_PROGRESS,
        "persistence_id",
        "tag",
        "sequence_nr",
        "tag_pid_sequence_nr",
        "offset",
    )
    offset_ms = columns.timeuuid_epoch_ms(F.col("offset"))
    return rows.select(
        "persistence_id",
        "tag",
        F.col("sequence_nr").alias("progress_sequence_nr"),
        F.col("tag_pid_sequence_nr").alias("progress_number"),
        columns.time_bucket(offset_ms, settings.bucket_size).alias("progress_bucket"),
    )


def tag_rows(spark: SparkSession, settings: Settings) -> DataFrame:
    """Every row of tag_views without its payload.

    Columns: persistence_id, tag, sequence_nr, tag_pid_sequence_nr, ticks, time_bucket (bigint);
    the bucket is the one that the row is stored under.
    """
    rows = spark_io.read(
        spark,
        settings.journal_keyspace,
        tables.TAG_VIEWS,
        "tag_name",
        "timebucket",
        "timestamp",
        "persistence_id",
        "tag_pid_sequence_nr",
        "sequence_nr",
    )
    return rows.select(
        "persistence_id",
        F.col("tag_name").alias("tag"),
        "sequence_nr",
        "tag_pid_sequence_nr",
        columns.timeuuid_ticks(F.col("timestamp")).alias("ticks"),
        F.col("timebucket").alias("time_bucket"),
    )


def deleted(spark: SparkSession, settings: Settings) -> DataFrame:
    """How far each persistence id is deleted: persistence_id, deleted_to (bigint)."""
    return spark_io.read(
        spark, settings.journal_keyspace, tables.METADATA, "persistence_id", "deleted_to"
    )


def listed(spark: SparkSession, settings: Settings, control: Control) -> DataFrame:
    """The persistence ids that all_persistence_ids lists, as persistence_id; it may be absent."""
    name = tables.ALL_PERSISTENCE_IDS
    if control.table_columns(settings.journal_keyspace, name) is None:
        return spark.createDataFrame([], "persistence_id string")
    return spark_io.read(spark, settings.journal_keyspace, name, "persistence_id")
