"""The comparison of tag_write_progress and tag_scanning with messages, as pure transformations.

Progress may lag, never lead: a recovering actor continues to number after it, and skips every event
up to it. tag_scanning is only where a recovery begins to search for untagged events below a
snapshot: a low value costs time, a high value loses tags. Source: docs/real-systems.md, "What an
actor writes" and "How an actor recovers".
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko.series import SERIES
from tidemark.journals.pekko.shapes import (
    DELETED,
    PLACED_EVENTS,
    SCANNING,
    TAG_ROWS,
    WRITE_PROGRESS,
)
from tidemark.spark.shapes import shaped
from tidemark.validate.findings import checks
from tidemark.validate.tag_views import finding_kinds, shapes
from tidemark.validate.tag_views.bounds import Bounds
from tidemark.validate.tag_views.expected import REMOVED, sequence_ends


@shaped(
    expected=shapes.SETTLED,
    progress={**WRITE_PROGRESS, **shapes.REACHED},
    deleted_rows=TAG_ROWS,
    deleted=DELETED,
    ends=shapes.SEQUENCE_ENDS,
    returns=finding_kinds.COLUMNS,
)
def progress_findings(
    expected: DataFrame,
    progress: DataFrame,
    deleted_rows: DataFrame,
    deleted: DataFrame,
    ends: DataFrame,
    bounds: Bounds,
) -> DataFrame:
    """Find progress that is missing, behind, ahead or wrong.

    Progress must name an event that carries the tag, with that event's number and timeuuid, and no
    event before the last settled event. If the event is lost, only the number can be wrong. If all
    events of a tag are deleted, progress is compared with their rows: the next event must get a
    higher number.
    """
    highest_deleted = F.max(F.struct("tag_pid_sequence_nr", "sequence_nr", "timestamp"))
    compared = (
        _series(expected, progress, bounds)
        .join(progress, on=[*SERIES], how="full")
        .join(ends, on="persistence_id", how="left")
        .join(
            deleted_rows.groupBy(*SERIES).agg(highest_deleted.alias("gone")),
            on=[*SERIES],
            how="full",
        )
        .join(deleted, on="persistence_id", how="left")
    )
    remains = F.col("last").isNotNull()
    is_removed = F.coalesce(F.col("deleted_to") == REMOVED, F.lit(False))
    kind = (
        # The persistence id will get no further numbers.
        F.when(is_removed, F.lit(None))
        .when(remains, _kind_if_events_remain())
        .otherwise(_kind_if_all_are_deleted())
    )
    return finding_kinds.difference(
        compared.withColumn("kind", kind).where(F.col("kind").isNotNull()),
        kind=F.col("kind"),
        tag=F.col("tag"),
        sequence_nr=F.coalesce("progress_sequence_nr", _target("sequence_nr")),
        timestamp=F.coalesce("progress_offset", _target("timestamp")),
        number=F.col("progress_number"),
        expected_sequence_nr=_target("sequence_nr"),
        expected_timestamp=_target("timestamp"),
        expected_number=F.coalesce("due.expected_number", "gone.tag_pid_sequence_nr"),
    )


@shaped(
    index=PLACED_EVENTS,
    scanning=SCANNING,
    deleted=DELETED,
    lost_rows=TAG_ROWS,
    returns=finding_kinds.COLUMNS,
)
def scanning_findings(
    index: DataFrame, scanning: DataFrame, deleted: DataFrame, lost_rows: DataFrame, bounds: Bounds
) -> DataFrame:
    """Find rows of tag_scanning after every event that exists or existed.

    If rows of lost events show that there was a tail, scanning is not wrong. As it has no time, a
    finding is in the newest compared time bucket, unless the persistence id has events after that;
    so it is reported until it is repaired. `lost_rows`: `rows_of_lost_events`.
    """
    last = F.greatest("highest_sequence_nr", "deleted_to")
    tails = (
        lost_rows.join(sequence_ends(index), on="persistence_id", how="left")
        .where(F.col("sequence_nr") > F.coalesce("highest_sequence_nr", F.lit(0)))
        .select("persistence_id")
    )
    newest = index.groupBy("persistence_id").agg(F.max("time_bucket").alias("newest_bucket"))
    is_over = F.coalesce(F.col("newest_bucket") <= bounds.last_bucket, F.lit(True))
    ahead = (
        scanning.join(sequence_ends(index), on="persistence_id", how="left")
        .join(newest, on="persistence_id", how="left")
        .join(deleted, on="persistence_id", how="left")
        .withColumn("expected_sequence_nr", last)
        .where((F.col("scanned_to") > F.col("expected_sequence_nr")) & is_over)
        .withColumn("expected_time_bucket", F.lit(bounds.last_bucket))
        .join(tails, on="persistence_id", how="left_anti")
    )
    return _of_scanning(ahead, F.lit(""))


@shaped(
    row_findings=finding_kinds.COLUMNS,
    progress=WRITE_PROGRESS,
    scanning=SCANNING,
    returns=finding_kinds.COLUMNS,
)
def skipped_findings(
    row_findings: DataFrame, progress: DataFrame, scanning: DataFrame
) -> DataFrame:
    """Find rows of tag_scanning after an event that has no row and is after the progress.

    If there is a snapshot after such an event, a recovery would never tag it. Once the row is
    written, scanning is right. A finding is in the time bucket of the first such event;
    expected_sequence_nr is its sequence nr.
    """
    skipped = (
        row_findings.where(F.col("kind") == checks.UNTAGGED_EVENT.name)
        .select(*SERIES, "sequence_nr", "expected_time_bucket")
        .join(progress, on=[*SERIES], how="left")
        .where(F.col("sequence_nr") > F.coalesce("progress_sequence_nr", F.lit(0)))
        .join(scanning, on="persistence_id", how="inner")
        .where(F.col("sequence_nr") < F.col("scanned_to"))
        .groupBy(*SERIES, "scanned_to")
        .agg(F.min(F.struct("sequence_nr", "expected_time_bucket")).alias("first"))
        .select(
            *SERIES,
            "scanned_to",
            F.col("first.sequence_nr").alias("expected_sequence_nr"),
            "first.expected_time_bucket",
        )
    )
    return _of_scanning(skipped, F.col("tag"))


def _series(expected: DataFrame, progress: DataFrame, bounds: Bounds) -> DataFrame:
    """Return the events of each series with which its progress is compared.

    Columns out: SERIES, and as (sequence_nr, ticks, expected_number, timestamp) or null: last, the
    last event; due, the last event that must have been written; settled, the last event whose
    progress must have been written; here, the last event up to the progress.
    """
    event = F.struct("sequence_nr", "ticks", "expected_number", "timestamp")
    is_due = F.col("ticks") < bounds.written_before
    is_here = F.col("sequence_nr") <= F.col("progress_sequence_nr")
    return (
        expected.join(progress, on=[*SERIES], how="left")
        .groupBy(*SERIES)
        .agg(
            F.max(event).alias("last"),
            F.max(F.when(is_due, event)).alias("due"),
            F.max(F.when(F.col("is_settled"), event)).alias("settled"),
            F.max(F.when(is_here, event)).alias("here"),
        )
    )


def _kind_if_events_remain() -> Column:
    is_exact = (
        (F.col("here.sequence_nr") == F.col("progress_sequence_nr"))
        & (F.col("here.expected_number") == F.col("progress_number"))
        & (F.col("here.timestamp") == F.col("progress_offset"))
    )
    is_of_lost_event = _is_of_lost_event()
    is_ahead = (F.col("progress_sequence_nr") > F.col("last.sequence_nr")) | (
        F.col("progress_number") > F.col("last.expected_number")
    )
    return (
        # Only events whose rows may not be written yet: progress cannot be judged.
        F.when(F.col("due").isNull(), F.lit(None))
        .when(
            F.col("progress_sequence_nr").isNull(),
            F.when(F.col("settled").isNotNull(), checks.PROGRESS_MISSING.name),
        )
        .when(is_ahead & ~is_of_lost_event, checks.PROGRESS_AHEAD.name)
        .when(
            F.col("progress_sequence_nr") < F.col("settled.sequence_nr"),
            checks.PROGRESS_BEHIND.name,
        )
        .when(F.col("here").isNull() | is_exact | is_of_lost_event, F.lit(None))
        .otherwise(checks.PROGRESS_WRONG.name)
    )


def _kind_if_all_are_deleted() -> Column:
    is_ahead = F.col("progress_sequence_nr") > F.coalesce("deleted_to", F.lit(0))
    is_behind = F.col("progress_number") < F.col("gone.tag_pid_sequence_nr")
    return (
        F.when(F.col("progress_sequence_nr").isNull(), checks.PROGRESS_MISSING.name)
        .when(is_ahead & ~_is_of_lost_event(), checks.PROGRESS_AHEAD.name)
        .when(is_behind, checks.PROGRESS_BEHIND.name)
    )


def _is_of_lost_event() -> Column:
    """Return whether progress names a lost event with a number that the event can have had."""
    is_of_lost_event = (
        ~F.col("is_event_there")
        & (F.col("progress_sequence_nr") < F.col("highest_sequence_nr"))
        & (F.col("progress_number") == F.col("reached_number"))
    )
    return F.coalesce(is_of_lost_event, F.lit(False))


def _target(name: str) -> Column:
    return F.coalesce(f"due.{name}", f"gone.{name}")


def _of_scanning(rows: DataFrame, tag: Column) -> DataFrame:
    return finding_kinds.difference(
        rows,
        kind=F.lit(checks.SCANNING_AHEAD.name),
        tag=tag,
        sequence_nr=F.col("scanned_to"),
        expected_sequence_nr=F.col("expected_sequence_nr"),
        expected_time_bucket=F.col("expected_time_bucket"),
    )
