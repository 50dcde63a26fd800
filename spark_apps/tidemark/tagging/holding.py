"""The time buckets that are held back because of contradicted persistence ids."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tidemark.tagging.numbering import SERIES


def held_buckets(ranked_events: DataFrame, series: DataFrame, buckets: DataFrame) -> DataFrame:
    """Return the time buckets to hold until the contradiction is repaired.

    A bucket of this run is held if it has any event of a contradicted id. A bucket that was done
    before is held if it has such events beyond the progress: their rows are missing. Events that
    the progress wrongly reaches look like written ones, so the bucket of the id's newest event is
    always held; otherwise the next run would have nothing to do and succeed.

    Columns in: those of `numbering.ranked`; of `series` persistence_id, tag, progress_sequence_nr
    and contradiction; `buckets` as in `transform.mark_covered`. Columns out: time_bucket, unique.
    """
    bad = series.where(F.col("contradiction").isNotNull()).select("persistence_id").distinct()
    reached = series.select(*SERIES, F.col("progress_sequence_nr").alias("reached"))
    covered = (
        ranked_events.select(*SERIES, "sequence_nr", "time_bucket")
        .join(F.broadcast(bad), on="persistence_id", how="left_semi")
        .join(F.broadcast(buckets), on="time_bucket")
        .join(reached, on=SERIES, how="left")
    )
    newest = F.max("sequence_nr").over(Window.partitionBy("persistence_id"))
    is_beyond = F.col("sequence_nr") > F.coalesce("reached", F.lit(0))
    is_held = F.col("is_planned") | (F.col("tag").isNotNull() & is_beyond)
    return (
        covered.withColumn("newest", newest)
        .where(is_held | (F.col("sequence_nr") == F.col("newest")))
        .select("time_bucket")
        .distinct()
    )
