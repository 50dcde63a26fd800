"""Which events a projection may consume: each exactly once, and none before its predecessor.

A series numbers its events 1, 2, 3, ...: a persistence id (tag is '', numbers are sequence nrs), or
a persistence id and tag (numbers are tag pid sequence nrs). Of the distinct numbers above the
stored one the longest contiguous run is accepted and the rest is held back. A reader that validates
the events of a series one by one does the same (docs/real-systems.md, "Validation of an event").
"""

from __future__ import annotations

from enum import StrEnum

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.journals.pekko.series import NO_TAG, SERIES
from tidemark.partitioning import columns
from tidemark.project import shapes
from tidemark.spark.shapes import shaped

RESULT = "result"
FOLLOWS = "follows"


class Validation(StrEnum):
    """The result of validating an event, named as in Pekko's and Akka's projections."""

    ACCEPTED = "Accepted"
    DUPLICATE = "Duplicate"
    REJECTED = "RejectedSeqNr"
    REJECTED_BACKTRACKING = "RejectedBacktrackingSeqNr"


REJECTIONS = (Validation.REJECTED, Validation.REJECTED_BACKTRACKING)


@shaped(
    sightings=shapes.SIGHTINGS,
    offsets=shapes.STORED,
    deleted=shapes.DELETED,
    returns=shapes.FRONTIERS,
)
def advance_frontiers(
    sightings: DataFrame,
    offsets: DataFrame,
    deleted: DataFrame,
    *,
    truncated_from: int | None = None,
) -> DataFrame:
    """Find how far each series can be consumed.

    A series without a stored number begins with its first number in the projection's time buckets
    if that number is 1, if the event before it lies in an older bucket, or if all events before it
    may have been deleted or purged or may have expired. Otherwise the series waits for the earlier
    events; an event in a bucket that may not be consumed yet was not purged.

    Args:
        sightings: rows may repeat. With the column of `jumping`, numbers need not be contiguous.
        offsets: one row for each series.
        deleted: one row for each persistence id.
        truncated_from: a series whose first event is in this time bucket (epoch ms) or a later one
            may have lost all earlier events to purge or a TTL; None if no series can have.
    """
    numbered = _numbered(sightings, offsets, deleted, truncated_from)
    number, base = F.col("event.number"), F.col("base")
    is_new = number > base
    # The last event of a series if this event leaves a hole after it.
    former = F.when(F.col("former.number") > base, F.col("former"))
    previous = F.greatest(F.col("former.number"), base)
    is_hole = number > previous + 1
    if FOLLOWS in sightings.columns:
        is_hole = is_hole & F.coalesce(F.col("event.follows") > previous, F.lit(True))
    is_repeated = (number == F.col("former.number")) | (
        F.col("event.sequence_nr") <= F.col("former.sequence_nr")
    )
    is_above_stored = F.coalesce(number > F.col("stored_number"), F.lit(True))
    constants = ["stored_number", "base", "stored_sequence_nr", "deleted_to"]
    totals = numbered.groupBy(*SERIES).agg(
        *[F.first(name).alias(name) for name in constants],
        F.min(F.when(is_hole, F.struct(number, former.alias("last")))).alias("hole"),
        F.max(F.when(is_new, F.col("event"))).alias("newest"),
        F.max(F.when(~F.col("is_before"), number)).alias("highest_number"),
        F.min(F.when(is_above_stored & F.col("is_before"), number)).alias("first_before"),
        F.coalesce(F.bool_or(is_repeated), F.lit(False)).alias("is_repeated"),
    )
    last = F.when(F.col("hole").isNull(), F.col("newest")).otherwise(F.col("hole.last"))
    sequence_nr = F.coalesce(F.col("last.sequence_nr"), F.col("stored_sequence_nr"))
    return totals.withColumn("last", last).select(
        *SERIES,
        "stored_number",
        "base",
        F.coalesce(F.col("last.number"), F.col("base")).alias("reached_number"),
        sequence_nr.alias("reached_sequence_nr"),
        F.col("last.event_timeuuid").alias("reached_timeuuid"),
        "deleted_to",
        "highest_number",
        "first_before",
        "is_repeated",
    )


