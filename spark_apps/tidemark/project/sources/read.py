"""Reads of journal events and tag-view rows, from which the sources are made."""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.journals.pekko import frames, tables
from tidemark.journals.pekko.series import NO_TAG
from tidemark.partitioning import columns
from tidemark.project import shapes
from tidemark.project.planning.estimate import Estimates
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped

PAYLOAD = tuple(shapes.PAYLOAD)
COLUMNS = tuple(name for name in shapes.EVENTS if name not in shapes.PAYLOAD)
"""The columns of an event without its payload."""
_FEW = 0.2
"""The share of the journal up to which an index read is cheaper than a scan."""
MOST_RANGES = 16
"""Ranges of time buckets that are read one by one; more are read as one range."""


@shaped(returns=shapes.EVENTS)
def message_rows(run: RunContext, time_buckets: Sequence[int]) -> DataFrame:
    """Read all messages of some time buckets.

    If they are few and an index on their time exists, the index finds them; otherwise, a scan of
    all messages does.
    """
    spark, settings, size = run.spark, run.settings, run.settings.bucket_size.milliseconds
    ranges = ranges_of(set(time_buckets), size)
    if len(ranges) <= MOST_RANGES and _are_few(run, time_buckets):
        parts = [
            frames.indexed_between(spark, settings, first, end, *PAYLOAD) for first, end in ranges
        ]
        return by_sequence_nr(reduce(DataFrame.unionByName, parts), time_buckets)
    end = max(time_buckets) + size
    messages = frames.messages_between(spark, settings, min(time_buckets), end)
    return by_sequence_nr(messages, time_buckets)


def message_keys(run: RunContext, time_buckets: Sequence[int]) -> DataFrame | None:
    """Find the keys of the messages in some time buckets by a scan; None if there is an index.

    Columns: persistence_id, partition_nr, sequence_nr, time_bucket (bigint).
    """
    if tables.has_time_index(run.control, run.settings):
        return None
    messages = frames.message_index(run.spark, run.settings, "partition_nr")
    keys = in_buckets(messages, time_buckets)
    return keys.select("persistence_id", "partition_nr", "sequence_nr", "time_bucket")


def message_rows_of(run: RunContext, keys: DataFrame, time_buckets: Sequence[int]) -> DataFrame:
    """Read the messages in some time buckets by direct join with the keys of `message_keys`.

    Raises:
        CassandraUnavailable: the plan would scan the whole table instead.
    """
    # An event with rows at two times has one key.
    bucket_keys = in_buckets(keys, time_buckets).drop("time_bucket").distinct()
    return by_sequence_nr(frames.messages_of(bucket_keys, run.settings, *PAYLOAD), time_buckets)


def _are_few(run: RunContext, time_buckets: Sequence[int]) -> bool:
    if not tables.has_time_index(run.control, run.settings):
        return False
    rows_by_bucket = Estimates.read(run).by_bucket(is_by_tag=False)
    rows = sum(rows_by_bucket.get(bucket, 0) for bucket in time_buckets)
    has_counts = all(bucket in rows_by_bucket for bucket in time_buckets)
    return has_counts and rows <= _FEW * sum(rows_by_bucket.values())


def ranges_of(time_buckets: Set[int], size: int) -> list[tuple[int, int]]:
    """Return the first and the end of each contiguous range of time buckets."""
    firsts = sorted(bucket for bucket in time_buckets if bucket - size not in time_buckets)
    ends = sorted(bucket + size for bucket in time_buckets if bucket + size not in time_buckets)
    return list(zip(firsts, ends, strict=True))


@shaped(returns=shapes.EVENTS)
def by_sequence_nr(events: DataFrame, time_buckets: Sequence[int]) -> DataFrame:
    """Return the events in some time buckets; each persistence id is a series.

    The events lack tag and number.
    """
    return numbered(in_buckets(events, time_buckets)).select(*COLUMNS, *PAYLOAD)


def in_buckets(rows: DataFrame, time_buckets: Sequence[int]) -> DataFrame:
    """Keep the rows of some time buckets, by time_bucket."""
    buckets = local_rows(
        rows.sparkSession, [(bucket,) for bucket in time_buckets], "time_bucket bigint"
    )
    return rows.join(F.broadcast(buckets), on="time_bucket", how="left_semi")


def numbered(events: DataFrame) -> DataFrame:
    """Number events of the journal: each persistence id is a series of its sequence nrs.

    Renames timestamp to event_timeuuid, and adds tag and number.
    """
    renamed = events.withColumnRenamed("timestamp", "event_timeuuid")
    return renamed.withColumns({"tag": F.lit(NO_TAG), "number": F.col("sequence_nr")})


@shaped(returns=shapes.KEYS)
def tag_view_rows(
    spark: SparkSession,
    settings: Settings,
    tags: Sequence[str],
    time_buckets: Sequence[int],
    *payload: str,
) -> DataFrame:
    """Read the rows of some tags in some time buckets.

    Columns: COLUMNS, and the payload columns in `payload`.
    """
    keys = local_rows(
        spark,
        [(tag, bucket) for bucket in time_buckets for tag in tags],
        "tag_name string, timebucket bigint",
    )
    rows = connector.read_partitions(
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
            "event_timeuuid": F.col("timestamp"),
            "ticks": columns.timeuuid_ticks(F.col("timestamp")),
            "time_bucket": F.col("timebucket"),
            "tags": F.array("tag_name"),
        }
    ).select(*COLUMNS, *payload)
