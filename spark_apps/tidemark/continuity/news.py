"""What is new of a journal, with the little around it that shows whether it is whole.

What a finding in a time bucket depends on is not the history, but

- the events of the bucket, and of each the one before it and all others with its sequence nr;
- the events that progress and scanning tell of;
- the rows of the bucket, and of each series the one before its first.

All of it is asked for by key, so that the cost is that of what is new. The events of a bucket are
found by the index on their time: without one they could have any sequence nr, as those of a second
writer do that goes on where it was when the first one took over.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.context import RunContext
from tidemark.continuity import read, tag_sequence, tails, unwritable
from tidemark.continuity.all_findings import JournalKeys, suspicions
from tidemark.continuity.checks import TAG_PID_SEQUENCE_NR_DUPLICATE
from tidemark.continuity.plan import Owed
from tidemark.journal import frames, increments, tables
from tidemark.ledger.pieces import Piece, Reason
from tidemark.ledger.purged import Removed, removed
from tidemark.partitioning import columns
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.tagging import events, rules
from tidemark.tagging.plan import FEW_EVENTS
from tidemark.text import counted
from tidemark.window import to_millis

NEWS_SHARE = 4
"""A scan is cheaper than asking by key for more than one time bucket in so many."""
_SERIES = ["persistence_id", "tag"]


@dataclass(frozen=True)
class News:
    """What a look at the news has seen; its frames are in memory.

    Attributes:
        events: the events of the time buckets, columns of `journal.frames.message_index`.
        rows: their rows, columns of `journal.frames.tag_view_keys`.
        doubt: why everything must be looked at, for people; empty if the buckets are whole.
    """

    events: DataFrame
    rows: DataFrame
    doubt: str


def reason_for_everything(run: RunContext, pieces: Sequence[Piece], passed: Collection[int]) -> str:
    """Why a look at the news would not do, or not be cheaper; empty if it would.

    Args:
        run: the application's frame.
        pieces: what is planned.
        passed: the time buckets that have passed before, epoch ms.
    """
    if not tables.has_time_index(run.control, run.settings):
        return "messages has no index on its timestamp"
    if any(piece.reason is Reason.FORCED for piece in pieces):
        return "time buckets are forced"
    if max(passed, default=pieces[0].time_bucket) >= pieces[0].time_bucket:
        return "time buckets after the first of these have passed, or none has yet"
    if len(pieces) * NEWS_SHARE > len(passed):
        return f"{counted(len(pieces), 'time bucket')} of {len(pieces) + len(passed)} are new"
    scanning = frames.scanning(run.spark, run.settings)
    size = scanning.agg(F.count("*").alias("ids"), F.sum("scanned_to").alias("events")).collect()[0]
    if size["ids"] and size["events"] < FEW_EVENTS * size["ids"]:
        return f"{size['ids']:,} persistence ids hold {size['events']:,} events"
    return ""


def look(
    run: RunContext, buckets: Sequence[int], tag_rules: Sequence[rules.Rule], owed: Owed
) -> News:
    """Read what is new, in the order of `read`, and judge it.

    Args:
        run: the application's frame.
        buckets: time buckets without one between them that has passed, epoch ms.
        tag_rules: the tag rules.
        owed: what tag-write owes.
    """
    spark, settings = run.spark, run.settings
    progress = frames.placed_progress(spark, settings).localCheckpoint()
    scanning = frames.scanning(spark, settings).localCheckpoint()
    new = _events(run, buckets, tag_rules).localCheckpoint()
    told = told_of(progress, scanning, buckets).localCheckpoint()
    around = _around(new, told, settings)
    rows = frames.tag_view_keys_of(partitions(new, progress, buckets), settings).localCheckpoint()
    first = first_rows(rows).localCheckpoint()
    known = tails.known_of(first, settings).localCheckpoint()
    gone = removed(run.control, settings, to_millis(clock.now()))
    absent = tag_sequence.absent_events(new, rows, gone, owed).localCheckpoint()
    settled = unwritable.settled_events(absent, run.control, settings)
    keys = JournalKeys(
        around,
        rows.unionByName(_as_they_are(preceding(first, known), gone, settings)),
        progress,
        scanning,
        deleted=frames.deleted(spark, settings),
        listed=read.listed(spark, settings, run.control),
        unwritable=unwritable.unwritable_events(absent, buckets, settings, tag_rules, settled),
    )
    doubt = _doubt(suspicions(keys, absent, gone, buckets), overlapping(first, known))
    return News(new, rows, doubt)


def told_of(progress: DataFrame, scanning: DataFrame, buckets: Collection[int]) -> DataFrame:
    """The events that progress in those time buckets, and scanning, know of.

    Columns in: those of `journal.frames.placed_progress` and `scanning`. Columns out:
    persistence_id, sequence_nr.
    """
    counts = _of_buckets(progress.withColumnRenamed("progress_bucket", "time_bucket"), buckets)
    return counts.select(
        "persistence_id", F.col("progress_sequence_nr").alias("sequence_nr")
    ).unionByName(scanning.select("persistence_id", F.col("scanned_to").alias("sequence_nr")))


def asked_for(new: DataFrame, told: DataFrame) -> DataFrame:
    """Those, the new ones and the ones before them. Columns: persistence_id, sequence_nr."""
    both = F.explode(F.array(F.col("sequence_nr") - 1, "sequence_nr"))
    return new.select("persistence_id", both.alias("sequence_nr")).unionByName(told).distinct()


def unreached(told: DataFrame, found: DataFrame, deleted: DataFrame) -> DataFrame:
    """The persistence ids of which more was told than was found or deleted: persistence_id.

    Of them everything is needed: where their events end, and whether there are any.
    """
    highest = found.groupBy("persistence_id").agg(F.max("sequence_nr").alias("highest"))
    reached = F.greatest(F.coalesce("highest", F.lit(0)), F.coalesce("deleted_to", F.lit(0)))
    return (
        told.join(highest, on="persistence_id", how="left")
        .join(deleted, on="persistence_id", how="left")
        .where(F.col("sequence_nr") > reached)
        .select("persistence_id")
        .distinct()
    )


def partitions(new: DataFrame, progress: DataFrame, buckets: Collection[int]) -> DataFrame:
    """The partitions of the tag views in those time buckets: tag_name, timebucket.

    Of all tags that progress or the new events know; a row of another tag has neither.
    """
    tags = progress.select("tag").union(new.select(F.explode("tags"))).distinct()
    times = local_rows(new.sparkSession, [(one,) for one in buckets], "timebucket bigint")
    return tags.withColumnRenamed("tag", "tag_name").crossJoin(F.broadcast(times))


def first_rows(rows: DataFrame) -> DataFrame:
    """Where the new rows of each series begin.

    Columns: persistence_id, tag, first_number, first_nr (their lowest sequence nr).
    """
    return rows.groupBy(*_SERIES).agg(
        F.min("tag_pid_sequence_nr").alias("first_number"), F.min("sequence_nr").alias("first_nr")
    )


def preceding(first: DataFrame, known: DataFrame) -> DataFrame:
    """The tails that lie just before the first new row. Columns: those of `tails.known`."""
    is_before = F.col("tag_pid_sequence_nr") == F.col("first_number") - 1
    return known.join(first, on=_SERIES).where(is_before).drop("first_number", "first_nr")


def overlapping(first: DataFrame, known: DataFrame) -> DataFrame:
    """The series whose new rows do not all come after the tail. Columns: those of `tails.known`."""
    is_overlapped = (F.col("tag_pid_sequence_nr") >= F.col("first_number")) | (
        F.col("sequence_nr") >= F.col("first_nr")
    )
    return known.join(first, on=_SERIES).where(is_overlapped).drop("first_number", "first_nr")


def _events(
    run: RunContext, buckets: Collection[int], tag_rules: Sequence[rules.Rule]
) -> DataFrame:
    settings = run.settings
    end = max(buckets) + settings.bucket_size.milliseconds
    payload = events.READ if tag_rules else ()
    found = frames.indexed_between(run.spark, settings, min(buckets), end, *payload)
    new = _of_buckets(found, buckets)
    return read.with_rule_tags(run, new, tag_rules) if tag_rules else new


def _around(new: DataFrame, told: DataFrame, settings: Settings) -> DataFrame:
    """The events asked for, and all of those persistence ids that are not reached."""
    keys = increments.keys_of(asked_for(new, told), settings)
    found = frames.messages_of(keys, settings).localCheckpoint()
    deleted = frames.deleted(new.sparkSession, settings)
    ids = unreached(told, found, deleted).localCheckpoint()
    if ids.isEmpty():
        return found
    others = found.join(ids, on="persistence_id", how="left_anti")
    return others.unionByName(frames.messages_of_ids(ids, settings))


def _as_they_are(known: DataFrame, gone: Removed, settings: Settings) -> DataFrame:
    """The rows of those tails that are there, and as they were those that may be removed."""
    epoch_ms = columns.timeuuid_epoch_ms(F.col("timestamp"))
    placed = known.withColumns(
        {
            "ticks": columns.timeuuid_ticks(F.col("timestamp")),
            "time_bucket": columns.time_bucket(epoch_ms, settings.bucket_size),
        }
    )
    marked = tag_sequence.with_is_removed(placed, "time_bucket", gone).localCheckpoint()
    keys = marked.where(~F.col("is_removed")).select(
        F.col("tag").alias("tag_name"),
        F.col("time_bucket").alias("timebucket"),
        "timestamp",
        "persistence_id",
        "tag_pid_sequence_nr",
    )
    there = frames.tag_view_keys_of(keys, settings)
    return there.unionByName(marked.where("is_removed").select(*there.columns)).localCheckpoint()


def _of_buckets(frame: DataFrame, buckets: Collection[int]) -> DataFrame:
    wanted = local_rows(frame.sparkSession, [(one,) for one in buckets], "time_bucket bigint")
    return frame.join(F.broadcast(wanted), on="time_bucket", how="left_semi")


def _doubt(suspected: DataFrame, overlaps: DataFrame) -> str:
    check = F.lit(TAG_PID_SEQUENCE_NR_DUPLICATE).alias("check_name")
    every = suspected.select("persistence_id", "check_name").unionByName(
        overlaps.select("persistence_id", check)
    )
    first = every.orderBy("persistence_id", "check_name").limit(1).collect()
    return "".join(f"in doubt: {one['persistence_id']}, {one['check_name']}" for one in first)
