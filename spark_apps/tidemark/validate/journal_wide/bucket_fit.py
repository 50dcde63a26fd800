"""The check of tags with too few rows for the bucket size: readers read empty time buckets."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.partitioning import columns
from tidemark.partitioning.keys import BucketSize
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.findings import checks
from tidemark.validate.findings.finding import FindingRule, findings_of
from tidemark.validate.findings.partition_size import advised
from tidemark.validate.no_time_bucket import no_time_bucket

ROWS_A_DAY = {BucketSize.MINUTE: 100_000, BucketSize.HOUR: 1000}
"""With fewer rows a day a bucket size is too fine for a tag: even the next coarser is for more.

Pekko's manual: thousands of events per day and tag for Day, 100,000s for Hour, millions for Minute,
and "don't use Minute unless necessary".
"""
BUCKETS_ADVISED = 10_000
"""Up to this number of time buckets a fine size does not matter. A reader from the beginning reads
each of them, empty or not, one after the other. It is 14 months of Hours, or a week of Minutes."""
_DAY_MS = BucketSize.DAY.milliseconds


@shaped(partitions=shapes.VIEW_SIZES, returns=shapes.FINDINGS)
def too_fine(partitions: DataFrame, size: BucketSize, row_bytes: float) -> DataFrame:
    """Return a finding for each tag whose rows a coarser bucket size would fit as well.

    A finding has no persistence id. Its number is the number of time buckets from the first row to
    the last, expected the number with the size that would fit. `partitions`: all of the tag views.
    """
    coarser = sorted(
        (other for other in BucketSize if other.milliseconds > size.milliseconds),
        key=lambda other: other.milliseconds,
    )
    spans = partitions.groupBy("tag").agg(
        F.sum("rows").alias("rows"),
        F.min("time_bucket").alias("first"),
        F.max("time_bucket").alias("last"),
    )
    number = _buckets(size)
    a_day = F.col("rows") * _DAY_MS / (number * size.milliseconds)
    tags_with_few_rows = spans.where((number > BUCKETS_ADVISED) & (a_day < ROWS_A_DAY.get(size, 0)))
    fitting = reduce(
        lambda tags, other: tags.join(_busiest(partitions, other), on="tag"),
        coarser,
        tags_with_few_rows,
    )
    fit, buckets = F.lit(None).cast("string"), F.lit(None).cast("bigint")
    for other in coarser:
        is_enough = F.col(f"busiest_{other}") <= advised(other, row_bytes)
        fit = F.when(is_enough, F.lit(str(other))).otherwise(fit)
        buckets = F.when(is_enough, _buckets(other)).otherwise(buckets)
    detail = F.format_string(
        f"%,d rows in %,d time buckets of size {size}, %.1f a day: readers look at each;"
        " bucket size %s would fit, with %,d",
        *("rows", number, a_day, fit, buckets),
    )
    rule = FindingRule(checks.BUCKET_SIZE_TOO_FINE, fit.isNotNull(), number, buckets, detail)
    without_id = fitting.withColumns({"persistence_id": F.lit(""), "time_bucket": no_time_bucket()})
    return findings_of(without_id, [rule])


def _buckets(size: BucketSize) -> Column:
    """Return the number of time buckets of a size from the first row to the last."""
    ends = (columns.time_bucket(F.col(end), size) for end in ("last", "first"))
    last, first = ends
    return ((last - first) / size.milliseconds).cast("bigint") + 1


@shaped(partitions=shapes.VIEW_SIZES)
def _busiest(partitions: DataFrame, size: BucketSize) -> DataFrame:
    """Return the rows of each tag's largest partition if this were the bucket size."""
    other = columns.time_bucket(F.col("time_bucket"), size).alias("other")
    sums = partitions.groupBy("tag", other).agg(F.sum("rows").alias("rows"))
    return sums.groupBy("tag").agg(F.max("rows").alias(f"busiest_{size}"))
