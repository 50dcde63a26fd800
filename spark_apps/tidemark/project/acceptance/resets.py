"""Persistence ids that were deleted completely and began again at sequence nr 1.

The rule of Akka's accept-sequence-number-reset-after (docs/real-systems.md, "Restart of a
persistence id"): an event at or below the stored number is not a duplicate if it is more than that
duration later than the stored event. Then only events after that time count, from number 1: the
only case in which a frontier moves back. The journal must hold no event of the former life.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko.series import SERIES
from tidemark.partitioning import columns
from tidemark.project import shapes
from tidemark.spark.shapes import shaped


@shaped(sightings=shapes.SIGHTINGS, restarted=shapes.RESTARTED, returns=shapes.SIGHTINGS)
def of_present_life(sightings: DataFrame, restarted: DataFrame) -> DataFrame:
    """Drop the candidates that belong to former lives."""
    is_former = columns.timeuuid_ticks(F.col("event_timeuuid")) <= F.col("former_ticks")
    marked = sightings.join(restarted, on=[*SERIES], how="left")
    return marked.where(~F.coalesce(is_former, F.lit(False))).drop("former_ticks")


@shaped(offsets=shapes.STORED, restarted=shapes.RESTARTED, returns=shapes.STORED)
def with_restarts(offsets: DataFrame, restarted: DataFrame | None) -> DataFrame:
    """Set the stored numbers of series that began again to 0."""
    if restarted is None:
        return offsets
    is_restarted = F.col("former_ticks").isNotNull()
    numbers = {
        name: F.when(is_restarted, F.lit(0)).otherwise(F.col(name)).cast("bigint")
        for name in ("stored_number", "stored_sequence_nr")
    }
    marked = offsets.join(restarted, on=[*SERIES], how="left").withColumns(numbers)
    return marked.drop("former_ticks")


@shaped(reached=shapes.FRONTIERS, restarted=shapes.RESTARTED, returns=shapes.FRONTIERS)
def with_restart_marks(reached: DataFrame, restarted: DataFrame | None) -> DataFrame:
    """Add former_ticks to the frontiers of restarted series, for `rule.validate_events`."""
    return reached if restarted is None else reached.join(restarted, on=[*SERIES], how="left")
