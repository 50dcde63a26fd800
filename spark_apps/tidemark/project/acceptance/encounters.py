"""Counts the series of a batch that need further checks, and finds its late events."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko.series import NO_TAG, SERIES
from tidemark.project.acceptance.candidates import Candidates
from tidemark.project.shapes import KEYS
from tidemark.spark.shapes import shaped

_IS_BEYOND = "number > reached_number"
_IS_ACCEPTED = "number > base AND number <= reached_number"


@dataclass(frozen=True)
class Encounters:
    """Numbers of series that need further checks.

    Attributes:
        first: series that begin after events that were deleted or purged, or have expired.
        suspects: series that may have lost events since they were last consumed.
        repeated: series in which a number occurs twice.
        unprocessed: series whose frontier passes unprocessed events before the first time bucket.
    """

    first: int
    suspects: int
    repeated: int
    unprocessed: int

    @property
    def warnings(self) -> list[str]:
        """A warning about the series in `unprocessed`."""
        if not self.unprocessed:
            return []
        return [
            f"warning: {self.unprocessed:,} series have events before the projection's first time"
            " bucket that came after it had begun: they are consumed, and in no result"
        ]


def count_encounters(candidates: Candidates) -> Encounters:
    """Count the series that need further checks."""
    is_new = F.col("stored_number").isNull() & F.col("reached_timeuuid").isNotNull()
    is_after_lost = (F.col("base") > 0) & ~F.coalesce(
        F.col("first_before") <= F.col("base"), F.lit(False)
    )
    consumed_to = F.when(F.col("tag") == NO_TAG, F.col("reached_number")).otherwise(
        F.col("reached_sequence_nr")
    )
    is_suspect = F.col("stored_number").isNotNull() & (F.col("deleted_to") > consumed_to)
    # Until runs have seen all persistence ids, such events are older than the projection.
    is_seen_before = F.col("stored_number").isNotNull() | F.lit(candidates.has_met_all)
    is_unprocessed = F.col("first_before") <= F.col("reached_number")
    counts = candidates.reached.agg(
        F.count_if(is_new & is_after_lost).alias("first"),
        F.count_if(is_suspect).alias("suspects"),
        F.count_if("is_repeated").alias("repeated"),
        F.count_if(is_seen_before & is_unprocessed).alias("unprocessed"),
    ).collect()[0]
    return Encounters(counts["first"], counts.suspects, counts.repeated, counts.unprocessed)


@shaped(late_rows=KEYS)
def has_lost(candidates: Candidates, late_rows: DataFrame) -> bool:
    """Return whether an accepted late event is no longer among the rows of its time bucket.

    Then it was deleted or expired meanwhile, and the frontier must not move over it.
    """
    event = [*SERIES, "number"]
    accepted = _late(candidates).where(_IS_ACCEPTED)
    return not accepted.join(late_rows, on=event, how="left_anti").isEmpty()


def find_late(candidates: Candidates) -> tuple[list[int], dict[int, int]]:
    """Return the buckets with accepted late events, and counts by bucket of those after a gap."""
    by_bucket = (
        _late(candidates)
        .groupBy("time_bucket")
        .agg(
            F.expr(f"count_if({_IS_ACCEPTED}) AS accepted"),
            F.expr(f"count_if({_IS_BEYOND}) AS beyond"),
        )
        .where("accepted > 0 OR beyond > 0")
        .collect()
    )
    accepted = sorted(row.time_bucket for row in by_bucket if row.accepted)
    return accepted, {row.time_bucket: row.beyond for row in by_bucket if row.beyond}


def _late(candidates: Candidates) -> DataFrame:
    """Return the late events, each with the limits of its series."""
    limits = candidates.reached.select(*SERIES, "base", "reached_number")
    late = candidates.rows.where("is_late").select("time_bucket", *SERIES, "number").distinct()
    return late.join(limits, on=[*SERIES])
