"""The checks of tag pid sequence nrs, per persistence id and tag, as pure transformations.

Rows that purge or a TTL removed are no findings, nor are rows that tag-write has yet to write: an
event whose writer's clock was ahead gets its row later than its successors. Numbers missing before
a row are explained

- by at least as many events in messages that carry the tag, have no row, are in a removed or
pending time
  bucket, and are between the previous row and this row in sequence nr order; or
- by deleted events: the previous row (or the start) is below the persistence id's deleted_to, and
  some removed time bucket is at or after the previous row's and before the time bucket of this row.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import DELETED, MESSAGES, PLACED_PROGRESS, TAG_ROWS
from tidemark.ledger.purged import Removed
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.findings import checks
from tidemark.validate.findings.finding import FindingRule, findings_of
from tidemark.validate.plan import PendingTagWrites

_TAGGED = ["persistence_id", "tag"]


@shaped(index=MESSAGES, rows=TAG_ROWS, returns=shapes.ABSENT)
def absent_events(
    index: DataFrame, rows: DataFrame, removed: Removed, pending: PendingTagWrites
) -> DataFrame:
    """Return the (event, tag) pairs of messages without a row in tag_views."""
    tagged = index.select(
        "persistence_id", "sequence_nr", "timestamp", "time_bucket", F.explode("tags").alias("tag")
    )
    absent = tagged.join(
        rows.select(*_TAGGED, "sequence_nr"), on=[*_TAGGED, "sequence_nr"], how="left_anti"
    )
    return with_is_owed(with_is_removed(absent, "time_bucket", removed), "time_bucket", pending)


@shaped(rows=TAG_ROWS, absent=shapes.ABSENT, deleted=DELETED, returns=shapes.FINDINGS)
def tag_sequence_findings(
    rows: DataFrame, absent: DataFrame, deleted: DataFrame, removed: Removed
) -> DataFrame:
    """Find gaps, missing heads, duplicates and numbers that are not in the order of the events.

    Each is in the time bucket of the row that shows it. In a finding, number is the row's tag pid
    sequence nr, expected the lowest missing one; for a duplicate the same, or the event's other
    number; for a number out of order null.
    """
    number, expected, previous = (
        F.col("tag_pid_sequence_nr"),
        F.col("expected"),
        F.col("previous"),
    )
    followed = _followed(rows, absent).join(deleted, on="persistence_id", how="left")
    is_first = previous.isNull()
    is_ahead = (number > expected) & ~_is_explained(removed)
    event, number_before = F.col("sequence_nr"), F.col("number_before")
    is_renumbered = (F.col("event_before") == event) & (number_before != number)
    missing = F.format_string(
        "expected %d, found %d: %d missing", expected, number, number - expected
    )
    repeated = F.format_string("%d is on more than one row", number)
    renumbered = F.format_string(
        "the event with sequence nr %d has the numbers %d and %d", event, number_before, number
    )
    event_of_previous = F.col("previous_sequence_nr")
    is_out_of_order = (number > previous) & (event < event_of_previous)
    swapped = F.format_string(
        "%d is of the event with sequence nr %d, %d of the later one with %d",
        *(number, event, previous, event_of_previous),
    )
    gap, head, duplicate, out_of_order = (
        checks.TAG_PID_SEQUENCE_NR_GAP,
        checks.TAG_PID_SEQUENCE_NR_MISSING_HEAD,
        checks.TAG_PID_SEQUENCE_NR_DUPLICATE,
        checks.TAG_PID_SEQUENCE_NR_OUT_OF_ORDER,
    )
    return findings_of(
        followed,
        [
            FindingRule(gap, is_ahead & ~is_first, number, expected, missing),
            FindingRule(head, is_ahead & is_first, number, expected, missing),
            FindingRule(duplicate, number == previous, number, number, repeated),
            FindingRule(duplicate, is_renumbered, number, number_before, renumbered),
            FindingRule(out_of_order, is_out_of_order, number, F.lit(None), swapped),
        ],
    )


@shaped(rows=TAG_ROWS, progress=PLACED_PROGRESS, deleted=DELETED, returns=shapes.FINDINGS)
def lost_tag_tails(
    rows: DataFrame, progress: DataFrame, deleted: DataFrame, removed: Removed
) -> DataFrame:
    """Find the (persistence id, tag) pairs whose progress counts more rows than tag_views has.

    A finding is in the time bucket of the progress's offset, where the last row should be; if that
    bucket is removed, or the last event deleted, the row may be absent. Its number is the highest
    of the rows (0 without a row), expected that of the progress.
    """
    last_rows = rows.groupBy(*_TAGGED).agg(F.max("tag_pid_sequence_nr").alias("highest"))
    flagged = with_is_removed(progress, "progress_bucket", removed)
    number = F.coalesce(F.col("highest"), F.lit(0))
    lost = (
        flagged.join(last_rows, on=_TAGGED, how="left")
        .join(deleted, on="persistence_id", how="left")
        .withColumn("time_bucket", F.col("progress_bucket"))
    )
    is_deleted = F.coalesce(F.col("progress_sequence_nr") <= F.col("deleted_to"), F.lit(False))
    is_lost = (F.col("progress_number") > number) & ~F.col("is_removed") & ~is_deleted
    detail = F.format_string(
        "tag_write_progress counts %d, tag_views ends at %d", F.col("progress_number"), number
    )
    rule = FindingRule(
        checks.TAG_PID_SEQUENCE_NR_LOST_TAIL, is_lost, number, F.col("progress_number"), detail
    )
    return findings_of(lost, [rule])


def _followed(rows: DataFrame, absent: DataFrame) -> DataFrame:
    """Add to each row its previous row, by number, and its previous event, by sequence nr."""
    excused = absent.where("is_removed OR is_owed").select(*_TAGGED, "sequence_nr", "time_bucket")
    in_sequence = Window.partitionBy(*_TAGGED).orderBy(
        "sequence_nr", F.col("tag_pid_sequence_nr").asc_nulls_first(), "ticks"
    )
    to_here = in_sequence.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    in_number = Window.partitionBy(*_TAGGED).orderBy("tag_pid_sequence_nr", "ticks")
    is_excused = F.col("tag_pid_sequence_nr").isNull()
    ordered = rows.unionByName(excused, allowMissingColumns=True).withColumns(
        {
            "excused_before": F.count(F.when(is_excused, True)).over(to_here),
            "event_before": F.lag("sequence_nr").over(in_sequence),
            "number_before": F.lag("tag_pid_sequence_nr").over(in_sequence),
        }
    )
    return ordered.where(~is_excused).withColumns(
        {
            "previous": F.lag("tag_pid_sequence_nr").over(in_number),
            "previous_sequence_nr": F.lag("sequence_nr", 1, 0).over(in_number),
            "previous_bucket": F.lag("time_bucket").over(in_number),
            "excused_between": F.col("excused_before")
            - F.lag("excused_before", 1, 0).over(in_number),
            "expected": F.lag("tag_pid_sequence_nr", 1, 0).over(in_number) + 1,
        }
    )


def _is_explained(removed: Removed) -> Column:
    missing = F.col("tag_pid_sequence_nr") - F.col("expected")
    # The rows of deleted events may be deleted too (reconcile propagate-deletes).
    is_front_deleted = F.col("previous").isNull() & F.coalesce(
        F.col("deleted_to") > 0, F.lit(False)
    )
    is_excused = (F.col("excused_between") >= missing) | is_front_deleted
    span = removed.span()
    if span is None:
        return is_excused
    first, last = span
    is_deleted = F.coalesce(F.col("previous_sequence_nr") < F.col("deleted_to"), F.lit(False))
    is_removed_between = (F.col("time_bucket") > first) & F.coalesce(
        F.col("previous_bucket") <= last, F.lit(True)
    )
    return is_excused | (is_deleted & is_removed_between)


def with_is_removed(frame: DataFrame, bucket: str, removed: Removed) -> DataFrame:
    """Add is_removed: whether rows of the time bucket in column `bucket` may be removed."""
    limit = removed.expired_before
    is_expired = F.lit(False) if limit is None else F.col(bucket) < limit
    return _with_flag(frame, "is_removed", bucket, removed.buckets, is_expired)


def with_is_owed(frame: DataFrame, bucket: str, pending: PendingTagWrites) -> DataFrame:
    """Add is_owed: whether tag-write has yet to write the time bucket in column `bucket`."""
    is_to_come = F.lit(False) if pending.since is None else F.col(bucket) >= pending.since
    return _with_flag(frame, "is_owed", bucket, pending.buckets, is_to_come)


def _with_flag(
    frame: DataFrame, name: str, bucket: str, buckets: Collection[int], otherwise: Column
) -> DataFrame:
    """Add a flag: true if the row's time bucket is one of `buckets`, else `otherwise`."""
    if not buckets:
        return frame.withColumn(name, otherwise)
    among = local_rows(
        frame.sparkSession,
        [(time_bucket, True) for time_bucket in sorted(buckets)],
        f"{bucket} bigint, is_among boolean",
    )
    return (
        frame.join(F.broadcast(among), on=bucket, how="left")
        .withColumn(name, F.col("is_among").isNotNull() | otherwise)
        .drop("is_among")
    )
