"""The rows of messages: which are events, whatever plugin wrote them, and which count as deleted.

Before an actor deletes, it writes `deleted_to` to metadata, and it replays only later events
(docs/real-systems.md, "Deletes and tools"). So every message at or below deleted_to counts as
deleted: a delete is in progress or was interrupted, or deleted_to is wrong (`deleted_to_ahead`).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko import shapes, tables
from tidemark.journals.pekko.shapes import DELETED, EVENT
from tidemark.spark.shapes import shaped


def older_columns(payload: Sequence[str], *, with_has_payload: bool) -> Sequence[str]:
    """Return the columns of older plugins that a read of events needs, if they exist."""
    wants_payload = with_has_payload or "event" in payload
    return (*tables.OLDER_TAGS, *([tables.OLDER_PAYLOAD] if wants_payload else []))


def is_event() -> Column:
    """Return whether a row of messages is an event, see `tables.OF_EVENTS`."""
    # IS NOT NULL does not work: the connector drops it, since a key column has no nulls.
    return F.coalesce("sequence_nr", F.lit(-1)) >= 0


def as_newer(events: DataFrame, *, with_has_payload: bool) -> DataFrame:
    """Return the events of any plugin in the form of newer plugins."""
    if older_tags := [name for name in tables.OLDER_TAGS if name in events.columns]:
        stored = F.coalesce("tags", F.array().cast("array<string>"))
        all_tags = F.array_compact(F.array_union(stored, F.array(*older_tags)))
        events = events.withColumn("tags", F.when(F.size(all_tags) > 0, F.array_sort(all_tags)))
    if tables.OLDER_PAYLOAD in events.columns:
        has_older = F.col(tables.OLDER_PAYLOAD).isNotNull()
        events = events.withColumn(shapes.HAS_OLDER_PAYLOAD, has_older)
    if with_has_payload:
        # A null cell has no write time, and eight bytes are cheaper than a payload.
        has_payload = F.col("write_time").isNotNull()
        if tables.OLDER_PAYLOAD in events.columns:
            has_payload |= F.col(shapes.HAS_OLDER_PAYLOAD)
        events = events.withColumn("has_payload", has_payload)
    return events.drop(*tables.OLDER_TAGS, tables.OLDER_PAYLOAD, "write_time")


@shaped(messages=EVENT, deleted=DELETED, returns=EVENT)
def undeleted(messages: DataFrame, deleted: DataFrame) -> DataFrame:
    """Return the messages above deleted_to: the same frame, unless some of them are deleted.

    `messages` are in memory, with any further columns; `deleted` is as in `with_deleted_messages`,
    and read once, whatever is deleted later.
    """
    ids = with_deleted_messages(messages, deleted).localCheckpoint()
    return messages if ids.isEmpty() else without_deleted_messages(messages, ids)


@shaped(messages=EVENT, deleted=DELETED, returns=DELETED)
def with_deleted_messages(messages: DataFrame, deleted: DataFrame) -> DataFrame:
    """Return the persistence ids that have a message at or below deleted_to, with deleted_to.

    `deleted` must be read after the messages: it then also covers messages that a concurrent delete
    has left in that read.
    """
    return (
        messages.groupBy("persistence_id")
        .agg(F.min("sequence_nr").alias("lowest"))
        .join(deleted, on="persistence_id")
        .where(F.col("lowest") <= F.col("deleted_to"))
        .select("persistence_id", "deleted_to")
    )


@shaped(messages=EVENT, ids=DELETED, returns=EVENT)
def without_deleted_messages(messages: DataFrame, ids: DataFrame) -> DataFrame:
    """Return the messages above deleted_to.

    `ids` are those of `with_deleted_messages`. All columns of the messages are kept.
    """
    return (
        messages.join(ids, on="persistence_id", how="left")
        .where(F.col("deleted_to").isNull() | (F.col("sequence_nr") > F.col("deleted_to")))
        .select(*messages.columns)
    )
