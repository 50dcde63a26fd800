"""A journal of any size: `synthetic.py KEYSPACE IDS FIRST EVENTS BUCKETS [BYTES [SHARDS [HOURS]]]`.

Every persistence id p-0, p-1, … gets EVENTS events of BYTES (100) bytes from sequence nr FIRST on,
each with the tags red and blue, or with SHARDS with the one of shard-0, shard-1, … that its id has.
They are spread over BUCKETS Hour buckets that end two days ago; events that follow others lie HOURS
(0) after them. The last line of the output is the number of events.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.partitioning import columns
from tidemark.settings import Settings
from tidemark.spark_session import open_session
from tidemark.window import to_millis

HOUR_MS = 3_600_000
HISTORY_END = to_millis(
    datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=2)
)
"""Where the time of the first events ends; increments lie in the hours after it."""


def main(
    keyspace: str,
    ids: int,
    first: int,
    events: int,
    buckets: int,
    size: int = 100,
    shards: int = 0,
    hours: int = 0,
) -> None:
    """Write the messages, and print their number."""
    settings = Settings.load()
    spark = open_session("synthetic", settings)
    fill(spark, settings, keyspace, ids, first, events, buckets, size, shards, hours)
    print(json.dumps({"events": ids * events}))


def fill(
    spark: SparkSession,
    settings: Settings,
    keyspace: str,
    ids: int,
    first: int,
    events: int,
    buckets: int,
    size: int = 100,
    shards: int = 0,
    hours: int = 0,
) -> None:
    """Write the messages, and the persistence ids to all_persistence_ids."""
    start = HISTORY_END + (hours if first > 1 else -buckets) * HOUR_MS
    number = F.expr(f"id div {ids}") + first
    epoch_ms = F.lit(start) + F.expr(f"id * {buckets * HOUR_MS} div {ids * events}")
    # Several events share a millisecond: the ticks below it keep their timeuuids apart.
    ticks = columns.epoch_ms_ticks(epoch_ms) + F.expr("id % 10000")
    persistence_id = F.concat(F.lit("p-"), F.expr(f"id % {ids}"))
    tags = [F.lit("red"), F.lit("blue")]
    if shards:
        tags = [F.concat(F.lit("shard-"), F.expr(f"id % {ids} % {shards}"))]
    rows = spark.range(ids * events).select(
        persistence_id.alias("persistence_id"),
        columns.partition_nr(number, settings.target_partition_size).alias("partition_nr"),
        number.alias("sequence_nr"),
        columns.ticks_timeuuid(ticks, clock_sequence=1, node=1).alias("timestamp"),
        columns.messages_time_bucket(epoch_ms, settings.bucket_size).alias("timebucket"),
        F.lit("writer").alias("writer_uuid"),
        F.lit(20).alias("ser_id"),
        F.lit("").alias("ser_manifest"),
        F.lit("").alias("event_manifest"),
        F.encode(F.rpad(F.concat(F.lit("event "), F.col("id")), size, "x"), "utf-8").alias("event"),
        F.array(*tags).alias("tags"),
    )
    connector.write(rows, keyspace, settings.journal_table)
    listed = spark.range(ids).select(F.concat(F.lit("p-"), F.col("id")).alias("persistence_id"))
    connector.write(listed, keyspace, settings.all_persistence_ids_table)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
