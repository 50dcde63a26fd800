"""What the candidates of a batch show before they are validated."""

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
    """How many series need a closer look.

    Attributes:
        first: series that begin after events that were deleted or purged, or have expired.
        suspects: series that may have lost events since they were consumed last.
        repeated: series in which a number is there twice.
        unprocessed: series that are consumed over events before the projection's first time bucket.
    """

    first: int
    suspects: int
    repeated: int
    unprocessed: int

    @property
    def warnings(self) -> list[str]:
        """Lines for people on the series in `unprocessed`."""
        if not self.unprocessed:
            return []
        return [
            f"warning: {self.unprocessed:,} series have events before the projection's first time"
            " bucket that came after it had begun: they are consumed, and in no result"
        ]


def count_encounters(seen: Candidates) -> Encounters:
    """Count the series that need a closer look."""
    is_new = F.col("stored_number").isNull() & F.col("reached_timeuuid").isNotNull()
    is_behind = (F.col("base") > 0) & ~F.coalesce(
        F.col("first_before") <= F.col("base"), F.lit(False)
    )
    consumed_to = F.when(F.col("tag") == NO_TAG, F.col("reached_number")).otherwise(
        F.col("reached_sequence_nr")
    )
    is_suspect = F.col("stored_number").isNotNull() & (F.col("deleted_to") > consumed_to)
    # Before all were met, those events are older than the projection.
    is_met = F.col("stored_number").isNotNull() | F.lit(seen.has_met_all)
    is_unprocessed = F.col("first_before") <= F.col("reached_number")
    counts = seen.reached.agg(
        F.count_if(is_new & is_behind).alias("first"),
        F.count_if(is_suspect).alias("suspects"),
        F.count_if("is_repeated").alias("repeated"),
        F.count_if(is_met & is_unprocessed).alias("unprocessed"),
    ).collect()[0]
    return Encounters(counts["first"], counts.suspects, counts.repeated, counts.unprocessed)


@shaped(late_rows=KEYS)
def has_lost(seen: Candidates, late_rows: DataFrame) -> bool:
    """Return whether an accepted late event is not among the rows of its time bucket any more.

    It was deleted, or has expired, after it was seen: the frontier must not move over it.
    """
    event = [*SERIES, "number"]
    accepted = _late(seen).where(_IS_ACCEPTED)
    return not accepted.join(late_rows, on=event, how="left_anti").isEmpty()


def find_late(seen: Candidates) -> tuple[list[int], dict[int, int]]:
    """Return the done buckets with an accepted event; by bucket, the late events behind a gap."""
    by_bucket = (
        _late(seen)
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


def _late(seen: Candidates) -> DataFrame:
    """Return the late events, each with the limits of its series."""
    limits = seen.reached.select(*SERIES, "base", "reached_number")
    late = seen.rows.where("is_late").select("time_bucket", *SERIES, "number").distinct()
    return late.join(limits, on=[*SERIES])
