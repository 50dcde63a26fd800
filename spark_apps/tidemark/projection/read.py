"""Events as the journal holds them: the rows that the sources of projections are made of."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import spark_io
from tidemark.journal import frames
from tidemark.local_rows import local_rows
from tidemark.partitioning import columns
from tidemark.projection.acceptance import NO_TAG
from tidemark.settings import Settings

PAYLOAD = ("ser_id", "ser_manifest", "event")
"""And its payload: int, string, binary."""
COLUMNS = (
    "persistence_id",
    "sequence_nr",
    "timestamp",
    "ticks",
    "time_bucket",
    "tags",
    "tag",
    "number",
)
"""Of a row of a source: persistence_id, sequence_nr (bigint), timestamp (timeuuid text), ticks
(bigint, 100 ns since 1582), time_bucket (bigint, epoch ms), tags (array<string>, may be null); and
the series that numbers it: tag ('' if that is the persistence id), number (bigint: the sequence nr,
or the tag pid sequence nr)."""


def message_rows(spark: SparkSession, settings: Settings, time_buckets: Sequence[int]) -> DataFrame:
    """All messages in those time buckets. Columns: COLUMNS and PAYLOAD."""
    end = max(time_buckets) + settings.bucket_size.milliseconds
    messages = frames.messages_between(spark, settings, min(time_buckets), end)
    return by_sequence_nr(messages, time_buckets)


def by_sequence_nr(events: DataFrame, time_buckets: Sequence[int]) -> DataFrame:
    """What of some events lies in those time buckets, each persistence id being a series.

    Columns in: COLUMNS and PAYLOAD without tag and number. Columns out: COLUMNS and PAYLOAD.
    """
    wanted = local_rows(
        events.sparkSession, [(bucket,) for bucket in time_buckets], "time_bucket bigint"
    )
    rows = events.join(F.broadcast(wanted), on="time_bucket", how="left_semi")
    return numbered(rows).select(*COLUMNS, *PAYLOAD)


def numbered(events: DataFrame) -> DataFrame:
    """Each persistence id is a series: its numbers are the sequence nrs, and it has no tag.

    Columns in: at least sequence_nr. Columns out: those, and tag, number.
    """
    return events.withColumns({"tag": F.lit(NO_TAG), "number": F.col("sequence_nr")})


def tag_view_rows(
    spark: SparkSession,
    settings: Settings,
    tags: Sequence[str],
    time_buckets: Sequence[int],
    *payload: str,
) -> DataFrame:
    """The rows of some tags in those time buckets.

    Columns: COLUMNS, and of the payload only what is named.
    """
    keys = local_rows(
        spark,
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
    ).select(*COLUMNS, *payload)
