"""The checks of the new part of a journal, whose suspicions are a superset of its findings.

New events and rows are compared with each other, and with their predecessors
(`reading.incremental`). No missing number is explained here, since the rows and events needed for
that are not read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko import frames
from tidemark.journals.pekko.series import SERIES
from tidemark.journals.pekko.shapes import DELETED, TAG_ROWS, WRITE_PROGRESS
from tidemark.ledger.purged import Removed
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.findings import checks, finding, sequence, tag_sequence
from tidemark.validate.findings.all_findings import JournalKeys, event_findings
from tidemark.validate.findings.check import Check
from tidemark.validate.findings.finding import FindingRule, findings_of
from tidemark.validate.tag_views.bounds import Bounds
from tidemark.validate.tag_views.expected import TAGGED_EVENT

_EVENT = ["persistence_id", "sequence_nr", "timestamp"]


@dataclass(frozen=True)
class NewPart:
    """The new time buckets of a journal and their neighbours, all in memory.

    Attributes:
        events: the events of the time buckets, as `journal_keys.with_rule_tags` returns them.
        rows: the rows of the time buckets.
        before: the last rows before them, of the same shape.
        around: `events`, their predecessors, the events that progress and scanning name, and all
            events of an id whose last event is in doubt.
        progress: `frames.write_progress`.
        scanning: `frames.scanning`.
        deleted: `frames.deleted`.
        listed: `journal_keys.listed`.
    """

    events: DataFrame
    rows: DataFrame
    before: DataFrame
    around: DataFrame
    progress: DataFrame
    scanning: DataFrame
    deleted: DataFrame
    listed: DataFrame


@shaped(returns=shapes.FINDINGS)
def suspicions(new: NewPart, buckets: Collection[int], bounds: Bounds) -> DataFrame:
    """Return a superset of the findings of `compare` in the new time buckets (epoch ms)."""
    never = F.lit(False)
    emptied = Removed(bounds.emptied_buckets, bounds.removed.expired_before)
    absent = tag_sequence.absent_events(new.events, new.rows, emptied, bounds.pending)
    missing = absent.where(~F.col("is_removed"))
    unwritable = missing.join(
        new.events.where(F.col("cause").isNotNull()).select(*_EVENT), on=_EVENT, how="left_semi"
    )
    rows = new.rows.unionByName(new.before.select(*new.rows.columns))
    placed_progress = frames.placed(new.progress, bounds.bucket_size)
    keys = JournalKeys(
        new.around,
        new.events,
        rows,
        placed_progress,
        new.scanning,
        deleted=new.deleted,
        listed=new.listed,
        unwritable=unwritable,
    )
    parts = [
        tag_sequence.tag_sequence_findings(
            rows, absent.where(never), new.deleted.where(never), Removed()
        ),
        event_findings(keys, bounds.removed, max(buckets), bounds.target_partition_size),
        # Without progress: if progress is ahead too, the lost tail is in its time bucket.
        sequence.lost_tails(
            new.around,
            placed_progress.where(never),
            new.scanning,
            new.deleted,
            new.listed,
            max(buckets),
        ),
        _suspected(missing, checks.UNTAGGED_EVENT, F.col("sequence_nr")),
        _suspected(unwritable.withColumn("tag", F.lit("")), checks.UNWRITABLE_EVENT, F.lit(0)),
        rows_in_doubt(
            new.rows, new.events, [new.events, new.around, new.deleted, new.listed], new.deleted
        ),
        progress_missing(new.rows, new.events, new.progress),
        progress_in_doubt(new, absent, bounds),
        _suspected(_deleted(new), checks.DELETED_TO_AHEAD, F.col("sequence_nr")),
    ]
    return finding.of_buckets(parts, buckets)


@shaped(rows=TAG_ROWS, new=shapes.JOURNAL_EVENTS, deleted=DELETED, returns=shapes.FINDINGS)
def rows_in_doubt(
    rows: DataFrame, new: DataFrame, known: Sequence[DataFrame], deleted: DataFrame
) -> DataFrame:
    """Suspect rows that do not belong to a new event with that tag, in that event's time bucket.

    Rows of deleted events are right, and all rows of an id that was removed permanently. `known`:
    frames with the persistence ids that were not removed. `deleted` was read after the events.
    """
    no_tags = F.array().cast("array<string>")
    tags = F.concat(F.coalesce("tags", no_tags), F.coalesce("pending_tags", no_tags))
    expected = new.select(*_EVENT, "time_bucket", F.explode(tags).alias("tag"))
    ids = reduce(DataFrame.unionByName, (frame.select("persistence_id") for frame in known))
    unexpected = rows.join(expected, on=[*TAGGED_EVENT, "time_bucket"], how="left_anti").join(
        ids.distinct(), on="persistence_id", how="left_semi"
    )
    present = new.select("persistence_id", "sequence_nr", F.lit(True).alias("is_there")).distinct()
    is_of_deleted = F.col("is_there").isNull() & (
        F.col("sequence_nr") <= F.coalesce("deleted_to", F.lit(0))
    )
    in_doubt = (
        unexpected.join(present, on=["persistence_id", "sequence_nr"], how="left")
        .join(deleted, on="persistence_id", how="left")
        .where(~is_of_deleted)
    )
    return _suspected(in_doubt, checks.EXTRA_ROW, F.col("tag_pid_sequence_nr"))


@shaped(rows=TAG_ROWS, new=shapes.JOURNAL_EVENTS, progress=WRITE_PROGRESS, returns=shapes.FINDINGS)
def progress_missing(rows: DataFrame, new: DataFrame, progress: DataFrame) -> DataFrame:
    """Suspect the series with new events or rows that have no progress."""
    event_series = new.where(F.col("cause").isNull()).select(
        "persistence_id", "time_bucket", F.explode("tags").alias("tag")
    )
    series = (
        rows.select("persistence_id", "time_bucket", "tag").unionByName(event_series).distinct()
    )
    without_progress = series.join(progress, on=[*SERIES], how="left_anti")
    return _suspected(without_progress, checks.PROGRESS_MISSING, F.lit(0))


@shaped(absent=shapes.ABSENT, returns=shapes.FINDINGS)
def progress_in_doubt(new: NewPart, absent: DataFrame, bounds: Bounds) -> DataFrame:
    """Suspect progress in the new time buckets that is not of a new row, or not of the last row.

    Progress that names an event whose row was removed is accepted if the event exists.
    """
    row_positions = new.rows.select(
        *SERIES,
        F.col("sequence_nr").alias("progress_sequence_nr"),
        F.col("tag_pid_sequence_nr").alias("progress_number"),
        F.col("timestamp").alias("progress_offset"),
    )
    removed_positions = absent.where("is_removed").select(
        *SERIES,
        F.col("sequence_nr").alias("progress_sequence_nr"),
        F.col("timestamp").alias("progress_offset"),
    )
    unknown = new.progress.join(row_positions, on=row_positions.columns, how="left_anti").join(
        removed_positions, on=removed_positions.columns, how="left_anti"
    )
    last_settled = (
        _settled_series(new, bounds).groupBy(*SERIES).agg(F.max("sequence_nr").alias("settled"))
    )
    before_last = new.progress.join(last_settled, on=[*SERIES], how="inner").where(
        F.col("settled") > F.col("progress_sequence_nr")
    )
    number = F.col("progress_number")
    parts = [
        _suspected(_placed(unknown, bounds), checks.PROGRESS_WRONG, number),
        _suspected(_placed(before_last, bounds), checks.PROGRESS_BEHIND, number),
    ]
    return reduce(DataFrame.unionByName, parts)


def _settled_series(new: NewPart, bounds: Bounds) -> DataFrame:
    """Return the series and sequence nrs whose progress must have been written."""
    tagged = new.events.where(F.col("cause").isNull()).select(
        "persistence_id", "sequence_nr", "ticks", F.explode("tags").alias("tag")
    )
    names = tagged.columns
    all_events = tagged.unionByName(new.rows.select(*names)).unionByName(new.before.select(*names))
    is_deleted = F.col("sequence_nr") <= F.coalesce("deleted_to", F.lit(0))
    return all_events.join(new.deleted, on="persistence_id", how="left").where(
        (F.col("ticks") < bounds.settled_before) | is_deleted
    )


def _deleted(new: NewPart) -> DataFrame:
    """Return the new events that count as deleted."""
    with_deleted_to = new.events.join(new.deleted, on="persistence_id")
    return with_deleted_to.where(F.col("sequence_nr") <= F.col("deleted_to"))


def _placed(progress: DataFrame, bounds: Bounds) -> DataFrame:
    with_bucket = frames.placed(progress, bounds.bucket_size)
    return with_bucket.withColumnRenamed("progress_bucket", "time_bucket")


def _suspected(rows: DataFrame, check: Check, number: Column) -> DataFrame:
    rule = FindingRule(check, F.lit(True), number, F.lit(None), F.lit("in doubt"))
    return findings_of(rows.where(F.col("time_bucket").isNotNull()), [rule])
