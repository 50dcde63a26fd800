"""The rows that the tag views should have, as pure transformations.

`tidemark.numbering` numbers them, from events, rows and progress. An event that was lost from
messages, or that lost its tags or payload, and still has its row, counts as if it were present:
readers must find every number, and the row may be the only copy of its content.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko.series import SERIES
from tidemark.journals.pekko.shapes import (
    DELETED,
    EVENT,
    MESSAGE_KEYS,
    MESSAGES,
    PROGRESS,
    SCANNING,
    TAG_ROWS,
    WRITE_PROGRESS,
)
from tidemark.numbering import rule
from tidemark.numbering import shapes as numbering_shapes
from tidemark.spark.shapes import shaped
from tidemark.validate.tag_views import shapes

TAGGED_EVENT = [*SERIES, "sequence_nr", "timestamp"]
_EVENT = ["persistence_id", "sequence_nr"]
REMOVED = 2**63 - 1
"""deleted_to of a persistence id that was removed permanently; no sequence nr is as high."""


@shaped(
    index=MESSAGES,
    rows=TAG_ROWS,
    progress=WRITE_PROGRESS,
    deleted_rows=TAG_ROWS,
    lost_rows=TAG_ROWS,
    returns=shapes.POINTS,
)
def points(
    index: DataFrame,
    rows: DataFrame,
    progress: DataFrame,
    deleted_rows: DataFrame,
    lost_rows: DataFrame,
) -> DataFrame:
    """Return the points of the rule: events, rows and progress.

    `rows`: all rows; those of no event are ignored. `deleted_rows`: `rows_of_deleted_events`.
    `lost_rows`: `rows_of_lost_events`.
    """
    event = (
        *("persistence_id", "sequence_nr", "timestamp", "ticks"),
        F.col("time_bucket").alias("expected_time_bucket"),
    )
    row_events = deleted_rows.select(*event, "tag", F.lit(None).cast("boolean").alias("is_lost"))
    row_events = row_events.unionByName(
        lost_rows.select(*event, "tag", F.lit(True).alias("is_lost"))
    )
    present = index.select(*_EVENT, F.lit(True).alias("is_present")).distinct()
    only_rows = (
        row_events.dropDuplicates(TAGGED_EVENT)
        .join(present, on=_EVENT, how="left")
        .withColumn("is_present", F.coalesce("is_present", F.lit(False)))
    )
    tagged = _tagged(index, event).withColumn("is_present", F.lit(True))
    entries = tagged.unionByName(only_rows, allowMissingColumns=True)
    rows_of_entries = rows.join(
        entries.where(F.col("tag").isNotNull()).select(*TAGGED_EVENT),
        on=TAGGED_EVENT,
        how="left_semi",
    )
    return rule.points(
        entries,
        rows_of_entries.withColumnRenamed("tag_pid_sequence_nr", "number"),
        progress.select(
            *SERIES,
            F.col("progress_sequence_nr").alias("sequence_nr"),
            F.col("progress_number").alias("number"),
        ),
    )


@shaped(numbered=numbering_shapes.NUMBERED, returns=shapes.RANKED)
def expected_rows(numbered: DataFrame) -> DataFrame:
    """Return a row for each (event, tag) of messages, and of `rows_of_lost_events`."""
    is_expected = (F.col("kind") == rule.ENTRY) & F.col("is_lost").isNotNull()
    return numbered.where(is_expected & F.col("tag").isNotNull()).select(
        *TAGGED_EVENT,
        "ticks",
        "expected_time_bucket",
        "expected_number",
        "is_lost",
        F.coalesce("is_pending", F.lit(False)).alias("is_pending"),
    )


@shaped(numbered=numbering_shapes.NUMBERED, returns=shapes.REACHED)
def reached(numbered: DataFrame) -> DataFrame:
    """Return the number that each progress should have at the event that it names."""
    return numbered.where(F.col("kind") == rule.PROGRESS).select(
        *SERIES,
        F.col("is_present").alias("is_event_there"),
        F.col("expected_number").alias("reached_number"),
    )


def _tagged(index: DataFrame, event: Sequence[str | Column]) -> DataFrame:
    """Return each event under each of its tags, also `pending_tags`, or once without a tag."""
    is_lost = F.lit(False).alias("is_lost")
    if "pending_tags" not in index.columns:
        is_pending = F.lit(False).alias("is_pending")
        return index.select(*event, F.explode_outer("tags").alias("tag"), is_lost, is_pending)
    no_tags = F.array().cast("array<string>")
    pending = F.coalesce("pending_tags", no_tags)
    all_tags = F.explode_outer(F.concat(F.coalesce("tags", no_tags), pending))
    exploded = index.withColumns({"tag": all_tags, "pending": pending})
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
    """Return the persistence ids that only the tag tables still have, with deleted_to REMOVED.

    Cleanup leaves an id in this state if it shall never be used again: it deletes messages and
    metadata, but nothing of the tags. The rows are the only copy of events that readers may not
    have read yet. Source: docs/real-systems.md, "Deletes and tools", `deleteAllEvents`. The frames
    of the tag tables were read before those of messages and metadata (`known`).
    """
    tag_ids = reduce(DataFrame.unionByName, (frame.select("persistence_id") for frame in tagged))
    present = reduce(DataFrame.unionByName, (frame.select("persistence_id") for frame in known))
    removed = tag_ids.distinct().join(present, on="persistence_id", how="left_anti")
    return removed.withColumn("deleted_to", F.lit(REMOVED))


@shaped(rows=TAG_ROWS, index=EVENT, deleted=DELETED, returns=TAG_ROWS)
def rows_of_deleted_events(rows: DataFrame, index: DataFrame, deleted: DataFrame) -> DataFrame:
    """Return the tag-view rows of deleted first events; Pekko does not delete such rows."""
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
    ruled_tags: Collection[str] = (),
) -> DataFrame:
    """Return the tag-view rows of events that messages has lost, with or without their content.

    Events in the middle are never deleted, so an event missing before other events was lost. Only
    progress and scanning show that there was an event after the last event. Of an unreadable event
    the row may be the only copy.
    """
    parts = [
        _rows_in_holes(rows, index, deleted),
        _rows_of_untagged_events(rows, index, ruled_tags),
        _rows_of_lost_tails(rows, index, progress, scanning, deleted),
        _rows_of_unreadable_events(rows, index),
    ]
    return reduce(DataFrame.unionByName, parts)


def _rows_of_untagged_events(
    rows: DataFrame, index: DataFrame, ruled_tags: Collection[str]
) -> DataFrame:
    """Return the rows of events without any tag, under tags that no rule gives.

    The plugin's migration to its release 1.0 kept the tags of older events in their rows only.
    """
    has_no_tags = F.coalesce(F.size("tags") < 1, F.lit(True)) & F.col("cause").isNull()
    if "pending_tags" in index.columns:
        has_no_tags &= F.coalesce(F.size("pending_tags") < 1, F.lit(True))
    untagged = index.where(has_no_tags & F.col("has_payload")).select(*_EVENT, "timestamp")
    writers_rows = rows.where(~F.col("tag").isin(*ruled_tags))
    return writers_rows.join(untagged, on=untagged.columns, how="left_semi").select(*rows.columns)


def _rows_of_unreadable_events(rows: DataFrame, index: DataFrame) -> DataFrame:
    is_unreadable = ~F.col("has_payload") | F.col("cause").isNotNull()
    unreadable = index.where(is_unreadable).select(*_EVENT, "timestamp")
    return rows.join(unreadable, on=unreadable.columns, how="left_semi").select(*rows.columns)


def _rows_of_lost_tails(
    rows: DataFrame,
    index: DataFrame,
    progress: DataFrame,
    scanning: DataFrame,
    deleted: DataFrame,
) -> DataFrame:
    """Return the rows after the last event in messages, up to the last event of any other table.

    Later rows have never had an event. All rows of an id without messages and metadata are left
    out: Cleanup has removed it permanently.
    """
    last = sequence_ends(index).select("persistence_id", "highest_sequence_nr")
    written = progress.groupBy("persistence_id").agg(F.max("progress_sequence_nr").alias("written"))
    with_limits = rows
    for frame in (last, deleted, written, scanning):
        with_limits = with_limits.join(frame, on="persistence_id", how="left")
    reached = F.greatest("highest_sequence_nr", "deleted_to")
    is_lost = (F.col("sequence_nr") > reached) & (
        F.col("sequence_nr") <= F.greatest("written", "scanned_to")
    )
    return with_limits.where(is_lost).select(*rows.columns)


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
        .join(index.select(*_EVENT), on=_EVENT, how="left_anti")
        .select(*rows.columns)
    )
