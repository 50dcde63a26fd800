"""Finds persistence ids that began again at number 1."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko.series import SERIES
from tidemark.partitioning import columns, keys
from tidemark.project import shapes
from tidemark.project.sources import read
from tidemark.spark.shapes import shaped

_TICKS_PER_SECOND = 1000 * keys.TICKS_PER_MS


@shaped(
    events={**shapes.IN_SERIES, "event_timeuuid": "string"},
    offsets={**shapes.SERIES, "stored_number": "bigint", "stored_timeuuid": "string"},
    deleted=shapes.DELETED,
    returns=shapes.RESTARTED,
)
def restarted_ids(
    events: DataFrame, offsets: DataFrame, deleted: DataFrame, after: int
) -> DataFrame:
    """Find the series that began again; usually none.

    `events` are the existing events; a stored timeuuid may be null; `after` is in seconds.
    """
    former = columns.timeuuid_ticks(F.col("stored_timeuuid")) + after * _TICKS_PER_SECOND
    limits = offsets.join(deleted, on="persistence_id", how="left").select(
        *SERIES,
        "stored_number",
        former.alias("former_ticks"),
        F.coalesce("deleted_to", F.lit(0)).alias("deleted_to"),
    )
    lower = events.join(limits, on=[*SERIES]).where(
        (F.col("number") > F.col("deleted_to")) & (F.col("number") <= F.col("stored_number"))
    )
    is_later = columns.timeuuid_ticks(F.col("event_timeuuid")) > F.col("former_ticks")
    return lower.where(is_later).select(*SERIES, "former_ticks").distinct()


def rewound_to_restart(
    beginnings: DataFrame,
    offsets: DataFrame,
    deleted: DataFrame,
    after: int,
    fetch: Callable[[DataFrame, int], DataFrame],
) -> DataFrame:
    """Return where to begin for each persistence id: at its first event if that starts a new life.

    `beginnings` says where to begin otherwise; `after` is in seconds; `fetch` is that of
    `increments.in_rounds`.
    """
    lowest = beginnings.select("persistence_id").join(deleted, on="persistence_id", how="left")
    lowest = lowest.select(
        "persistence_id", (F.coalesce("deleted_to", F.lit(0)) + 1).alias("first_nr")
    ).localCheckpoint()
    first_events = read.numbered(fetch(lowest, 1))
    restarted = restarted_ids(first_events, offsets, deleted, after).select("persistence_id")
    firsts = lowest.join(restarted, on="persistence_id", how="left_semi").withColumnRenamed(
        "first_nr", "lowest_nr"
    )
    first = F.coalesce("lowest_nr", "first_nr")
    return (
        beginnings.join(firsts, on="persistence_id", how="left")
        .withColumn("first_nr", first)
        .drop("lowest_nr")
    )
