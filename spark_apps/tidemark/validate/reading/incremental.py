"""The new part of a journal, with its neighbours that show whether it is whole.

A finding in a time bucket does not depend on the whole history, but on

- the events of the bucket, the event before each, and all others with the same sequence nr;
- the events that progress and scanning name;
- the rows of the bucket, and in each series the row before its first.

All of these are read by key, so that the cost is that of the new part. The events of a bucket are
found by the index on their time: without it they could have any sequence nr, like those of a
second writer that goes on where it was when the first one took over.
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
from tidemark.ledger.pieces import Piece, Reason
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


def reason_for_everything(run: RunContext, pieces: Sequence[Piece], passed: TimeBuckets) -> str:
    """Return why an inspection of the new part would not suffice or not be cheaper; empty if it is.

    Args:
        run: the context of the run.
        pieces: the planned pieces.
        passed: the time buckets that have passed before, epoch ms.
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
    """Read the new time buckets, in the order of `journal_keys`, and decide if they are whole.

    Returns what was read and the findings of the checks that warn (FINDINGS), in memory, and why
    everything must be looked at, for people; empty if the buckets are whole.

    Args:
        run: the context of the run.
        buckets: time buckets without one between them that has passed, epoch ms.
        pending: the time buckets that tag-write owes.

    Raises:
        InvalidInput: the directory of the tag rules does not exist.
        DefinitionError: a tag rule cannot be used.
    """
    tag_rules = journal_keys.usable_rules(run)
    spark, settings = run.spark, run.settings
    bounds = Bounds.of_buckets(run, buckets, pending)
    progress = frames.write_progress(spark, settings).localCheckpoint()
    placed = frames.placed(progress, settings.bucket_size)
    scanning = frames.scanning(spark, settings).localCheckpoint()
    new = _events(run, buckets, tag_rules).localCheckpoint()
    named = told_of(placed, scanning, buckets).localCheckpoint()
    around = _around(new, named, settings)
    rows = tag_view_rows.tag_view_keys_of(
        partitions(new, placed, buckets), settings
    ).localCheckpoint()
    first = first_rows(rows).localCheckpoint()
    known = tails.known_of(first, settings).localCheckpoint()
    bounds = bounds.with_removed(run)
    part = NewPart(
        new,
        rows,
        before=_as_they_are(preceding(first, known), bounds.removed, settings),
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
    return part, warned, _doubt(suspected, overlapping(first, known))


@shaped(returns=shapes.FINDINGS)
def advice(part: NewPart, buckets: Sequence[int], bounds: Bounds, row_bytes: float) -> DataFrame:
    """Return the findings of the checks that are made exactly here, not only suspected.

    Args:
        part: what is new, and what is around it.
        buckets: the new time buckets, epoch ms.
        bounds: of the comparison.
        row_bytes: `journal_keys.row_bytes`.
    """
    of_buckets = warnings(
        part.around, partition_size.sizes(part.rows), bounds.bucket_size, row_bytes, buckets
    )
    filled = message_partitions.reached(part.events, part.deleted, bounds.target_partition_size)
    large = message_partitions.large_partitions(filled, row_bytes)
    return of_buckets.unionByName(large, allowMissingColumns=True)


@shaped(progress=PLACED_PROGRESS, scanning=SCANNING, returns=EVENT)
def told_of(progress: DataFrame, scanning: DataFrame, buckets: Collection[int]) -> DataFrame:
    """Return the events that scanning, and progress in the time buckets, name."""
    counts = finding.within(progress.withColumnRenamed("progress_bucket", "time_bucket"), buckets)
    return counts.select(
        "persistence_id", F.col("progress_sequence_nr").alias("sequence_nr")
    ).unionByName(scanning.select("persistence_id", F.col("scanned_to").alias("sequence_nr")))


@shaped(new=EVENT, named=EVENT, returns=EVENT)
def asked_for(new: DataFrame, named: DataFrame) -> DataFrame:
    """Return the keys to read: of `told`, of new events and of the events before them."""
    both = F.explode(F.array(F.col("sequence_nr") - 1, "sequence_nr"))
    return new.select("persistence_id", both.alias("sequence_nr")).unionByName(named).distinct()


@shaped(named=EVENT, present=EVENT, deleted=DELETED, returns=ID)
def unreached(named: DataFrame, present: DataFrame, deleted: DataFrame) -> DataFrame:
    """Return the persistence ids with a named event beyond those present or deleted.

    All events of such an id must be read, to know where they end and whether there are any.
    """
    highest = present.groupBy("persistence_id").agg(F.max("sequence_nr").alias("highest"))
    reached = F.greatest(F.coalesce("highest", F.lit(0)), F.coalesce("deleted_to", F.lit(0)))
    return (
        named.join(highest, on="persistence_id", how="left")
        .join(deleted, on="persistence_id", how="left")
        .where(F.col("sequence_nr") > reached)
        .select("persistence_id")
        .distinct()
    )


@shaped(new=MESSAGES, progress=PLACED_PROGRESS, returns=VIEW_PARTITIONS)
def partitions(new: DataFrame, progress: DataFrame, buckets: Collection[int]) -> DataFrame:
    """Return the tag-view partitions of the time buckets.

    The tags are all those of progress and of the new events; no row can have another tag.
    """
    tags = progress.select("tag").union(new.select(F.explode("tags"))).distinct()
    times = local_rows(new.sparkSession, [(bucket,) for bucket in buckets], "timebucket bigint")
    return tags.withColumnRenamed("tag", "tag_name").crossJoin(F.broadcast(times))


@shaped(rows=TAG_ROWS, returns=shapes.FIRST_ROWS)
def first_rows(rows: DataFrame) -> DataFrame:
    """Return where the new rows of each series begin."""
    return rows.groupBy(*_SERIES).agg(
        F.min("tag_pid_sequence_nr").alias("first_number"), F.min("sequence_nr").alias("first_nr")
    )


@shaped(first=shapes.FIRST_ROWS, known=shapes.TAILS, returns=shapes.TAILS)
def preceding(first: DataFrame, known: DataFrame) -> DataFrame:
    """Return the tails just before the first new row."""
    is_before = F.col("tag_pid_sequence_nr") == F.col("first_number") - 1
    return known.join(first, on=_SERIES).where(is_before).drop("first_number", "first_nr")


@shaped(first=shapes.FIRST_ROWS, known=shapes.TAILS, returns=shapes.TAILS)
def overlapping(first: DataFrame, known: DataFrame) -> DataFrame:
    """Return the tails that do not precede all new rows."""
    is_overlapped = (F.col("tag_pid_sequence_nr") >= F.col("first_number")) | (
        F.col("sequence_nr") >= F.col("first_nr")
    )
    return known.join(first, on=_SERIES).where(is_overlapped).drop("first_number", "first_nr")


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


def _around(new: DataFrame, named: DataFrame, settings: Settings) -> DataFrame:
    """Read the events of `asked_for`, and all events of the ids that are `unreached`."""
    keys = increments.keys_of(asked_for(new, named), settings)
    messages = frames.messages_of(keys, settings).localCheckpoint()
    deleted = frames.deleted(new.sparkSession, settings)
    ids = unreached(named, messages, deleted).localCheckpoint()
    if ids.isEmpty():
        return messages
    others = messages.join(ids, on="persistence_id", how="left_anti")
    return others.unionByName(frames.messages_of_ids(ids, settings))


def _as_they_are(known: DataFrame, removed_rows: Removed, settings: Settings) -> DataFrame:
    """Read the rows of the tails; a row that may be removed is taken from its tail instead."""
    epoch_ms = columns.timeuuid_epoch_ms(F.col("timestamp"))
    placed = known.withColumns(
        {
            "ticks": columns.timeuuid_ticks(F.col("timestamp")),
            "time_bucket": columns.time_bucket(epoch_ms, settings.bucket_size),
        }
    )
    marked = tag_sequence.with_is_removed(placed, "time_bucket", removed_rows).localCheckpoint()
    keys = marked.where(~F.col("is_removed")).select(
        F.col("tag").alias("tag_name"),
        F.col("time_bucket").alias("timebucket"),
        "timestamp",
        "persistence_id",
        "tag_pid_sequence_nr",
    )
    present = tag_view_rows.tag_view_keys_of(keys, settings)
    excused = marked.where("is_removed").select(*present.columns)
    return present.unionByName(excused).localCheckpoint()


@shaped(suspected=shapes.FINDINGS, settlements=shapes.SETTLEMENTS, returns=shapes.FINDINGS)
def unsettled(suspected: DataFrame, settlements: DataFrame) -> DataFrame:
    """Drop lost tails that are settled: each run finds them, and would look at everything.

    Their numbers are those of the finding, since all events of such an id are read (`_around`);
    those of other suspicions depend on what was left out. Where tag_scanning is what is ahead, the
    comparison names the same numbers the other way round.
    """
    is_exact = F.col("check_name") == SEQUENCE_NR_LOST_TAIL.name
    tails_of_ids = suspected.where(is_exact)
    of_scanning = tails_of_ids.withColumns(
        {
            "check_name": F.lit(SCANNING_AHEAD.name),
            "number": F.col("expected"),
            "expected": F.col("number"),
        }
    )
    settled = (
        finding.weighed(tails_of_ids.unionByName(of_scanning), settlements)
        .where(F.col("reason").isNotNull())
        .select("persistence_id")
        .distinct()
    )
    open_tails = tails_of_ids.join(settled, on="persistence_id", how="left_anti")
    return suspected.where(~is_exact).unionByName(open_tails.select(*suspected.columns))


def _doubt(suspected: DataFrame, overlaps: DataFrame) -> str:
    check = F.lit(TAG_PID_SEQUENCE_NR_DUPLICATE.name).alias("check_name")
    doubtful = suspected.select("persistence_id", "check_name").unionByName(
        overlaps.select("persistence_id", check)
    )
    first = doubtful.orderBy("persistence_id", "check_name").limit(1).collect()
    return "".join(f"in doubt: {row['persistence_id']}, {row['check_name']}" for row in first)
