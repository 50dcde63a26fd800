"""The journal's tables as DataFrames, with the time bucket computed from each event's timeuuid."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.journals.pekko import message_rows, shapes, tables
from tidemark.journals.pekko.partitions import EMPTY_AT_END
from tidemark.partitioning import columns, keys
from tidemark.partitioning.keys import BucketSize
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped

_PARTITIONS = 4
"""Partitions of one persistence id that one round of direct joins reads."""
_MOST_PARTITIONS = 1000
"""Most partitions read at once for events in other tables, in which a number may be damaged."""
_INDEX = ("persistence_id", "sequence_nr", "timestamp", "tags")
_PROGRESS = ("persistence_id", "tag", "sequence_nr", "tag_pid_sequence_nr", "offset")
_SCANNING = ("persistence_id", "sequence_nr")


@shaped(returns=shapes.MESSAGES)
def message_index(
    spark: SparkSession, settings: Settings, *payload: str, with_has_payload: bool = False
) -> DataFrame:
    """Read every message, by default without its payload.

    `payload` are further columns of the table `messages`. With `with_has_payload` the frame has a
    further column `has_payload`, for which no payload is read.
    """
    return _messages(spark, settings, *payload, with_has_payload=with_has_payload)


@shaped(returns=shapes.WHOLE_MESSAGES)
def messages_between(
    spark: SparkSession, settings: Settings, first_bucket: int, end_bucket: int
) -> DataFrame:
    """Read complete messages in time buckets [first_bucket, end_bucket), in epoch ms."""
    in_window = (F.col("time_bucket") >= first_bucket) & (F.col("time_bucket") < end_bucket)
    return _messages(spark, settings, *tables.PAYLOAD_COLUMNS).where(in_window)


@shaped(ids=shapes.ID, returns=shapes.WRITE_PROGRESS)
def write_progress(
    spark: SparkSession, settings: Settings, ids: DataFrame | None = None
) -> DataFrame:
    """Read the table tag_write_progress, all of it or that of unique ids, by direct join."""
    source = (settings.journal_keyspace, tables.TAG_WRITE_PROGRESS, *_PROGRESS)
    return _progress(connector.read(spark, *source, keys=ids))


@shaped(ids=shapes.ID, returns=shapes.TIMED_PROGRESS)
def timed_write_progress(
    spark: SparkSession, settings: Settings, ids: DataFrame | None = None
) -> DataFrame:
    """Read what `write_progress` reads, with the write times of its rows."""
    source = (settings.journal_keyspace, tables.TAG_WRITE_PROGRESS, *_PROGRESS)
    stored = connector.read(spark, *source, keys=ids, write_time_of="sequence_nr")
    return _progress(stored, F.col("write_time").alias("progress_written_at"))


def _progress(stored: DataFrame, *extra: Column) -> DataFrame:
    return stored.select(
        "persistence_id",
        "tag",
        F.col("sequence_nr").alias("progress_sequence_nr"),
        F.col("tag_pid_sequence_nr").alias("progress_number"),
        F.col("offset").alias("progress_offset"),
        *extra,
    )


@shaped(returns=shapes.PLACED_PROGRESS)
def placed_progress(spark: SparkSession, settings: Settings) -> DataFrame:
    """Read tag_write_progress, with the time bucket of the last event of each row."""
    return placed(write_progress(spark, settings), settings.bucket_size)


@shaped(progress=shapes.WRITE_PROGRESS, returns=shapes.PLACED_PROGRESS)
def placed(progress: DataFrame, bucket_size: BucketSize) -> DataFrame:
    """Replace the offset of each row with its time bucket."""
    offset_ms = columns.timeuuid_epoch_ms(F.col("progress_offset"))
    return progress.withColumn("progress_bucket", columns.time_bucket(offset_ms, bucket_size)).drop(
        "progress_offset"
    )


@shaped(ids=shapes.ID, returns=shapes.DELETED)
def deleted(spark: SparkSession, settings: Settings, ids: DataFrame | None = None) -> DataFrame:
    """Read up to where persistence ids are deleted, all or unique `ids`, by direct join."""
    source = (settings.journal_keyspace, settings.metadata_table)
    return connector.read(spark, *source, "persistence_id", "deleted_to", keys=ids)


@shaped(ids=shapes.ID, returns=shapes.SCANNING)
def scanning(spark: SparkSession, settings: Settings, ids: DataFrame | None = None) -> DataFrame:
    """Read the table tag_scanning, all of it or that of unique ids, by direct join."""
    source = (settings.journal_keyspace, tables.TAG_SCANNING, *_SCANNING)
    stored = connector.read(spark, *source, keys=ids)
    return stored.withColumnRenamed("sequence_nr", "scanned_to")


@shaped(returns=shapes.MESSAGES)
def indexed_between(
    spark: SparkSession,
    settings: Settings,
    first: int,
    end: int,
    *payload: str,
    with_has_payload: bool = False,
) -> DataFrame:
    """Read the messages of a time range by the storage-attached index on `messages(timestamp)`.

    `first` (inclusive) and `end` (exclusive) are epoch ms; messages of the millisecond before
    `first`, and of `end` itself, may be among the rows. `payload` and `with_has_payload` are as in
    `message_index`.
    """
    # Cassandra compares timeuuids by time first and then by signed bytes. Clock sequence 0 and
    # node 0 are therefore not the lowest timeuuid of their tick, hence the extra millisecond.
    lowest, highest = (
        keys.ticks_timeuuid(keys.epoch_ms_ticks(moment), clock_sequence=0, node=0)
        for moment in (first - 1, end + 1)
    )
    stored = _stored(spark, settings, *payload, with_has_payload=with_has_payload)
    messages = stored.where((F.col("timestamp") >= lowest) & (F.col("timestamp") < highest))
    connector.require_pushed(messages, '"timestamp" >= ?')
    return with_time(messages, settings)


@shaped(keys=shapes.PARTITIONS, returns=shapes.MESSAGES)
def messages_of(
    keys: DataFrame, settings: Settings, *payload: str, with_has_payload: bool = False
) -> DataFrame:
    """Read the messages of the given keys, by direct join; a key without a message gives no row.

    Keys without sequence_nr stand for whole partitions. `payload` and `with_has_payload` are as in
    `message_index`.
    """
    rows = connector.read_partitions(
        keys,
        settings.journal_keyspace,
        settings.journal_table,
        *_INDEX,
        *payload,
        optional=message_rows.older_columns(payload, with_has_payload=with_has_payload),
        write_time_of="event" if with_has_payload else None,
    )
    # A key with a sequence nr finds only events, and must not be in a condition as well.
    events = rows if "sequence_nr" in keys.columns else rows.where(message_rows.is_event())
    return with_time(message_rows.as_newer(events, with_has_payload=with_has_payload), settings)


@shaped(ids=shapes.ID, deleted_to=shapes.DELETED, returns=shapes.MESSAGES)
def messages_of_ids(
    ids: DataFrame, settings: Settings, *payload: str, deleted_to: DataFrame | None = None
) -> DataFrame:
    """Read all messages of unique persistence ids, by direct joins of a few partitions each.

    `payload` is as in `message_index`; `deleted_to` has the rows of `deleted`, if already read.
    """
    return placed_messages_of_ids(ids, settings, *payload, deleted_to=deleted_to).drop(
        "partition_nr"
    )


@shaped(
    ids=shapes.ID,
    deleted_to=shapes.DELETED,
    known_to=shapes.KNOWN_IDS,
    returns=shapes.PLACED_MESSAGES,
)
def placed_messages_of_ids(
    ids: DataFrame,
    settings: Settings,
    *payload: str,
    deleted_to: DataFrame | None = None,
    known_to: DataFrame | None = None,
    with_has_payload: bool = False,
) -> DataFrame:
    """Read what `messages_of_ids` reads, with the partition of each message.

    `known_to` has sequence nrs up to which events have existed: up to there, within a limit, empty
    partitions do not end the read. `with_has_payload` is as in `message_index`.
    """
    deletions = deleted(ids.sparkSession, settings, ids) if deleted_to is None else deleted_to
    size = settings.target_partition_size
    frontier = ids.join(deletions, on="persistence_id", how="left").withColumn(
        "first_partition", columns.partition_nr(F.coalesce("deleted_to", F.lit(0)) + 1, size)
    )
    last_partition = F.col("first_partition") + (_PARTITIONS - 1)
    if known_to is not None:
        known_partition = columns.partition_nr(F.greatest("known_to", F.lit(1)), size)
        known_end = F.least(known_partition, F.col("first_partition") + _MOST_PARTITIONS)
        last_partition = F.greatest(last_partition, known_end + EMPTY_AT_END)
        frontier = frontier.join(known_to, on="persistence_id", how="left")
    frontier = frontier.select(
        "persistence_id", "first_partition", last_partition.alias("last_partition")
    ).localCheckpoint()
    rounds = []
    while not frontier.isEmpty():
        numbers = F.sequence("first_partition", "last_partition")
        partition_keys = frontier.select("persistence_id", F.explode(numbers).alias("partition_nr"))
        # Checkpoints and not caches: a cached frame carries the plans of all earlier rounds.
        read = messages_of(
            partition_keys, settings, "partition_nr", *payload, with_has_payload=with_has_payload
        )
        rounds.append(read.localCheckpoint())
        continuing = rounds[-1].groupBy("persistence_id").agg(F.max("partition_nr").alias("last"))
        frontier = (
            frontier.join(continuing, on="persistence_id")
            .where(F.col("last") > F.col("last_partition") - EMPTY_AT_END)
            .select(
                "persistence_id",
                (F.col("last_partition") + 1).alias("first_partition"),
                (F.col("last_partition") + _PARTITIONS).alias("last_partition"),
            )
        )
    return reduce(DataFrame.unionByName, rounds)


def _messages(
    spark: SparkSession, settings: Settings, *payload: str, with_has_payload: bool = False
) -> DataFrame:
    return with_time(
        _stored(spark, settings, *payload, with_has_payload=with_has_payload), settings
    )


def _stored(
    spark: SparkSession, settings: Settings, *payload: str, with_has_payload: bool
) -> DataFrame:
    keyspace, name = settings.journal_keyspace, settings.journal_table
    older = message_rows.older_columns(payload, with_has_payload=with_has_payload)
    written = "event" if with_has_payload else None
    rows = connector.read(
        spark, keyspace, name, *_INDEX, *payload, optional=older, write_time_of=written
    )
    return message_rows.as_newer(
        rows.where(message_rows.is_event()), with_has_payload=with_has_payload
    )


def with_time(messages: DataFrame, settings: Settings) -> DataFrame:
    """Add ticks and time_bucket of `timestamp`."""
    # Two columns, one computed from the other, so that Spark parses the timeuuid text only once.
    epoch_ms = columns.ticks_epoch_ms(F.col("ticks"))
    return messages.withColumn("ticks", columns.timeuuid_ticks(F.col("timestamp"))).withColumn(
        "time_bucket", columns.time_bucket(epoch_ms, settings.bucket_size)
    )