@shaped(sightings=shapes.SIGHTINGS, written=shapes.WRITTEN)
def jumping(sightings: DataFrame, written: DataFrame) -> DataFrame:
    """Find the predecessor of each number, where the journal may leave numbers out on purpose.

    Args:
        sightings: all events after the consumed ones, in all time buckets.
        written: all events up to this number are among the sightings.

    Columns: SIGHTINGS, and follows (bigint: the existing number before it, 0 if there is none;
    null if numbers between the two may still arrive).
    """
    in_order = Window.partitionBy(*SERIES).orderBy("number").rangeBetween(
        Window.unboundedPreceding, -1
    )  # fmt: skip
    before = F.coalesce(F.max("number").over(in_order), F.lit(0))
    follows = F.when(F.col("number") <= F.col("written_to"), before).alias(FOLLOWS)
    with_written = sightings.join(written, on="persistence_id", how="left")
    return with_written.select(*sightings.columns, follows)


def _numbered(
    sightings: DataFrame, offsets: DataFrame, deleted: DataFrame, truncated_from: int | None
) -> DataFrame:
    """Add to each consumable event its predecessor (former) and the base of its series.

    A series that has a stored number but no event has one row, without an event. One shuffle and
    one sort do all of it.
    """
    follows = [FOLLOWS] if FOLLOWS in sightings.columns else []
    event = F.struct("number", "event_timeuuid", "sequence_nr", *follows).alias("event")
    consumable = sightings.where("is_there").select(*SERIES, event, "is_before", "time_bucket")
    stored_numbers = offsets.select(*SERIES, "stored_number", "stored_sequence_nr")
    waiting = sightings.where(~F.col("is_there") & F.lit(truncated_from is not None))
    waiting = waiting.select(*SERIES, F.col("number").alias("waiting"), "time_bucket")
    rows = (
        consumable.unionByName(stored_numbers, allowMissingColumns=True)
        .unionByName(waiting, allowMissingColumns=True)
        .repartition("persistence_id")
    )
    in_order = Window.partitionBy(*SERIES).orderBy("event.number", "is_before", "event")
    by_series = Window.partitionBy(*SERIES)
    deleted_to = F.coalesce(F.col("deleted_to"), F.lit(0)).cast("bigint")
    undeleted = F.least(F.col("deleted_to"), F.min("event.number").over(by_series) - 1)
    if truncated_from is not None:
        event_bucket = F.struct(
            F.coalesce("event.number", "waiting").alias("number"), "time_bucket"
        )
        lowest = F.min(F.when(F.col("time_bucket").isNotNull(), event_bucket)).over(by_series)
        unpurged = lowest["number"] - 1
        is_truncated = lowest["time_bucket"] >= truncated_from
        undeleted = F.when(is_truncated, unpurged).otherwise(undeleted)
    beginning = F.struct("event.number", F.col("former.number").alias("predecessor"))
    first = F.min(F.when(~F.col("is_before"), beginning)).over(by_series)
    is_old = F.col("first.predecessor") == F.col("first.number") - 1
    predecessor = F.when(is_old, F.col("first.predecessor"))
    return (
        rows.withColumn("former", F.lag("event").over(in_order))
        .withColumns(
            {
                "first": first,
                **{
                    name: F.max(name).over(by_series)
                    for name in ("stored_number", "stored_sequence_nr")
                },
            }
        )
        .join(deleted, on="persistence_id", how="left")
        .withColumn("deleted_to", deleted_to)
        .withColumn("base", F.coalesce(F.col("stored_number"), predecessor, undeleted))
        .where(F.col("waiting").isNull())
    )


@shaped(reached=shapes.FRONTIERS, sightings=shapes.SIGHTINGS, returns=shapes.FRONTIERS)
def align_tags(reached: DataFrame, sightings: DataFrame) -> DataFrame:
    """Stop each series before an event that is held back under another tag.

    Runs Spark jobs until nothing changes, so both frames should be in memory; the result is.
    """
    consumable = sightings.where(F.col("is_there") & ~F.col("is_before"))
    consumable = consumable.select(*SERIES, "number", "sequence_nr", "event_timeuuid")
    while True:
        limits = reached.select(*SERIES, "base", "reached_number")
        with_limits = consumable.distinct().join(limits, on=[*SERIES])
        is_beyond = F.col("number") > F.col("reached_number")
        held_back = with_limits.where(is_beyond).select("persistence_id", "sequence_nr").distinct()
        accepted = with_limits.where(~is_beyond & (F.col("number") > F.col("base")))
        lower_limits = (
            accepted.join(held_back, on=["persistence_id", "sequence_nr"], how="left_semi")
            .groupBy(*SERIES)
            .agg((F.min("number") - 1).alias("limit"))
            .localCheckpoint()
        )
        if lower_limits.isEmpty():
            return reached
        reached = _lowered(reached, lower_limits, consumable).localCheckpoint()


