"""The checks of sequence nrs, per persistence id, as pure transformations."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import DELETED, ID, PLACED_EVENTS, PLACED_PROGRESS, SCANNING
from tidemark.partitioning.keys import TICKS_PER_MS
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.findings import checks
from tidemark.validate.findings.finding import FindingRule, findings_of


@shaped(index=shapes.NUMBERED_EVENTS, deleted=DELETED, returns=shapes.FINDINGS)
def sequence_findings(index: DataFrame, deleted: DataFrame) -> DataFrame:
    """Find gaps, missing heads and duplicates, each in the time bucket of the event that shows it.

    `index` has all messages. In a finding, number is the event's sequence nr, expected the lowest
    missing sequence nr (in a duplicate: the same).
    """
    in_order = Window.partitionBy("persistence_id").orderBy("sequence_nr", "ticks")
    followed = (
        index.select("persistence_id", "sequence_nr", "timestamp", "ticks", "time_bucket")
        .join(deleted, on="persistence_id", how="left")
        .withColumn("previous", F.lag("sequence_nr").over(in_order))
        .withColumn("expected", _reached(F.col("previous"), F.col("deleted_to")) + 1)
    )
    number, expected, previous = F.col("sequence_nr"), F.col("expected"), F.col("previous")
    is_first, is_ahead = previous.isNull(), number > expected
    missing = F.format_string(
        "expected %d, found %d: %d missing", expected, number, number - expected
    )
    repeated = F.format_string("%d belongs to more than one event", number)
    return findings_of(
        followed,
        [
            FindingRule(checks.SEQUENCE_NR_GAP, is_ahead & ~is_first, number, expected, missing),
            FindingRule(
                checks.SEQUENCE_NR_MISSING_HEAD, is_ahead & is_first, number, expected, missing
            ),
            FindingRule(checks.SEQUENCE_NR_DUPLICATE, number == previous, number, number, repeated),
        ],
    )


@shaped(index=shapes.NUMBERED_EVENTS, deleted=DELETED, returns=shapes.FINDINGS)
def deleted_beyond(index: DataFrame, deleted: DataFrame) -> DataFrame:
    """Find persistence ids whose deleted_to is beyond their last event.

    `index` has all messages. A finding is in the time bucket of the last event; its number is the
    sequence nr of that event, expected is deleted_to.
    """
    last = index.groupBy("persistence_id").agg(
        F.max("sequence_nr").alias("last"),
        F.max_by("time_bucket", "sequence_nr").alias("time_bucket"),
    )
    with_deleted_to = last.join(deleted, on="persistence_id")
    last_nr, deleted_to = F.col("last"), F.col("deleted_to")
    detail = F.format_string(
        "deleted_to is %d, beyond the last event %d: its events and new ones up to %d are hidden",
        deleted_to,
        last_nr,
        deleted_to,
    )
    rule = FindingRule(checks.DELETED_TO_AHEAD, last_nr < deleted_to, last_nr, deleted_to, detail)
    return findings_of(with_deleted_to, [rule])


@shaped(index=shapes.NUMBERED_EVENTS, returns=shapes.FINDINGS)
def out_of_order(index: DataFrame) -> DataFrame:
    """Find events that are older than their predecessor by sequence nr.

    `index` has the events of the time buckets and their predecessors. In a finding, number is the
    sequence nr of the older event, expected is null.
    """
    in_order = Window.partitionBy("persistence_id").orderBy("sequence_nr", "ticks")
    followed = index.select(
        "persistence_id",
        "sequence_nr",
        "timestamp",
        "time_bucket",
        F.lag("sequence_nr").over(in_order).alias("previous"),
        (F.lag("ticks").over(in_order) - F.col("ticks")).alias("behind"),
    )
    detail = F.format_string(
        "%s ms older than sequence nr %d",
        F.format_number(F.col("behind") / TICKS_PER_MS, 1),
        F.col("previous"),
    )
    is_older = F.col("behind") > 0
    rule = FindingRule(
        checks.EVENT_OUT_OF_ORDER, is_older, F.col("sequence_nr"), F.lit(None), detail
    )
    return findings_of(followed, [rule])


@shaped(
    index=PLACED_EVENTS,
    progress=PLACED_PROGRESS,
    scanning=SCANNING,
    deleted=DELETED,
    listed=ID,
    returns=shapes.FINDINGS,
)
def lost_tails(
    index: DataFrame,
    progress: DataFrame,
    scanning: DataFrame,
    deleted: DataFrame,
    listed: DataFrame,
    last_bucket: int,
) -> DataFrame:
    """Find the persistence ids with a recorded event after the last event in messages.

    A finding by tag_write_progress is in the time bucket of its offset, that of the lost event.
    tag_scanning has no time: its finding is in `last_bucket`, the newest of the run, unless the
    persistence id has events after that bucket; so it is reported until it is repaired. A
    persistence id without any event, metadata or entry in all_persistence_ids was deleted
    completely ("never use again") and has lost nothing.

    In a finding, number is the highest sequence nr of messages, expected the recorded sequence nr.
    """
    present = index.groupBy("persistence_id").agg(
        F.max("sequence_nr").alias("highest"), F.max("time_bucket").alias("newest_bucket")
    )
    tagged = progress.groupBy("persistence_id").agg(
        F.max(F.struct("progress_sequence_nr", "progress_bucket")).alias("tagged")
    )
    by_id = (
        tagged.join(scanning, on="persistence_id", how="full")
        .join(present, on="persistence_id", how="left")
        .join(deleted, on="persistence_id", how="left")
        .join(listed.withColumn("is_listed", F.lit(True)), on="persistence_id", how="left")
        .withColumn("reached", _reached(F.col("highest"), F.col("deleted_to")))
    )
    is_in_use = F.coalesce("highest", "deleted_to").isNotNull() | F.col("is_listed")
    is_tag_ahead = F.coalesce(F.col("tagged.progress_sequence_nr") > F.col("reached"), F.lit(False))
    is_scan_ahead = (F.col("scanned_to") > F.col("reached")) & (
        F.col("newest_bucket").isNull() | (F.col("newest_bucket") <= last_bucket)
    )
    lost = (
        by_id.where(is_in_use)
        .withColumn("is_tag_ahead", is_tag_ahead)
        .where(F.col("is_tag_ahead") | is_scan_ahead)
        .withColumns(
            {
                "time_bucket": F.when(
                    F.col("is_tag_ahead"), F.col("tagged.progress_bucket")
                ).otherwise(F.lit(last_bucket)),
                "source": F.when(F.col("is_tag_ahead"), F.lit("tag_write_progress")).otherwise(
                    F.lit("tag_scanning")
                ),
                "known": F.greatest(F.col("tagged.progress_sequence_nr"), F.col("scanned_to")),
            }
        )
    )
    detail = F.format_string(
        "%s knows %d, messages ends at %d", F.col("source"), F.col("known"), F.col("reached")
    )
    return findings_of(
        lost,
        [
            FindingRule(
                checks.SEQUENCE_NR_LOST_TAIL,
                F.lit(True),
                F.col("reached"),
                F.col("known"),
                detail,
            )
        ],
    )


def _reached(sequence_nr: Column, deleted_to: Column) -> Column:
    return F.greatest(F.coalesce(sequence_nr, F.lit(0)), F.coalesce(deleted_to, F.lit(0))).cast(
        "bigint"
    )
