"""The stored key of the last row of each persistence id and tag that a run has read.

The key is not trusted: a run reads the row itself, which may be absent only if it was removed.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.journals.pekko.shapes import TAG_ROWS, WRITE_PROGRESS
from tidemark.numbering.shapes import SERIES
from tidemark.partitioning import columns
from tidemark.partitioning.keys import BucketSize
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.tag_views.prefilter import SuspectIds

TABLE = "validate_tail"
_SERIES = ("persistence_id", "tag")
_ROW = ("sequence_nr", "tag_pid_sequence_nr", "timestamp")


@shaped(returns=shapes.TAILS)
def read_all(spark: SparkSession, settings: Settings) -> DataFrame:
    """Read all tails of the journal."""
    tails = connector.read(
        spark, settings.keyspace, TABLE, "journal_keyspace", *_SERIES, *_ROW
    ).where(F.col("journal_keyspace") == settings.journal_keyspace)
    return tails.select(*_SERIES, *_ROW)


@shaped(series=SERIES, returns=shapes.TAILS)
def read_series(series: DataFrame, settings: Settings) -> DataFrame:
    """Read the tails of unique series by direct join."""
    # Joined, since Spark turns a literal into a condition, which a direct join does not allow.
    journal = local_rows(
        series.sparkSession, [(settings.journal_keyspace,)], "journal_keyspace string"
    )
    keys = series.select(*_SERIES).crossJoin(F.broadcast(journal))
    return connector.read_partitions(keys, settings.keyspace, TABLE, *_SERIES, *_ROW)


@shaped(rows=TAG_ROWS, returns=shapes.TAILS)
def last_rows(rows: DataFrame, last_bucket: int) -> DataFrame:
    """Return the row with the highest number of each series, up to a time bucket."""
    highest = F.max_by(F.struct(*_ROW), F.struct("tag_pid_sequence_nr", "ticks")).alias("row")
    up_to = rows.where(F.col("time_bucket") <= last_bucket)
    return up_to.groupBy(*_SERIES).agg(highest).select(*_SERIES, "row.*")


@shaped(rows=TAG_ROWS, progress=WRITE_PROGRESS, returns=shapes.TAILS)
def of_journal(
    rows: DataFrame, progress: DataFrame, suspects: SuspectIds, last_bucket: int, size: BucketSize
) -> DataFrame:
    """Return `last_rows` of all rows of a journal.

    If no persistence id differs, progress names the last row of each series. Rows after
    `last_bucket` (epoch ms) are ignored.
    """
    is_later = columns.timeuuid_epoch_ms(F.col("progress_offset")) >= (
        last_bucket + size.milliseconds
    )
    if suspects.differing or not progress.where(is_later).isEmpty():
        return last_rows(rows, last_bucket)
    return progress.select(
        *_SERIES,
        F.col("progress_sequence_nr").alias("sequence_nr"),
        F.col("progress_number").alias("tag_pid_sequence_nr"),
        F.col("progress_offset").alias("timestamp"),
    )


@shaped(tails=shapes.TAILS)
def write(tails: DataFrame, settings: Settings) -> None:
    """Upsert tails."""
    rows = tails.withColumn("journal_keyspace", F.lit(settings.journal_keyspace))
    connector.write(rows, settings.keyspace, TABLE)