def _lowered(reached: DataFrame, limits: DataFrame, consumable: DataFrame) -> DataFrame:
    last = consumable.groupBy(*SERIES, F.col("number").alias("limit")).agg(
        F.max(F.struct("event_timeuuid", "sequence_nr")).alias("last")
    )
    at_limits = limits.join(last, on=[*SERIES, "limit"], how="left")
    is_lowered = F.col("limit").isNotNull()
    is_base = F.col("limit") == F.col("base")

    def lowered_or_same(name: str, lowered: Column) -> Column:
        return F.when(is_lowered, lowered).otherwise(F.col(name)).alias(name)

    return reached.join(at_limits, on=[*SERIES], how="left").select(
        *SERIES,
        "stored_number",
        "base",
        lowered_or_same("reached_number", F.col("limit")),
        lowered_or_same("reached_sequence_nr", F.col("last.sequence_nr")),
        lowered_or_same("reached_timeuuid", F.when(~is_base, F.col("last.event_timeuuid"))),
        "deleted_to",
        "highest_number",
        "first_before",
        "is_repeated",
    )


@shaped(rows=shapes.IN_SERIES, reached=shapes.SERIES)
def validate_events(rows: DataFrame, reached: DataFrame, is_back: Column) -> DataFrame:
    """Validate each event; an event of an unknown series is rejected.

    Args:
        rows: with `ticks` if `reached` has former_ticks.
        reached: FRONTIERS, of which base and reached_number are used. With former_ticks
            (`resets.with_restart_marks`), events at or before them were consumed in a former life.
        is_back: whether the projection has processed the row's time bucket before.

    Adds result (string: a `Validation`) and reached_number to the columns of `rows`.
    """
    has_resets = "former_ticks" in reached.columns
    former = ["former_ticks"] if has_resets else []
    limits = reached.select(*SERIES, "base", "reached_number", *former)
    is_consumed = F.col("number") <= F.col("base")
    if has_resets:
        is_consumed = is_consumed | (F.col("ticks") <= F.col("former_ticks"))
    rejection = F.when(is_back, F.lit(str(Validation.REJECTED_BACKTRACKING))).otherwise(
        F.lit(str(Validation.REJECTED))
    )
    result = (
        F.when(is_consumed, F.lit(str(Validation.DUPLICATE)))
        .when(F.col("number") <= F.col("reached_number"), F.lit(str(Validation.ACCEPTED)))
        .otherwise(rejection)
    )
    validated = rows.join(limits, on=[*SERIES], how="left").withColumn(RESULT, result)
    return validated.drop("base", *former)


def is_rejected() -> Column:
    """Return whether a validated event is held back."""
    return F.col(RESULT).isin([str(rejection) for rejection in REJECTIONS])


@shaped(validated={**shapes.EVENT, RESULT: "string"}, returns=shapes.EVENT)
def held_back(validated: DataFrame) -> DataFrame:
    """Find the events that must not be consumed: rejected under a tag and not consumed before."""
    is_any_rejected = F.max(is_rejected())
    is_any_consumed = F.max(F.col(RESULT) == str(Validation.DUPLICATE))
    return (
        validated.groupBy("persistence_id", "sequence_nr")
        .agg(is_any_rejected.alias("is_rejected"), is_any_consumed.alias("is_known"))
        .where(F.col("is_rejected") & ~F.col("is_known"))
        .select("persistence_id", "sequence_nr")
    )


@shaped(reached=shapes.FRONTIERS, returns=shapes.MOVED_OFFSETS)
def offset_rows(reached: DataFrame) -> DataFrame:
    """Return the offsets that move forward.

    Frontiers with snapshot_nr (`snapshots.marked`) yield snapshot_sequence_nr as well.
    """
    moved = reached.where(F.col("reached_timeuuid").isNotNull())
    has_tag = F.col("tag") != NO_TAG
    return moved.select(
        columns.slice_of(F.col("persistence_id")).alias("slice"),
        *SERIES,
        F.col("reached_sequence_nr").alias("sequence_nr"),
        F.when(has_tag, F.col("reached_number")).alias("tag_pid_sequence_nr"),
        F.col("reached_timeuuid").alias("timestamp"),
        *[
            F.col(name).alias("snapshot_sequence_nr")
            for name in reached.columns
            if name == "snapshot_nr"
        ],
    )
