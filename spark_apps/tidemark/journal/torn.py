"""Reads of messages of which a delete that went on meanwhile left only some."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journal.shapes import DELETED, EVENT, SPANS
from tidemark.spark.shapes import shaped


@shaped(events=EVENT, returns=SPANS)
def spans(events: DataFrame) -> DataFrame:
    """Return the range of sequence nrs that was read of each persistence id.

    The events have the column tag_position if they are repeated for their tags, and those do not
    count as events that have a true `is_unreadable`.
    """
    is_event = F.lit(True)
    if "tag_position" in events.columns:
        is_event = F.coalesce(F.col("tag_position"), F.lit(0)) == 0
    if "is_unreadable" in events.columns:
        is_event &= ~F.col("is_unreadable")
    return events.groupBy("persistence_id").agg(
        F.min("sequence_nr").alias("lowest"),
        F.max("sequence_nr").alias("highest"),
        F.count(F.when(is_event, True)).alias("events"),
    )


@shaped(events=EVENT, spans_read=SPANS, deleted=DELETED, returns=DELETED)
def torn(events: DataFrame, spans_read: DataFrame, deleted: DataFrame) -> DataFrame:
    """Return the persistence ids of which a concurrent delete left only some messages in the read.

    An actor writes to metadata up to where it deletes before it deletes (docs/real-systems.md,
    "Deletes and tools"). So no message that is missing for that reason lies beyond the deleted_to
    that metadata has after the read.

    `deleted` must be read after the messages.
    """
    cut = (
        spans_read.where(F.col("events") <= F.col("highest") - F.col("lowest"))
        .join(deleted, on="persistence_id")
        .where(F.col("lowest") <= F.col("deleted_to"))
    )
    behind = events.join(cut, on="persistence_id").where(
        F.col("sequence_nr") <= F.col("deleted_to")
    )
    wanted = F.least("deleted_to", "highest") - F.col("lowest") + 1
    return (
        behind.groupBy("persistence_id", "deleted_to", wanted.alias("wanted"))
        .agg(F.count_distinct("sequence_nr").alias("present"))
        .where(F.col("present") < F.col("wanted"))
        .select("persistence_id", "deleted_to")
    )


@shaped(events=EVENT, torn_ids=DELETED, returns=EVENT)
def without_torn(events: DataFrame, torn_ids: DataFrame) -> DataFrame:
    """Return the events as a read after those deletes would have found them.

    All columns of the events are kept.
    """
    return (
        events.join(F.broadcast(torn_ids), on="persistence_id", how="left")
        .where(F.col("deleted_to").isNull() | (F.col("sequence_nr") > F.col("deleted_to")))
        .select(*events.columns)
    )
