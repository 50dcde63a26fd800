"""The rows of the tag views, and how far they are complete, as pure transformations.

Numbering. The tag pid sequence nr of an event counts the events of its persistence id that carry
the tag, in sequence nr order, from 1. Where a row of tag_write_progress exists, the count is
anchored there: events after it continue from its number, events before it count down from it. So
the number of an event does not depend on which windows were processed, in which order or how
often, nor on messages deleted from the front. Source: facts pekko-cassandra §3 and §4.

Completeness. tag_write_progress and tag_scanning may lag, never lead: an actor skips every event
up to them when it recovers. So they only move over events whose time bucket is covered (done
before, or in this run), and stop before the first tagged event that is neither covered nor
already behind the progress.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.journal.tables import PAYLOAD_COLUMNS

_TAGGED = ["persistence_id", "tag"]
_EVENT_ORDER = ["sequence_nr", "ticks"]
_NEVER_NULL = ("event", "ser_id")
REFUSED = "tidemark refuses: "
"""How the message of an error begins that a transformation raises inside a Spark job."""


def number_tagged(index: DataFrame, progress: DataFrame) -> DataFrame:
    """One row for each (event, tag), and one with a null tag for each untagged event.

    Columns in: those of `journal.frames.message_index` and `journal.frames.write_progress`.
    Columns out: persistence_id, sequence_nr, timestamp, ticks, time_bucket, tag, tag_position
    (0 for an event's first tag, null when untagged), progress_sequence_nr, tag_pid_sequence_nr
    (bigint; null when untagged; below 1 if the progress contradicts the messages).
    """
    tagged = index.select(
        "persistence_id",
        "sequence_nr",
        "timestamp",
        "ticks",
        "time_bucket",
        F.posexplode_outer("tags").alias("tag_position", "tag"),
    ).join(progress, on=_TAGGED, how="left")
    to_here = (
        Window.partitionBy(*_TAGGED)
        .orderBy(*_EVENT_ORDER)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    whole = Window.partitionBy(*_TAGGED).rowsBetween(
        Window.unboundedPreceding, Window.unboundedFollowing
    )
    is_behind_progress = F.col("sequence_nr") <= F.col("progress_sequence_nr")
    counted = tagged.withColumn("rank", F.row_number().over(to_here).cast("bigint"))
    anchored = counted.withColumn(
        "rank_at_progress", F.max(F.when(is_behind_progress, F.col("rank"))).over(whole)
    )
    number = (
        F.coalesce(F.col("progress_number"), F.lit(0))
        - F.coalesce(F.col("rank_at_progress"), F.lit(0))
        + F.col("rank")
    )
    return anchored.withColumn(
        "tag_pid_sequence_nr", F.when(F.col("tag").isNotNull(), number)
    ).drop("rank", "rank_at_progress", "progress_number")


def mark_covered(numbered: DataFrame, buckets: DataFrame) -> DataFrame:
    """Add what a run may rely on.

    Columns in: those of `number_tagged`; `buckets` has time_bucket (bigint, unique) and
    is_planned (boolean): the buckets of this run, and those done before.
    Columns out: and is_covered (the bucket is in `buckets`), is_planned (it is of this run),
    is_open (a tagged event neither covered nor behind its progress).
    """
    marked = numbered.join(F.broadcast(buckets), on="time_bucket", how="left").withColumn(
        "is_covered", F.col("is_planned").isNotNull()
    )
    is_open = F.col("tag").isNotNull() & ~F.col("is_covered") & ~_is_written()
    return marked.withColumns(
        {"is_planned": F.coalesce(F.col("is_planned"), F.lit(False)), "is_open": is_open}
    )


def to_write(marked: DataFrame) -> DataFrame:
    """The (event, tag) rows to write: all of this run's buckets, and late ones of covered buckets.

    A late event became visible after its bucket was done; it is recognised by the progress, which
    it lies beyond. Columns: those of `mark_covered`.
    """
    is_late = F.col("is_covered") & ~_is_written()
    return marked.where(F.col("tag").isNotNull() & (F.col("is_planned") | is_late))


def tag_view_rows(rows: DataFrame, messages: DataFrame) -> DataFrame:
    """The rows of tag_views, column by column as Pekko's TagWriter writes them.

    Columns in: those of `to_write`, and of `journal.frames.messages_between`.
    Columns out: tag_name, timebucket, timestamp, persistence_id, tag_pid_sequence_nr, sequence_nr
    and the payload columns. Fails in the job, with a message that begins with REFUSED, at
    an event without a payload, which would make every reader of the tag fail.
    """
    keys = rows.select(
        "persistence_id", "sequence_nr", "timestamp", "tag", "tag_pid_sequence_nr", "time_bucket"
    )
    payload = messages.select("persistence_id", "sequence_nr", "timestamp", *PAYLOAD_COLUMNS)
    joined = keys.join(payload, on=["persistence_id", "sequence_nr", "timestamp"], how="inner")
    return joined.select(
        F.col("tag").alias("tag_name"),
        F.col("time_bucket").alias("timebucket"),
        "timestamp",
        "persistence_id",
        "tag_pid_sequence_nr",
        "sequence_nr",
        *[_required(name) if name in _NEVER_NULL else F.col(name) for name in PAYLOAD_COLUMNS],
    )


def progress_rows(marked: DataFrame) -> DataFrame:
    """The rows of tag_write_progress that move forward.

    Columns in: those of `mark_covered`. Columns out: persistence_id, tag, sequence_nr,
    tag_pid_sequence_nr, offset: the last event before the first open one of that id and tag.
    """
    tagged = marked.where(F.col("tag").isNotNull())
    moved = _before_first_open(tagged, _TAGGED).where(~_is_written())
    last = F.max(F.struct(*_EVENT_ORDER, "tag_pid_sequence_nr", "timestamp")).alias("last")
    return (
        moved.groupBy(*_TAGGED)
        .agg(last)
        .select(
            *_TAGGED,
            "last.sequence_nr",
            "last.tag_pid_sequence_nr",
            F.col("last.timestamp").alias("offset"),
        )
    )


def scanning_rows(marked: DataFrame, scanning: DataFrame) -> DataFrame:
    """The rows of tag_scanning that move forward.

    Columns in: those of `mark_covered` and `journal.frames.scanning`. Columns out:
    persistence_id, sequence_nr: the highest covered event, tagged or not, before the first open
    one of that id.
    """
    reached = (
        _before_first_open(marked, ["persistence_id"])
        .groupBy("persistence_id")
        .agg(F.max("sequence_nr").alias("sequence_nr"))
    )
    is_ahead = F.col("scanned_to").isNull() | (F.col("sequence_nr") > F.col("scanned_to"))
    return (
        reached.join(scanning, on="persistence_id", how="left")
        .where(is_ahead)
        .select("persistence_id", "sequence_nr")
    )


def counts_by_bucket(marked: DataFrame) -> DataFrame:
    """What there is to do in each covered bucket that has something to do.

    Columns in: those of `mark_covered`. Columns out: time_bucket, events_read, tag_rows_written,
    late_tag_rows (those among them that lie outside this run's buckets), lowest_number.
    """
    has_row = F.col("tag").isNotNull() & (F.col("is_planned") | ~_is_written())
    is_event = F.coalesce(F.col("tag_position"), F.lit(0)) == 0
    return (
        marked.where(F.col("is_covered"))
        .groupBy("time_bucket")
        .agg(
            F.count(F.when(is_event & F.col("is_planned"), True)).alias("events_read"),
            F.count(F.when(has_row, True)).alias("tag_rows_written"),
            F.count(F.when(has_row & ~F.col("is_planned"), True)).alias("late_tag_rows"),
            F.min(F.when(has_row, F.col("tag_pid_sequence_nr"))).alias("lowest_number"),
        )
        .where((F.col("events_read") > 0) | (F.col("tag_rows_written") > 0))
    )


def _is_written() -> Column:
    return F.coalesce(F.col("sequence_nr") <= F.col("progress_sequence_nr"), F.lit(False))


def _before_first_open(marked: DataFrame, key: list[str]) -> DataFrame:
    whole = Window.partitionBy(*key).rowsBetween(
        Window.unboundedPreceding, Window.unboundedFollowing
    )
    first_open = F.min(F.when(F.col("is_open"), F.col("sequence_nr"))).over(whole)
    is_before = F.col("first_open").isNull() | (F.col("sequence_nr") < F.col("first_open"))
    return marked.withColumn("first_open", first_open).where(F.col("is_covered") & is_before)


def _required(name: str) -> Column:
    event = F.concat_ws(" ", F.lit(f"{REFUSED}{name} is null:"), "persistence_id", "sequence_nr")
    return F.coalesce(F.col(name), F.raise_error(event)).alias(name)
