"""Persistence ids that were deleted as a whole and began anew at sequence nr 1.

The rule of Akka's accept-sequence-number-reset-after (docs/real-systems.md, "Restart of a
persistence id"): an event at or below the stored number is not a duplicate if its timestamp is more
than that behind the stored one's. Then only events behind that time count, and they are counted
from 1: the one case in which a frontier goes back. Of the former life there must be nothing left in
the journal.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journal.series import SERIES
from tidemark.partitioning import columns


def of_present_life(seen: DataFrame, anew: DataFrame) -> DataFrame:
    """What is seen, without the former lives. Columns in and out: those of `Sightings.rows`."""
    is_former = columns.timeuuid_ticks(F.col("timestamp")) <= F.col("former_ticks")
    with_restart_marks = seen.join(anew, on=[*SERIES], how="left")
    return with_restart_marks.where(~F.coalesce(is_former, F.lit(False))).drop("former_ticks")


def with_restarts(stored: DataFrame, anew: DataFrame | None) -> DataFrame:
    """What is stored, where a series that began anew has 0. Columns: those of `stored`."""
    if anew is None:
        return stored
    is_anew = F.col("former_ticks").isNotNull()
    with_restart_marks = stored.join(anew, on=[*SERIES], how="left").withColumns(
        {
            name: F.when(is_anew, F.lit(0)).otherwise(F.col(name)).cast("bigint")
            for name in ("stored_number", "stored_sequence_nr")
        }
    )
    return with_restart_marks.drop("former_ticks")


def with_restart_marks(reached: DataFrame, anew: DataFrame | None) -> DataFrame:
    """How far each series can be consumed, and former_ticks, which `acceptance.judge` heeds."""
    return reached if anew is None else reached.join(anew, on=[*SERIES], how="left")
