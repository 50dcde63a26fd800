"""The journal's tables as DataFrames, with the time bucket computed from each event's timeuuid."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import spark_io
from tidemark.journal import tables
from tidemark.partitioning import columns
from tidemark.settings import Settings


def message_index(spark: SparkSession, settings: Settings) -> DataFrame:
    """Every message without its payload.

    Columns: persistence_id, sequence_nr (bigint), timestamp (timeuuid text), ticks (bigint,
    100 ns since 1582), time_bucket (bigint, epoch ms), tags (array<string>, null when untagged).
    """
    return _messages(spark, settings)


def messages_between(
    spark: SparkSession, settings: Settings, first_bucket: int, end_bucket: int
) -> DataFrame:
    """Whole messages whose time bucket b satisfies first_bucket <= b < end_bucket (epoch ms).

    Columns: those of `message_index`, and the payload columns of `tables.PAYLOAD_COLUMNS`.
    """
    in_window = (F.col("time_bucket") >= first_bucket) & (F.col("time_bucket") < end_bucket)
    return _messages(spark, settings, *tables.PAYLOAD_COLUMNS).where(in_window)


def write_progress(spark: SparkSession, settings: Settings) -> DataFrame:
    """tag_write_progress: persistence_id, tag, progress_sequence_nr, progress_number (bigint)."""
    progress = spark_io.read(
        spark,
        settings.journal_keyspace,
        tables.TAG_WRITE_PROGRESS,
        "persistence_id",
        "tag",
        "sequence_nr",
        "tag_pid_sequence_nr",
    )
    return progress.select(
        "persistence_id",
        "tag",
        F.col("sequence_nr").alias("progress_sequence_nr"),
        F.col("tag_pid_sequence_nr").alias("progress_number"),
    )


def scanning(spark: SparkSession, settings: Settings) -> DataFrame:
    """tag_scanning: persistence_id, scanned_to (bigint)."""
    scanned = spark_io.read(
        spark,
        settings.journal_keyspace,
        tables.TAG_SCANNING,
        "persistence_id",
        "sequence_nr",
    )
    return scanned.select("persistence_id", F.col("sequence_nr").alias("scanned_to"))


def _messages(spark: SparkSession, settings: Settings, *payload: str) -> DataFrame:
    messages = spark_io.read(
        spark,
        settings.journal_keyspace,
        tables.MESSAGES,
        "persistence_id",
        "sequence_nr",
        "timestamp",
        "tags",
        *payload,
    )
    epoch_ms = columns.timeuuid_epoch_ms(F.col("timestamp"))
    return messages.withColumns(
        {
            "ticks": columns.timeuuid_ticks(F.col("timestamp")),
            "time_bucket": columns.time_bucket(epoch_ms, settings.bucket_size),
        }
    )
