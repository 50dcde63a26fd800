"""tag_write_progress and tag_scanning against messages, as pure transformations.

Progress may lag, never lead: an actor that recovers numbers on from it, and skips every event up
to it. tag_scanning only says from where a recovery looks for untagged events below a snapshot, so
a low one costs time and a high one loses tags. Source: docs/real-systems.md, "What an actor writes"
and "How an actor recovers".
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
    gone=TAG_ROWS,
    deleted=DELETED,
    ends=shapes.SEQUENCE_ENDS,
    returns=finding_kinds.COLUMNS,
)
def progress_findings(
    expected: DataFrame,
    progress: DataFrame,
    gone: DataFrame,
    deleted: DataFrame,
    ends: DataFrame,
    bounds: Bounds,
) -> DataFrame:
    """Find progress that is missing, behind, ahead or wrong.

    Progress must name an event that carries the tag, with that event's number and timeuuid, and not
    one before the last settled event. Where the event is lost, only the number can be wrong. Once
    all events of a tag are gone, progress is compared with their rows: the next event must get a
    higher number.
    """
    highest_gone = F.max(F.struct("tag_pid_sequence_nr", "sequence_nr", "timestamp"))
    compared = (
        _series(expected, progress, bounds)
        .join(progress, on=[*SERIES], how="full")
        .join(ends, on="persistence_id", how="left")
        .join(gone.groupBy(*SERIES).agg(highest_gone.alias("gone")), on=[*SERIES], how="full")
        .join(deleted, on="persistence_id", how="left")
    )
    remains = F.col("last").isNotNull()
    is_removed = F.coalesce(F.col("deleted_to") == REMOVED, F.lit(False))
    kind = (
        # Nobody will number on.
        F.when(is_removed, F.lit(None))
        .when(remains, _kind_if_events_remain())
        .otherwise(_kind_if_all_are_gone())
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
    lost=TAG_ROWS,
    returns=finding_kinds.COLUMNS,
)
def scanning_findings(
    index: DataFrame, scanning: DataFrame, deleted: DataFrame, lost: DataFrame, bounds: Bounds
) -> DataFrame:
    """Find rows of tag_scanning beyond every event that there is or was.

    Where rows of lost events show that there was a tail, scanning is not what is wrong. As it has
    no time, a finding lies in the newest time bucket that is compared, unless the persistence id
    has events after that; so it is told until it is put right.

    Args:
        index: all events.
        scanning: tag_scanning.
        deleted: read after the events.
        lost: `rows_of_lost_events`.
        bounds: the events and rows to compare.
    """
    last = F.greatest("highest_sequence_nr", "deleted_to")
    tails = (
        lost.join(sequence_ends(index), on="persistence_id", how="left")
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
    """Find rows of tag_scanning beyond an event that has no row and lies beyond the progress.

    If there is a snapshot behind such an event, a recovery would never tag it. Once the row is
    repaired, the scanning is right.

    A finding lies in the time bucket of the first such event; expected_sequence_nr is its sequence
    nr.
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
    """Return the events of each series that its progress is compared with.

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
        # Only events that are still on their way: nothing can be said.
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


def _kind_if_all_are_gone() -> Column:
    is_ahead = F.col("progress_sequence_nr") > F.coalesce("deleted_to", F.lit(0))
    is_behind = F.col("progress_number") < F.col("gone.tag_pid_sequence_nr")
    return (
        F.when(F.col("progress_sequence_nr").isNull(), checks.PROGRESS_MISSING.name)
        .when(is_ahead & ~_is_of_lost_event(), checks.PROGRESS_AHEAD.name)
        .when(is_behind, checks.PROGRESS_BEHIND.name)
    )


def _is_of_lost_event() -> Column:
    """Return whether progress names an event that is lost, and the number that it can have had."""
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
