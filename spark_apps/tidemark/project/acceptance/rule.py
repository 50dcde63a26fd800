"""Which events a projection may consume: each exactly once, and none before its predecessor.

A series numbers its events 1, 2, 3, ...: a persistence id (tag is '', numbers are sequence nrs), or
a persistence id and tag (numbers are tag pid sequence nrs). Of the distinct numbers above the
stored one the longest contiguous run is accepted, the rest is held back: what a reader that judges
the events of a series one by one in their order does (docs/real-systems.md, "Validation of an
event").
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
    """What becomes of an event, by the names that Pekko's and Akka's projections use."""

    ACCEPTED = "Accepted"
    DUPLICATE = "Duplicate"
    REJECTED = "RejectedSeqNr"
    REJECTED_BACKTRACKING = "RejectedBacktrackingSeqNr"


REJECTIONS = (Validation.REJECTED, Validation.REJECTED_BACKTRACKING)


@shaped(
    sightings=shapes.SIGHTINGS,
    stored=shapes.STORED,
    deleted=shapes.DELETED,
    returns=shapes.FRONTIERS,
)
def advance_frontiers(
    sightings: DataFrame,
    stored: DataFrame,
    deleted: DataFrame,
    *,
    truncated_from: int | None = None,
) -> DataFrame:
    """Find how far each series can be consumed.

    A series that nothing is stored of begins with its first number in the projection's time buckets
    if that is 1, if the event before it lies in an older bucket, or if all before it can have been
    deleted or purged, or can have expired. Otherwise the earlier events come first; an event in a
    bucket that may not be consumed yet was not purged.

    Args:
        sightings: rows may repeat. With the column of `jumping` a number may follow one that is
            not the next lower.
        stored: unique.
        deleted: unique.
        truncated_from: a series whose first event is in this time bucket (epoch ms) or a later one
            may have lost all events before it to purge or a TTL; None if no series can have.
    """
    numbered = _numbered(sightings, stored, deleted, truncated_from)
    number, base = F.col("event.number"), F.col("base")
    is_new = number > base
    # What a series ends with if this event cannot follow it.
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
    """Find what each number may follow, where numbers may have been left out on purpose.

    Args:
        sightings: all that there are behind what was consumed, wherever they are.
        written: everything up to this number is among them.

    Columns: SIGHTINGS, and follows (bigint: the number before it, 0 if there is none;
    null if numbers between the two may still come).
    """
    in_order = Window.partitionBy(*SERIES).orderBy("number").rangeBetween(
        Window.unboundedPreceding, -1
    )  # fmt: skip
    before = F.coalesce(F.max("number").over(in_order), F.lit(0))
    follows = F.when(F.col("number") <= F.col("written_to"), before).alias(FOLLOWS)
    known = sightings.join(written, on="persistence_id", how="left")
    return known.select(*sightings.columns, follows)


def _numbered(
    sightings: DataFrame, stored: DataFrame, deleted: DataFrame, truncated_from: int | None
) -> DataFrame:
    """Give each event that is there the event before it (former) and the base of its series.

    A series of which only something is stored has one row, without an event. All of it is one
    shuffle and one sort: the events of a series are numbered where they lie.
    """
    follows = [FOLLOWS] if FOLLOWS in sightings.columns else []
    event = F.struct("number", "event_timeuuid", "sequence_nr", *follows).alias("event")
    there = sightings.where("is_there").select(*SERIES, event, "is_before", "time_bucket")
    known = stored.select(*SERIES, "stored_number", "stored_sequence_nr")
    waiting = sightings.where(~F.col("is_there") & F.lit(truncated_from is not None))
    waiting = waiting.select(*SERIES, F.col("number").alias("waiting"), "time_bucket")
    rows = (
        there.unionByName(known, allowMissingColumns=True)
        .unionByName(waiting, allowMissingColumns=True)
        .repartition("persistence_id")
    )
    in_order = Window.partitionBy(*SERIES).orderBy("event.number", "is_before", "event")
    by_series = Window.partitionBy(*SERIES)
    deleted_to = F.coalesce(F.col("deleted_to"), F.lit(0)).cast("bigint")
    undeleted = F.least(F.col("deleted_to"), F.min("event.number").over(by_series) - 1)
    if truncated_from is not None:
        place = F.struct(F.coalesce("event.number", "waiting").alias("number"), "time_bucket")
        lowest = F.min(F.when(F.col("time_bucket").isNotNull(), place)).over(by_series)
        unpurged = lowest["number"] - 1
        is_truncated = lowest["time_bucket"] >= truncated_from
        undeleted = F.when(is_truncated, unpurged).otherwise(undeleted)
    begins = F.struct("event.number", F.col("former.number").alias("predecessor"))
    first = F.min(F.when(~F.col("is_before"), begins)).over(by_series)
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
    """Stop every series before an event that another of its tags holds back.

    Runs Spark jobs until nothing changes, so both should be in memory; the result is.
    """
    there = sightings.where(F.col("is_there") & ~F.col("is_before"))
    there = there.select(*SERIES, "number", "sequence_nr", "event_timeuuid")
    while True:
        limits = reached.select(*SERIES, "base", "reached_number")
        seen = there.distinct().join(limits, on=[*SERIES])
        is_beyond = F.col("number") > F.col("reached_number")
        held_back = seen.where(is_beyond).select("persistence_id", "sequence_nr").distinct()
        taken = seen.where(~is_beyond & (F.col("number") > F.col("base")))
        first = (
            taken.join(held_back, on=["persistence_id", "sequence_nr"], how="left_semi")
            .groupBy(*SERIES)
            .agg((F.min("number") - 1).alias("limit"))
            .localCheckpoint()
        )
        if first.isEmpty():
            return reached
        reached = _lowered(reached, first, there).localCheckpoint()


def _lowered(reached: DataFrame, limits: DataFrame, there: DataFrame) -> DataFrame:
    last = there.groupBy(*SERIES, F.col("number").alias("limit")).agg(
        F.max(F.struct("event_timeuuid", "sequence_nr")).alias("last")
    )
    at_limits = limits.join(last, on=[*SERIES, "limit"], how="left")
    is_lowered = F.col("limit").isNotNull()
    is_base = F.col("limit") == F.col("base")

    def instead(name: str, lowered: Column) -> Column:
        return F.when(is_lowered, lowered).otherwise(F.col(name)).alias(name)

    return reached.join(at_limits, on=[*SERIES], how="left").select(
        *SERIES,
        "stored_number",
        "base",
        instead("reached_number", F.col("limit")),
        instead("reached_sequence_nr", F.col("last.sequence_nr")),
        instead("reached_timeuuid", F.when(~is_base, F.col("last.event_timeuuid"))),
        "deleted_to",
        "highest_number",
        "first_before",
        "is_repeated",
    )


@shaped(rows=shapes.IN_SERIES, reached=shapes.SERIES)
def validate_events(rows: DataFrame, reached: DataFrame, is_back: Column) -> DataFrame:
    """Decide what becomes of each event; an event of an unknown series is rejected.

    Args:
        rows: with `ticks` if `reached` has former_ticks.
        reached: FRONTIERS, of which base and reached_number are used; perhaps with the mark of
            `resets.with_restart_marks`: events at or before former_ticks were consumed in a
            former life.
        is_back: whether a row lies where the projection has been before.

    All columns of `rows` are kept; result (string: a `Validation`) and reached_number are added.
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
    judged = rows.join(limits, on=[*SERIES], how="left").withColumn(RESULT, result)
    return judged.drop("base", *former)


def is_rejected() -> Column:
    """Return whether a validated event is held back."""
    return F.col(RESULT).isin([str(rejection) for rejection in REJECTIONS])


@shaped(validated={**shapes.EVENT, RESULT: "string"}, returns=shapes.EVENT)
def held_back(validated: DataFrame) -> DataFrame:
    """Find the events that must not be consumed: rejected under a tag, and not consumed before."""
    is_held = F.max(is_rejected())
    is_known = F.max(F.col(RESULT) == str(Validation.DUPLICATE))
    return (
        validated.groupBy("persistence_id", "sequence_nr")
        .agg(is_held.alias("is_rejected"), is_known.alias("is_known"))
        .where(F.col("is_rejected") & ~F.col("is_known"))
        .select("persistence_id", "sequence_nr")
    )


@shaped(reached=shapes.FRONTIERS, returns=shapes.MOVED_OFFSETS)
def offset_rows(reached: DataFrame) -> DataFrame:
    """Return the offsets that move forward.

    With the mark of `snapshots.marked` there is snapshot_sequence_nr as well.
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
