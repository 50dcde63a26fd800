"""The rows that the tag views should hold, as pure transformations.

Numbering. The tag pid sequence nr of an event is base + rank: rank counts the remaining events of
its persistence id that carry the tag, in sequence nr order, from 1. The base is 0 while the id's
first event is in messages. After that the numbers are only known from what was written before:
the base is the number that most existing rows of remaining events agree on, else the one that
tag_write_progress tells; and never lower than the highest number of a deleted event's row, so that
no number is given twice. Source: docs/real-systems.md, "What an actor writes" and "How an actor
recovers".

An event that is lost from messages, and still has its row, counts as if it were there: readers must
find every number, and the row may be the only copy of the event.

The base does not change when the rows that it disagrees with are put right, so what repair makes
is what check expects.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.continuity.tag_views import shapes
from tidemark.journal.series import SERIES
from tidemark.journal.shapes import (
    DELETED,
    EVENT,
    MESSAGE_KEYS,
    MESSAGES,
    PROGRESS,
    SCANNING,
    TAG_ROWS,
    WRITE_PROGRESS,
)
from tidemark.spark.shapes import shaped

TAGGED_EVENT = [*SERIES, "sequence_nr", "timestamp"]
REMOVED = 2**63 - 1
"""deleted_to of a persistence id that was removed for good; no sequence nr is as high."""


@shaped(
    index=MESSAGES,
    rows=TAG_ROWS,
    progress=WRITE_PROGRESS,
    gone=TAG_ROWS,
    lost=TAG_ROWS,
    returns=shapes.RANKED,
)
def expected_rows(
    index: DataFrame, rows: DataFrame, progress: DataFrame, gone: DataFrame, lost: DataFrame
) -> DataFrame:
    """Return one row for each (event, tag) of messages, and of `rows_of_lost_events`."""
    order = Window.partitionBy(*SERIES).orderBy("sequence_nr", "ticks")
    event = (
        *("persistence_id", "sequence_nr", "timestamp", "ticks"),
        F.col("time_bucket").alias("expected_time_bucket"),
    )
    tagged = _tagged(index, event)
    only_rows = (
        lost.select(*event, "tag", F.lit(True).alias("is_lost"), "tag_pid_sequence_nr")
        .groupBy(*TAGGED_EVENT, "ticks", "expected_time_bucket", "is_lost")
        .agg(F.max("tag_pid_sequence_nr").alias("own_number"))
    )
    ends = sequence_ends(index)
    ranked = tagged.unionByName(only_rows, allowMissingColumns=True).withColumn(
        "rank", F.row_number().over(order).cast("bigint")
    )
    headless = ends.where(F.col("lowest_sequence_nr") > 1)
    bases = _bases(
        ranked.join(headless, on="persistence_id", how="left_semi"), rows, progress, gone
    )
    is_of_tail = F.col("sequence_nr") > F.coalesce("highest_sequence_nr", F.lit(0))
    counted = F.coalesce("base", F.lit(0)) + F.col("rank")
    return (
        ranked.join(bases, on=[*SERIES], how="left")
        .join(ends, on="persistence_id", how="left")
        .select(
            *TAGGED_EVENT,
            "ticks",
            "expected_time_bucket",
            # Behind the last event nothing is counted: there the rows tell the numbers.
            F.when(is_of_tail, F.col("own_number")).otherwise(counted).alias("expected_number"),
            "is_lost",
            F.coalesce("is_pending", F.lit(False)).alias("is_pending"),
        )
    )


def _tagged(index: DataFrame, event: Sequence[str | Column]) -> DataFrame:
    """Return a row for each tag of each event, those of `pending_tags` as well."""
    is_lost = F.lit(False).alias("is_lost")
    if "pending_tags" not in index.columns:
        is_pending = F.lit(False).alias("is_pending")
        return index.select(*event, F.explode("tags").alias("tag"), is_lost, is_pending)
    none = F.array().cast("array<string>")
    pending = F.coalesce("pending_tags", none)
    both = F.explode(F.concat(F.coalesce("tags", none), pending))
    exploded = index.withColumns({"tag": both, "pending": pending})
    return exploded.select(
        *event, "tag", is_lost, F.array_contains("pending", F.col("tag")).alias("is_pending")
    )


@shaped(index=EVENT, returns=shapes.SEQUENCE_ENDS)
def sequence_ends(index: DataFrame) -> DataFrame:
    """Return the lowest and highest sequence nr of each persistence id in messages."""
    return index.groupBy("persistence_id").agg(
        F.min("sequence_nr").alias("lowest_sequence_nr"),
        F.max("sequence_nr").alias("highest_sequence_nr"),
    )


@shaped(returns=DELETED)
def removed_ids(tagged: Sequence[DataFrame], known: Sequence[DataFrame]) -> DataFrame:
    """Return the persistence ids that only the tag tables still have, as if deleted to the end.

    Cleanup leaves an id in this state if it shall never be used again: it deletes messages and
    metadata, and nothing of the tags. The rows are the only copy of events that readers may not
    have read yet. Source: docs/real-systems.md, "Deletes and tools", `deleteAllEvents`.

    Args:
        tagged: frames of the tag tables with persistence_id, read before the others.
        known: frames of messages and metadata with persistence_id.
    """
    named = reduce(DataFrame.unionByName, (frame.select("persistence_id") for frame in tagged))
    held = reduce(DataFrame.unionByName, (frame.select("persistence_id") for frame in known))
    removed = named.distinct().join(held, on="persistence_id", how="left_anti")
    return removed.withColumn("deleted_to", F.lit(REMOVED))


@shaped(rows=TAG_ROWS, index=EVENT, deleted=DELETED, returns=TAG_ROWS)
def rows_of_deleted_events(rows: DataFrame, index: DataFrame, deleted: DataFrame) -> DataFrame:
    """Return the tag-view rows whose events were deleted from the front; Pekko leaves such rows."""
    is_before_messages = F.col("lowest_sequence_nr").isNull() | (
        F.col("sequence_nr") < F.col("lowest_sequence_nr")
    )
    return (
        rows.join(deleted, on="persistence_id", how="inner")
        .where(F.col("sequence_nr") <= F.col("deleted_to"))
        .join(sequence_ends(index), on="persistence_id", how="left")
        .where(is_before_messages)
        .select(*rows.columns)
    )


@shaped(
    rows=TAG_ROWS,
    index={**MESSAGE_KEYS, "cause": "string", "has_payload": "boolean"},
    progress=PROGRESS,
    scanning=SCANNING,
    deleted=DELETED,
    returns=TAG_ROWS,
)
def rows_of_lost_events(
    rows: DataFrame,
    index: DataFrame,
    progress: DataFrame,
    scanning: DataFrame,
    deleted: DataFrame,
) -> DataFrame:
    """Return the tag-view rows whose events, or what they held, have been lost from messages.

    Nobody deletes in the middle, so what is missing before other events has been lost. Behind the
    last event only progress and scanning tell that there has been one. Of an event that no reader
    can read any more, the row may have the only copy.
    """
    parts = [
        _rows_in_holes(rows, index, deleted),
        _rows_of_lost_tails(rows, index, progress, scanning, deleted),
        _rows_of_unreadable_events(rows, index),
    ]
    return reduce(DataFrame.unionByName, parts)


def _rows_of_unreadable_events(rows: DataFrame, index: DataFrame) -> DataFrame:
    event = ["persistence_id", "sequence_nr", "timestamp"]
    unreadable = index.where(~F.col("has_payload") | F.col("cause").isNotNull()).select(event)
    return rows.join(unreadable, on=event, how="left_semi").select(*rows.columns)


def _rows_of_lost_tails(
    rows: DataFrame,
    index: DataFrame,
    progress: DataFrame,
    scanning: DataFrame,
    deleted: DataFrame,
) -> DataFrame:
    """Return the rows behind the last event of messages that another table knows of.

    Rows behind what any table knows are of events that never were. All rows of an id of which
    messages and metadata know nothing are left out: Cleanup has removed it for good.
    """
    last = sequence_ends(index).select("persistence_id", "highest_sequence_nr")
    written = progress.groupBy("persistence_id").agg(F.max("progress_sequence_nr").alias("written"))
    known = rows
    for frame in (last, deleted, written, scanning):
        known = known.join(frame, on="persistence_id", how="left")
    reached = F.greatest("highest_sequence_nr", "deleted_to")
    is_lost = (F.col("sequence_nr") > reached) & (
        F.col("sequence_nr") <= F.greatest("written", "scanned_to")
    )
    return known.where(is_lost).select(*rows.columns)


def _rows_in_holes(rows: DataFrame, index: DataFrame, deleted: DataFrame) -> DataFrame:
    deleted_to = F.coalesce("deleted_to", F.lit(0))
    holes = (
        index.join(deleted, on="persistence_id", how="left")
        .where(F.col("sequence_nr") > deleted_to)
        .groupBy("persistence_id", deleted_to.alias("before_first"))
        .agg(F.max("sequence_nr").alias("last"), F.count_distinct("sequence_nr").alias("events"))
        .where(F.col("events") < F.col("last") - F.col("before_first"))
    )
    return (
        rows.join(holes, on="persistence_id", how="inner")
        .where(
            (F.col("sequence_nr") > F.col("before_first")) & (F.col("sequence_nr") < F.col("last"))
        )
        .join(
            index.select("persistence_id", "sequence_nr"),
            on=["persistence_id", "sequence_nr"],
            how="left_anti",
        )
        .select(*rows.columns)
    )


def _bases(ranked: DataFrame, rows: DataFrame, progress: DataFrame, gone: DataFrame) -> DataFrame:
    """Return the base of each series whose front was deleted."""
    by_rows = _base_that_most_rows_agree_on(ranked, rows)
    by_progress = _base_that_progress_tells(ranked, progress)
    highest_gone = gone.groupBy(*SERIES).agg(F.max("tag_pid_sequence_nr").alias("gone_number"))
    known = F.coalesce("agreed_base", "progress_base", F.lit(0))
    return (
        ranked.select(*SERIES)
        .distinct()
        .join(by_rows, on=[*SERIES], how="left")
        .join(by_progress, on=[*SERIES], how="left")
        .join(highest_gone, on=[*SERIES], how="left")
        .select(*SERIES, F.greatest(known, "gone_number", F.lit(0)).alias("base"))
    )


def _base_that_most_rows_agree_on(ranked: DataFrame, rows: DataFrame) -> DataFrame:
    """Return the base that most rows agree on; of two with as many rows, the smaller."""
    base = F.col("tag_pid_sequence_nr") - F.col("rank")
    most = F.min(F.struct((-F.col("count")).alias("votes"), "agreed_base"))
    return (
        ranked.join(rows.select(*TAGGED_EVENT, "tag_pid_sequence_nr"), on=TAGGED_EVENT, how="inner")
        .groupBy(*SERIES, base.alias("agreed_base"))
        .count()
        .groupBy(*SERIES)
        .agg(most["agreed_base"].alias("agreed_base"))
    )


def _base_that_progress_tells(ranked: DataFrame, progress: DataFrame) -> DataFrame:
    is_behind = F.col("sequence_nr") <= F.col("progress_sequence_nr")
    rank_there = F.coalesce(F.max(F.when(is_behind, F.col("rank"))), F.lit(0))
    return (
        ranked.join(progress, on=[*SERIES], how="inner")
        .groupBy(*SERIES)
        .agg((F.first("progress_number") - rank_there).alias("progress_base"))
    )
