"""Missing numbers: gaps that hold events back, and numbers that were purged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from tidemark.errors import HistoryPurged
from tidemark.journals.pekko.series import NO_TAG, SERIES, numbers, series_name
from tidemark.ledger.piece import GAP_ERROR
from tidemark.project import shapes
from tidemark.project.acceptance.rule import FOLLOWS, held_back, is_rejected
from tidemark.project.definition.model import Definition
from tidemark.spark.shapes import shaped

NAMED = 3
"""Series that an error names, for one time bucket or one projection."""
KEPT = 1000
"""Ranges of missing numbers that the table stores for one time bucket."""
_MOST_MISSING = 10_000
"""Ranges of missing numbers stored for one batch."""
_HOLES = 5
"""Holes of one series that an error names."""


@shaped(
    validated=shapes.VALIDATED,
    candidates=shapes.IN_SERIES,
    reached=shapes.SERIES,
    returns=shapes.GAPS,
)
def of_buckets(validated: DataFrame, candidates: DataFrame, reached: DataFrame) -> DataFrame:
    """Find the series that hold events of a time bucket back.

    `validated` is the result of `rule.validate_events`; `candidates` has the columns CANDIDATES,
    and `reached` FRONTIERS.
    """
    rejected = validated.where(is_rejected())
    limits = reached.select(*SERIES, F.col("reached_number").alias("limit"))
    series = rejected.select(*SERIES).distinct().join(limits, on=[*SERIES], how="left")
    next_number = F.coalesce(F.col("limit"), F.lit(0)) + 1
    series = series.select(*SERIES, next_number.alias("next_number"))
    follows = [FOLLOWS] if FOLLOWS in candidates.columns else []
    seen_numbers = rejected.select(*SERIES, "number").unionByName(
        candidates.select(*SERIES, "number", *follows), allowMissingColumns=True
    )
    follows_of = F.max(FOLLOWS) if follows else F.lit(None).cast("bigint")
    seen_numbers = seen_numbers.groupBy(*SERIES, "number").agg(follows_of.alias(FOLLOWS))
    beyond = seen_numbers.join(series, on=[*SERIES])
    beyond = beyond.where(F.col("number") >= F.col("next_number"))
    previous = F.lag("number").over(Window.partitionBy(*SERIES).orderBy("number"))
    hole = F.struct(
        F.coalesce(previous + 1, F.col("next_number")).alias("first"),
        (F.col("number") - 1).alias("last"),
    )
    # A number that was never written is not missing.
    is_hole = (F.col("hole.first") <= F.col("hole.last")) & F.coalesce(
        F.col(FOLLOWS) >= F.col("hole.first"), F.lit(True)
    )
    holes = (
        beyond.withColumn("hole", hole)
        .groupBy(*SERIES)
        .agg(
            F.min("number").alias("first_seen"),
            F.max(F.col("number") == F.col("next_number")).alias("is_next_seen"),
            F.array_sort(F.collect_list(F.when(is_hole, F.col("hole")))).alias("holes"),
        )
    )
    return (
        rejected.groupBy("time_bucket", *SERIES)
        .agg(F.max("number").alias("highest"))
        .join(series, on=[*SERIES])
        .join(holes, on=[*SERIES])
        .withColumn("holes", F.expr("filter(holes, hole -> hole.first <= highest)"))
        .select("time_bucket", *SERIES, "next_number", "first_seen", "is_next_seen", "holes")
    )


@shaped(gaps=shapes.GAPS, returns=shapes.GAPS)
def named(gaps: DataFrame) -> DataFrame:
    """Choose the first few series of each bucket, with their first few holes, for `errors`.

    Columns: GAPS, and series (how many the bucket has in all).
    """
    by_bucket = Window.partitionBy("time_bucket")
    return (
        gaps.withColumn("series", F.count(F.lit(1)).over(by_bucket))
        .withColumn("rank", F.row_number().over(by_bucket.orderBy(*SERIES)))
        .where(F.col("rank") <= NAMED)
        .withColumn("holes", F.slice("holes", 1, _HOLES + 1))
        .drop("rank")
    )


@shaped(gaps=shapes.GAPS, returns=shapes.MISSING)
def missing(gaps: DataFrame) -> DataFrame:
    """List the missing numbers, the lowest of each bucket first, at most KEPT rows of a bucket."""
    holes = gaps.select("time_bucket", *SERIES, F.explode("holes").alias("hole"))
    holes = holes.select(
        "time_bucket",
        *SERIES,
        F.col("hole.first").alias("first_number"),
        F.col("hole.last").alias("last_number"),
    )
    in_order = Window.partitionBy("time_bucket").orderBy(*SERIES, "first_number")
    return holes.withColumn("rank", F.row_number().over(in_order)).where(
        F.col("rank") <= KEPT
    ).drop("rank")  # fmt: skip


def errors(named_gaps: Sequence[Row]) -> dict[int, str]:
    """Describe the gaps of each time bucket in one line, from the rows of `named`."""
    ordered = sorted(named_gaps, key=lambda row: (row.time_bucket, row.persistence_id, row.tag))
    lines = {}
    for bucket, rows in groupby(ordered, key=lambda row: int(row.time_bucket)):
        bucket_rows = list(rows)
        more = bucket_rows[0].series - len(bucket_rows)
        parts = [_describe(row) for row in bucket_rows] + ([f"and {more:,} more"] if more else [])
        lines[bucket] = f"{GAP_ERROR} {', '.join(parts)}"
    return lines


def _describe(row: Row) -> str:
    name = series_name(row.persistence_id, row.tag)
    if row.is_next_seen or not row.holes:
        return f"{name} {row.first_seen} held"
    shown = [numbers(hole.first, hole.last) for hole in row.holes[:_HOLES]]
    return f"{name} {' '.join(shown)}{' ...' if len(row.holes) > _HOLES else ''} missing"


@shaped(
    reached=shapes.FRONTIERS,
    sightings={**shapes.IN_SERIES, "is_there": "boolean"},
    returns=shapes.RANGES,
)
def purged(reached: DataFrame, sightings: DataFrame) -> DataFrame:
    """Find numbers above a stored one that were deleted before they could be consumed.

    For a persistence id, these are the numbers up to deleted_to. For a tag, they are missing
    numbers if at least as many sequence nrs were deleted after the last consumed one.
    """
    met = reached.where(F.col("stored_number").isNotNull())
    beyond = sightings.where("is_there").select(*SERIES, "number").join(met, on=[*SERIES])
    following = (
        beyond.where(F.col("number") > F.col("reached_number"))
        .groupBy(*SERIES)
        .agg((F.min("number") - 1).alias("hole_end"))
    )
    is_id = F.col("tag") == NO_TAG
    last = F.when(is_id, F.col("deleted_to")).otherwise(F.col("hole_end"))
    room = F.col("deleted_to") - F.when(is_id, F.col("reached_number")).otherwise(
        F.col("reached_sequence_nr")
    )
    series = met.join(following, on=[*SERIES], how="left").withColumn("last_number", last)
    is_lost = (F.col("last_number") > F.col("reached_number")) & (
        room >= F.col("last_number") - F.col("reached_number")
    )
    first = (F.col("reached_number") + 1).alias("first_number")
    return series.where(is_lost).select(*SERIES, first, "last_number")


def purged_error(definition: Definition, named: Sequence[Row], number: int) -> HistoryPurged:
    """Return the error of `number` rows of `purged`; `named` are the rows that it names."""
    parts = [
        f"{series_name(row.persistence_id, row.tag)} {numbers(row.first_number, row.last_number)}"
        for row in named
    ]
    more = number - len(named)
    parts += [f"and {more:,} more"] if more else []
    return HistoryPurged(
        "events were deleted before the projection consumed them: " + ", ".join(parts),
        where=definition.name,
        do="bring them back, or give them up with --accept-purged-id",
    )


@dataclass(frozen=True)
class HeldBack:
    """The events of a batch that must not be consumed, and what they wait for.

    Attributes:
        errors: one line for each time bucket that has such an event.
        missing: rows of the function `missing`; bounded.
        events: persistence_id, sequence_nr; in memory. None if no event is held back.
    """

    errors: Mapping[int, str] = field(default_factory=dict)
    missing: Sequence[Row] = ()
    events: DataFrame | None = None

    def without(self, rows: DataFrame) -> DataFrame:
        """Drop the events held back from `rows`."""
        if self.events is None:
            return rows
        return rows.join(self.events, on=["persistence_id", "sequence_nr"], how="left_anti")


def find_held_back(validated: DataFrame, candidates: DataFrame, reached: DataFrame) -> HeldBack:
    """Find the events that must not be consumed; the arguments are those of `of_buckets`."""
    gaps = of_buckets(validated, candidates, reached).localCheckpoint()
    return HeldBack(
        errors(named(gaps).collect()),
        missing(gaps).limit(_MOST_MISSING).collect(),
        held_back(validated).localCheckpoint(),
    )
