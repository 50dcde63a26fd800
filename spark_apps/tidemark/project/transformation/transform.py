"""Pure functions from a source's rows to events, and from a result to the rows to store."""

from __future__ import annotations

from itertools import chain

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.journals.pekko import event_type
from tidemark.partitioning import columns
from tidemark.project import shapes
from tidemark.project.decoding.decode import with_parsed
from tidemark.project.decoding.prepare import Decoders
from tidemark.project.definition.model import MAX_VERSION
from tidemark.project.envelope import ENVELOPE, IS_SNAPSHOT, SOURCE_COLUMN
from tidemark.spark.shapes import shaped

WRITE_TIME = "tidemark_write_time"
IS_DELETED = "tidemark_is_deleted"
SNAPSHOT = "snapshot: "
"""The prefix of the cause of an unreadable snapshot."""
_RANK = "_rank"


@shaped(rows=shapes.EVENT, returns=shapes.DISTINCT_EVENTS)
def distinct_events(rows: DataFrame) -> DataFrame:
    """Merge the rows of each (persistence_id, sequence_nr) into one, with the sorted tags of all.

    If the journal has an event at two times, the earlier row is used. tags is never null;
    is_snapshot is kept if present.
    """
    return (
        rows.groupBy("persistence_id", "sequence_nr")
        .agg(
            F.min(F.struct(*_rest(rows))).alias("first"),
            F.array_sort(F.array_distinct(F.flatten(F.collect_set("tags")))).alias("tags"),
        )
        .select("persistence_id", "sequence_nr", "first.*", "tags")
    )


@shaped(rows=shapes.EVENT, returns=shapes.DISTINCT_EVENTS)
def single_events(rows: DataFrame) -> DataFrame:
    """Return the same as `distinct_events` for rows that repeat no event, without a shuffle."""
    tags = F.coalesce(F.col("tags"), F.array().cast("array<string>"))
    return rows.select(
        "persistence_id",
        "sequence_nr",
        *_rest(rows),
        F.array_sort(F.array_distinct(tags)).alias("tags"),
    )


@shaped(events=shapes.DISTINCT_EVENTS, returns=shapes.DECODED)
def decode(events: DataFrame, fields: T.StructType, decoders: Decoders | None = None) -> DataFrame:
    """Decode payloads into the columns `fields`; without `decoders` all payloads are JSON.

    is_snapshot is kept if present.
    """
    parsed, mark = with_parsed(events, fields, decoders), _mark(events)
    if mark:
        parsed = parsed.withColumn("cause", _cause_with_snapshots())
    source = F.struct(
        F.col("event_timeuuid").alias("timeuuid"),
        F.coalesce(F.length("event"), F.lit(0)).alias("size"),
        "skipped",
        "cause",
        F.when(F.col("cause").isNotNull(), F.col("event")).alias("event"),
    )
    return parsed.select(
        "persistence_id",
        "sequence_nr",
        columns.ticks_timestamp(F.col("ticks")).alias("timestamp"),
        "time_bucket",
        "tags",
        *event_type.columns(),
        *mark,
        *[F.col("parsed").getField(name).alias(name) for name in fields.names],
        source.alias(SOURCE_COLUMN),
    )


@shaped(decoded=shapes.DECODED, returns=shapes.READABLE)
def readable(decoded: DataFrame) -> DataFrame:
    """Return the table `events` of the definitions, with the columns of `envelope.ENVELOPE` first.

    The slice is added last, since Spark omits a column that a definition does not use: computing a
    slice costs more than decoding a payload.
    """
    fields = [name for name in decoded.columns if name not in {*ENVELOPE.names, SOURCE_COLUMN}]
    persistence_id = F.col("persistence_id")
    return (
        decoded.where(_is_readable())
        .withColumn("entity_type", columns.entity_type(persistence_id))
        .withColumn("slice", columns.slice_of(persistence_id))
        .select(*ENVELOPE.names, *fields)
    )


@shaped(decoded=shapes.DECODED, returns=shapes.UNREADABLE)
def unreadable(decoded: DataFrame) -> DataFrame:
    """Select the events with unreadable payloads."""
    return decoded.where(_source("cause").isNotNull()).select(
        "persistence_id",
        "sequence_nr",
        _source("timeuuid").alias("timestamp"),
        _source("cause").alias("cause"),
        F.col("serializer_id").alias("ser_id"),
        F.col("manifest").alias("ser_manifest"),
        _source("event").alias("event"),
        "time_bucket",
    )


@shaped(decoded=shapes.DECODED, returns=shapes.PROCESSED)
def processed(decoded: DataFrame) -> DataFrame:
    """Select the events that were processed, or skipped by a decoder's `skip`."""
    return decoded.where(_source("cause").isNull()).select(*shapes.PROCESSED)


