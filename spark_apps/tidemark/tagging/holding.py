"""Which time buckets of persistence ids that contradict themselves are not done."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tidemark.tagging.numbering import SERIES


def held_buckets(ranked_events: DataFrame, series: DataFrame, buckets: DataFrame) -> DataFrame:
    """The time buckets to hold until the contradiction is mended.

    Those of this run with any event of such an id, and of those that were done before the ones with
    events that the progress does not reach: they are without their rows. What the progress wrongly
    reaches cannot be told from what is written; so the bucket of the id's newest event is always
    held, or the next run would have nothing to do and end well.

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
