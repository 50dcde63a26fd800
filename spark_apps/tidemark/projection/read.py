"""The events of a projection's source, as the journal holds them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import spark_io
from tidemark.journal import frames
from tidemark.partitioning import columns
from tidemark.projection.acceptance import NO_TAG
from tidemark.projection.definition import Definition
from tidemark.settings import Settings

PAYLOAD = ("ser_id", "ser_manifest", "event")
_COLUMNS = (
    "persistence_id",
    "sequence_nr",
    "timestamp",
    "ticks",
    "time_bucket",
    "tags",
    "tag",
    "number",
)


def source_table(definition: Definition, settings: Settings) -> str:
    """The table that the events come from, as `keyspace.table`."""
    name = settings.journal_table if definition.tags is None else settings.events_by_tag_table
    return f"{settings.journal_keyspace}.{name}"


def source_rows(
    spark: SparkSession, settings: Settings, definition: Definition, time_buckets: Sequence[int]
) -> DataFrame:
    """The source's rows in those time buckets; an event of several tags comes once for each.

    Columns: persistence_id, sequence_nr (bigint), timestamp (timeuuid text), ticks (bigint,
    100 ns since 1582), time_bucket (bigint, epoch ms), tags (array<string>, may be null), ser_id,
    ser_manifest, event (binary); and the series that numbers the row: tag ('' for messages), number
    (bigint: the sequence nr, or the tag pid sequence nr).
    """
    if definition.tags is None:
        rows = _messages(spark, settings, time_buckets)
    else:
        rows = tag_view_rows(spark, settings, definition.tags, time_buckets, *PAYLOAD)
    return rows.select(*_COLUMNS, *PAYLOAD)


def _messages(spark: SparkSession, settings: Settings, time_buckets: Sequence[int]) -> DataFrame:
    wanted = spark.createDataFrame([(bucket,) for bucket in time_buckets], "time_bucket bigint")
    end = max(time_buckets) + settings.bucket_size.milliseconds
    messages = frames.messages_between(spark, settings, min(time_buckets), end)
    rows = messages.join(F.broadcast(wanted), on="time_bucket", how="left_semi")
    return rows.withColumns({"tag": F.lit(NO_TAG), "number": F.col("sequence_nr")})


def tag_view_rows(
    spark: SparkSession,
    settings: Settings,
    tags: Sequence[str],
    time_buckets: Sequence[int],
    *payload: str,
) -> DataFrame:
    """The rows of some tags in those time buckets.

    Columns: those of `source_rows`, of the payload only what is named.
    """
    keys = spark.createDataFrame(
        [(tag, bucket) for bucket in time_buckets for tag in tags],
        "tag_name string, timebucket bigint",
    )
    rows = spark_io.read_partitions(
        keys,
        settings.journal_keyspace,
        settings.events_by_tag_table,
        "tag_name",
        "timebucket",
        "persistence_id",
        "sequence_nr",
        "tag_pid_sequence_nr",
        "timestamp",
        *payload,
    )
    return rows.withColumns(
        {
            "tag": F.col("tag_name"),
            "number": F.col("tag_pid_sequence_nr"),
            "ticks": columns.timeuuid_ticks(F.col("timestamp")),
            "time_bucket": F.col("timebucket"),
            "tags": F.array("tag_name"),
        }
    ).select(*_COLUMNS, *payload)