@shaped(
    events=shapes.DISTINCT_EVENTS,
    failures={**shapes.EVENT, "cause": "string"},
    returns=shapes.UNREADABLE,
)
def unprocessed(events: DataFrame, failures: DataFrame) -> DataFrame:
    """Select the events for which the user's code raised."""
    failed_events = events.join(failures, on=["persistence_id", "sequence_nr"])
    timed = failed_events.withColumnRenamed("event_timeuuid", "timestamp")
    return timed.select(*shapes.UNREADABLE)


@shaped(decoded=shapes.DECODED, returns=shapes.BUCKET_COUNTS)
def counts_by_bucket(decoded: DataFrame) -> DataFrame:
    """Count the events, bytes and filled fields of each time bucket."""
    others = {*ENVELOPE.names, IS_SNAPSHOT, SOURCE_COLUMN}
    fields = [name for name in decoded.columns if name not in others]
    filled = [(F.lit(name), F.count(F.when(_is_readable(), F.col(f"`{name}`")))) for name in fields]
    return decoded.groupBy("time_bucket").agg(
        F.count(F.lit(1)).alias("events_read"),
        F.count(_source("cause")).alias("quarantined"),
        F.sum(_source("size")).alias("bytes_read"),
        F.count_if(_is_readable()).alias("readable"),
        F.create_map(*chain.from_iterable(filled)).alias("filled"),
    )


def newest(result: DataFrame, version: int) -> DataFrame:
    """Return the newest row of each persistence id, with its write timestamp.

    The write timestamp makes Cassandra keep the newest row of all runs: it is higher for a higher
    sequence nr, and for the same sequence nr higher for a newer version of the definition.

    Columns in: the result's, with persistence_id and sequence_nr (bigint). Columns out: those, and
    tidemark_write_time (bigint). If the result has several rows for the newest sequence nr of a
    persistence id, all are returned.
    """
    by_id = Window.partitionBy("persistence_id").orderBy(F.col("sequence_nr").desc_nulls_first())
    write_time = F.col("sequence_nr") * (MAX_VERSION + 1) + version
    return (
        result.withColumn(_RANK, F.rank().over(by_id))
        .where(F.col(_RANK) == 1)
        .drop(_RANK)
        .withColumn(WRITE_TIME, write_time)
    )


def stored(rows: DataFrame) -> DataFrame:
    """Return the rows to store: all without tidemark_is_deleted (boolean)."""
    if IS_DELETED not in rows.columns:
        return rows
    return rows.where(~F.col(IS_DELETED)).drop(IS_DELETED)


def deletions(rows: DataFrame) -> DataFrame:
    """Return the rows to delete, without the column tidemark_is_deleted."""
    return rows.where(IS_DELETED).drop(IS_DELETED)


def versioned(result: DataFrame, version: int) -> DataFrame:
    """Add the column tidemark_write_time (bigint): the definition's version as write timestamp.

    When the same version writes a row again, timestamp and values are the same. A row of a higher
    version wins in any order of writes.
    """
    return result.withColumn(WRITE_TIME, F.lit(version).cast("bigint"))


def newest_by_slice(decoded: DataFrame) -> DataFrame:
    """Return the newest event time of each slice. Columns out: slice (int), epoch_ms (bigint)."""
    by_id = decoded.groupBy("persistence_id").agg(F.max("timestamp").alias("timestamp"))
    by_slice = by_id.groupBy(columns.slice_of(F.col("persistence_id")).alias("slice"))
    return by_slice.agg(F.unix_millis(F.max("timestamp")).alias("epoch_ms"))


def _rest(rows: DataFrame) -> list[str]:
    """Return an event's columns except its key and tags, beginning with the column to order by."""
    return ["ticks", "event_timeuuid", "time_bucket", *shapes.PAYLOAD, *_mark(rows)]


def _mark(rows: DataFrame) -> list[str]:
    return [name for name in rows.columns if name == IS_SNAPSHOT]


def _cause_with_snapshots() -> Column:
    """Return the cause of an unreadable payload; for a snapshot the cause says so."""
    cause = F.when(
        F.col("event").isNull(), F.lit("snapshot_data is empty; the column snapshot is not read")
    ).otherwise(F.col("cause"))
    snapshot_cause = F.concat(F.lit(SNAPSHOT), cause)
    return F.when(F.col("cause").isNotNull() & F.col(IS_SNAPSHOT), snapshot_cause).otherwise(
        F.col("cause")
    )


def _is_readable() -> Column:
    return _source("cause").isNull() & ~_source("skipped")


def _source(name: str) -> Column:
    return F.col(f"{SOURCE_COLUMN}.{name}")
