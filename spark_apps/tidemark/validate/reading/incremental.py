"""The incremental check: reads the new part of a journal and the neighbours needed to judge it.

A finding in a time bucket does not depend on the complete history, but on

- the events of the bucket, the event before each, and all others with the same sequence nr;
- the events that progress and scanning name;
- the rows of the bucket, and in each series the row before its first row.

All of them are read by key, so that the cost is that of the new part. The events of a bucket are
found by the index on their time: without it they could have any sequence nr, like events of a
second writer that continues where it was when the first writer took over.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.pekko import frames, tables, tag_view_rows
from tidemark.journals.pekko.messages import increments
from tidemark.journals.pekko.shapes import (
    DELETED,
    EVENT,
    ID,
    MESSAGES,
    PLACED_PROGRESS,
    SCANNING,
    TAG_ROWS,
    VIEW_PARTITIONS,
)
from tidemark.ledger.piece import Piece, Reason
from tidemark.ledger.purged import Removed
from tidemark.partitioning import columns
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.tag_write import rules
from tidemark.tag_write.plan import FEW_EVENTS, NEWS_SHARE
from tidemark.text import counted
from tidemark.validate import shapes, store
from tidemark.validate.findings import finding, partition_size, tag_sequence
from tidemark.validate.findings.all_findings import warnings
from tidemark.validate.findings.checks import (
    SCANNING_AHEAD,
    SEQUENCE_NR_LOST_TAIL,
    TAG_PID_SEQUENCE_NR_DUPLICATE,
)
from tidemark.validate.journal_wide import message_partitions
from tidemark.validate.plan import PendingTagWrites
from tidemark.validate.reading import journal_keys, tails
from tidemark.validate.tag_views.bounds import Bounds
from tidemark.validate.tag_views.incremental_checks import NewPart, suspicions

_SERIES = ["persistence_id", "tag"]


def reason_for_full_check(run: RunContext, pieces: Sequence[Piece], passed: TimeBuckets) -> str:
    """Return why an incremental check is impossible or not cheaper; empty if it is cheaper.

    `pieces` are planned; `passed`: the time buckets (epoch ms) that have passed before.
    """
    if not tables.has_time_index(run.control, run.settings):
        return "messages has no index on its timestamp"
    if any(piece.reason is Reason.FORCED for piece in pieces):
        return "time buckets are forced"
    if passed.last is None or passed.last >= pieces[0].time_bucket:
        return "time buckets after the first of these have passed, or none has yet"
    if len(pieces) * NEWS_SHARE > len(passed):
        return f"{counted(len(pieces), 'time bucket')} of {len(pieces) + len(passed)} are new"
    scanning = frames.scanning(run.spark, run.settings)
    size = scanning.agg(F.count("*").alias("ids"), F.sum("scanned_to").alias("events")).collect()[0]
    if size["ids"] and size["events"] < FEW_EVENTS * size["ids"]:
        return f"{size['ids']:,} persistence ids hold {size['events']:,} events"
    return ""


def inspect(
    run: RunContext, buckets: Sequence[int], pending: PendingTagWrites
) -> tuple[NewPart, DataFrame, str]:
    """Read the new time buckets, in the order of `journal_keys`, and decide if they are consistent.

    No time bucket between `buckets` (epoch ms) has passed before. Returns the new part and the
    findings of the checks that warn (FINDINGS), in memory, and the reason for a full check, for
    people; the reason is empty if the buckets are consistent.
    """
    tag_rules = journal_keys.usable_rules(run)
    spark, settings = run.spark, run.settings
    bounds = Bounds.of_buckets(run, buckets, pending)
    progress = frames.write_progress(spark, settings).localCheckpoint()
    placed_progress = frames.placed(progress, settings.bucket_size)
    scanning = frames.scanning(spark, settings).localCheckpoint()
    new = _events(run, buckets, tag_rules).localCheckpoint()
    recorded = recorded_events(placed_progress, scanning, buckets).localCheckpoint()
    around = _around(new, recorded, settings)
    rows = tag_view_rows.tag_view_keys_of(
        partitions(new, placed_progress, buckets), settings
    ).localCheckpoint()
    first_new = first_rows(rows).localCheckpoint()
    stored_tails = tails.read_series(first_new, settings).localCheckpoint()
    bounds = bounds.with_removed(run)
    part = NewPart(
        new,
        rows,
        before=_rows_of_tails(preceding(first_new, stored_tails), bounds.removed, settings),
        around=around,
        progress=progress,
        scanning=scanning,
        deleted=frames.deleted(spark, settings),
        listed=journal_keys.listed(run),
    )
    suspected = unsettled(
        suspicions(part, buckets, bounds), store.settlements(spark, run.control, settings)
    )
    row_bytes = journal_keys.row_bytes(run)
    warned = advice(part, buckets, bounds, row_bytes).localCheckpoint()
    return part, warned, _doubt(suspected, overlapping(first_new, stored_tails))


@shaped(returns=shapes.FINDINGS)
def advice(part: NewPart, buckets: Sequence[int], bounds: Bounds, row_bytes: float) -> DataFrame:
    """Return the findings of the checks for which the new part is sufficient.

    `buckets`: the new time buckets, epoch ms. `row_bytes`: see `journal_keys.row_bytes`.
    """
    in_buckets = warnings(
        part.around, partition_size.sizes(part.rows), bounds.bucket_size, row_bytes, buckets
    )
    message_counts = message_partitions.event_counts_by_number(
        part.events, part.deleted, bounds.target_partition_size
    )
    large = message_partitions.large_partitions(message_counts, row_bytes)
    return in_buckets.unionByName(large, allowMissingColumns=True)


@shaped(progress=PLACED_PROGRESS, scanning=SCANNING, returns=EVENT)
def recorded_events(
    progress: DataFrame, scanning: DataFrame, buckets: Collection[int]
) -> DataFrame:
    """Return the keys of events recorded in scanning, and in progress in the time buckets."""
    counts = finding.within(progress.withColumnRenamed("progress_bucket", "time_bucket"), buckets)
    return counts.select(
        "persistence_id", F.col("progress_sequence_nr").alias("sequence_nr")
    ).unionByName(scanning.select("persistence_id", F.col("scanned_to").alias("sequence_nr")))


@shaped(new=EVENT, recorded=EVENT, returns=EVENT)
def events_to_read(new: DataFrame, recorded: DataFrame) -> DataFrame:
    """Return the keys of the recorded events, of the new events and of their predecessors."""
    event_and_predecessor = F.explode(F.array(F.col("sequence_nr") - 1, "sequence_nr"))
    return (
        new.select("persistence_id", event_and_predecessor.alias("sequence_nr"))
        .unionByName(recorded)
        .distinct()
    )


@shaped(recorded=EVENT, present=EVENT, deleted=DELETED, returns=ID)
def unreached(recorded: DataFrame, present: DataFrame, deleted: DataFrame) -> DataFrame:
    """Return the persistence ids with a recorded event after those present or deleted.

    All events of such an id must be read, to know the last event and whether there are any events.
    """
    highest = present.groupBy("persistence_id").agg(F.max("sequence_nr").alias("highest"))
    reached = F.greatest(F.coalesce("highest", F.lit(0)), F.coalesce("deleted_to", F.lit(0)))
    return (
        recorded.join(highest, on="persistence_id", how="left")
        .join(deleted, on="persistence_id", how="left")
        .where(F.col("sequence_nr") > reached)
        .select("persistence_id")
        .distinct()
    )


@shaped(new=MESSAGES, progress=PLACED_PROGRESS, returns=VIEW_PARTITIONS)
def partitions(new: DataFrame, progress: DataFrame, buckets: Collection[int]) -> DataFrame:
    """Return the tag-view partitions of the time buckets.

    The tags are those of progress and of the new events; no row can have another tag.
    """
    tags = progress.select("tag").union(new.select(F.explode("tags"))).distinct()
    times = local_rows(new.sparkSession, [(bucket,) for bucket in buckets], "timebucket bigint")
    return tags.withColumnRenamed("tag", "tag_name").crossJoin(F.broadcast(times))


@shaped(rows=TAG_ROWS, returns=shapes.FIRST_ROWS)
def first_rows(rows: DataFrame) -> DataFrame:
    """Return the lowest number and sequence nr of the new rows of each series."""
    return rows.groupBy(*_SERIES).agg(
        F.min("tag_pid_sequence_nr").alias("first_number"), F.min("sequence_nr").alias("first_nr")
    )


@shaped(first_new=shapes.FIRST_ROWS, stored_tails=shapes.TAILS, returns=shapes.TAILS)
def preceding(first_new: DataFrame, stored_tails: DataFrame) -> DataFrame:
    """Return the tails directly before the first new row."""
    is_before = F.col("tag_pid_sequence_nr") == F.col("first_number") - 1
    return (
        stored_tails.join(first_new, on=_SERIES).where(is_before).drop("first_number", "first_nr")
    )


@shaped(first_new=shapes.FIRST_ROWS, stored_tails=shapes.TAILS, returns=shapes.TAILS)
def overlapping(first_new: DataFrame, stored_tails: DataFrame) -> DataFrame:
    """Return the tails that do not precede all new rows."""
    is_overlapped = (F.col("tag_pid_sequence_nr") >= F.col("first_number")) | (
        F.col("sequence_nr") >= F.col("first_nr")
    )
    return (
        stored_tails.join(first_new, on=_SERIES)
        .where(is_overlapped)
        .drop("first_number", "first_nr")
    )


def _events(
    run: RunContext, buckets: Collection[int], tag_rules: Sequence[rules.TagRule]
) -> DataFrame:
    settings = run.settings
    end = max(buckets) + settings.bucket_size.milliseconds
    payload = journal_keys.payload_for(tag_rules)
    messages = frames.indexed_between(
        run.spark, settings, min(buckets), end, "partition_nr", *payload, with_has_payload=True
    )
    return journal_keys.with_rule_tags(run, finding.within(messages, buckets), tag_rules)


def _around(new: DataFrame, recorded: DataFrame, settings: Settings) -> DataFrame:
    """Read the `events_to_read`, and all events of `unreached` persistence ids."""
    keys = increments.keys_of(events_to_read(new, recorded), settings)
    messages = frames.messages_of(keys, settings).localCheckpoint()
    deleted = frames.deleted(new.sparkSession, settings)
    ids = unreached(recorded, messages, deleted).localCheckpoint()
    if ids.isEmpty():
        return messages
    reached = messages.join(ids, on="persistence_id", how="left_anti")
    return reached.unionByName(frames.messages_of_ids(ids, settings))


def _rows_of_tails(stored_tails: DataFrame, removed_rows: Removed, settings: Settings) -> DataFrame:
    """Read the rows of the tails; a row that may be removed is taken from its tail instead."""
    epoch_ms = columns.timeuuid_epoch_ms(F.col("timestamp"))
    with_bucket = stored_tails.withColumns(
        {
            "ticks": columns.timeuuid_ticks(F.col("timestamp")),
            "time_bucket": columns.time_bucket(epoch_ms, settings.bucket_size),
        }
    )
    marked = tag_sequence.with_is_removed(
        with_bucket, "time_bucket", removed_rows
    ).localCheckpoint()
    keys = marked.where(~F.col("is_removed")).select(
        F.col("tag").alias("tag_name"),
        F.col("time_bucket").alias("timebucket"),
        "timestamp",
        "persistence_id",
        "tag_pid_sequence_nr",
    )
    present = tag_view_rows.tag_view_keys_of(keys, settings)
    from_tails = marked.where("is_removed").select(*present.columns)
    return present.unionByName(from_tails).localCheckpoint()


@shaped(suspected=shapes.FINDINGS, settlements=shapes.SETTLEMENTS, returns=shapes.FINDINGS)
def unsettled(suspected: DataFrame, settlements: DataFrame) -> DataFrame:
    """Drop settled lost tails: each run finds them, and would have to check everything.

    Their numbers are those of the finding, since all events of such an id are read (`_around`);
    numbers of other suspicions depend on events left out. If tag_scanning is ahead, the numbers are
    exchanged in the comparison's finding.
    """
    is_exact = F.col("check_name") == SEQUENCE_NR_LOST_TAIL.name
    lost_tails = suspected.where(is_exact)
    scanning_findings = lost_tails.withColumns(
        {
            "check_name": F.lit(SCANNING_AHEAD.name),
            "number": F.col("expected"),
            "expected": F.col("number"),
        }
    )
    settled = (
        finding.weighed(lost_tails.unionByName(scanning_findings), settlements)
        .where(F.col("reason").isNotNull())
        .select("persistence_id")
        .distinct()
    )
    open_lost_tails = lost_tails.join(settled, on="persistence_id", how="left_anti")
    return suspected.where(~is_exact).unionByName(open_lost_tails.select(*suspected.columns))


def _doubt(suspected: DataFrame, overlaps: DataFrame) -> str:
    check = F.lit(TAG_PID_SEQUENCE_NR_DUPLICATE.name).alias("check_name")
    doubtful = suspected.select("persistence_id", "check_name").unionByName(
        overlaps.select("persistence_id", check)
    )
    first = doubtful.orderBy("persistence_id", "check_name").limit(1).collect()
    return "".join(f"in doubt: {row['persistence_id']}, {row['check_name']}" for row in first)
