"""Tags whose rows are too few for the bucket size: readers look at each time bucket in vain."""

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
"""Rows of a tag in a day below which the size is too fine: even the next coarser one is for more.

Pekko's manual: thousands of events per day and tag for Day, 100,000s for Hour, millions for Minute,
and "don't use Minute unless necessary".
"""
BUCKETS_ADVISED = 10_000
"""Time buckets up to which it does not matter: a reader from the beginning asks for each of them,
empty or not, one after the other. That is 14 months of Hours, and a week of Minutes."""
_DAY_MS = BucketSize.DAY.milliseconds


@shaped(partitions=shapes.VIEW_SIZES, returns=shapes.FINDINGS)
def too_fine(partitions: DataFrame, size: BucketSize, row_bytes: float) -> DataFrame:
    """Return a finding for each tag whose rows a coarser bucket size would hold as well.

    It concerns no persistence id. Its number is the time buckets from the first row to the last,
    expected those of the size that would fit.

    Args:
        partitions: all of the tag views.
        size: the bucket size.
        row_bytes: the mean bytes of payload in a row (`partition_size.advised`).
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
    few = spans.where((number > BUCKETS_ADVISED) & (a_day < ROWS_A_DAY.get(size, 0)))
    fitting = reduce(
        lambda found, other: found.join(_busiest(partitions, other), on="tag"), coarser, few
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
    placed = fitting.withColumns({"persistence_id": F.lit(""), "time_bucket": no_time_bucket()})
    return findings_of(placed, [rule])


def _buckets(size: BucketSize) -> Column:
    """Return the time buckets of a size from the first row to the last."""
    ends = (columns.time_bucket(F.col(end), size) for end in ("last", "first"))
    last, first = ends
    return ((last - first) / size.milliseconds).cast("bigint") + 1


@shaped(partitions=shapes.VIEW_SIZES)
def _busiest(partitions: DataFrame, size: BucketSize) -> DataFrame:
    """Return of each tag how many rows the largest partition of another size would have."""
    other = columns.time_bucket(F.col("time_bucket"), size).alias("other")
    sums = partitions.groupBy("tag", other).agg(F.sum("rows").alias("rows"))
    return sums.groupBy("tag").agg(F.max("rows").alias(f"busiest_{size}"))
