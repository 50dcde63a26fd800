"""Partitions of the tag views that are too large for their bucket size."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.continuity import shapes
from tidemark.continuity.findings import checks
from tidemark.continuity.findings.finding import FindingRule, findings_of
from tidemark.journal.shapes import TAG_ROWS
from tidemark.partitioning.keys import BucketSize
from tidemark.spark.shapes import shaped

ROWS_ADVISED = 100_000
"""Rows of a partition up to which a bucket size fits its tag.

Pekko's manual: thousands of events per day and tag for Day, 100,000s for Hour, millions for Minute.
"""
MINUTE_ROWS_ADVISED = 10_000_000
"""The same for Minute, where nothing finer is left ("in the order of 10s of millions")."""


def advised(size: BucketSize) -> int:
    """Return the rows of a partition up to which a bucket size fits."""
    return MINUTE_ROWS_ADVISED if size is BucketSize.MINUTE else ROWS_ADVISED


@shaped(rows=TAG_ROWS, returns=shapes.FINDINGS)
def large_partitions(rows: DataFrame, size: BucketSize) -> DataFrame:
    """Return one finding for each partition with more rows than `advised`.

    It concerns no persistence id. Its number is the rows there are, expected the most there should
    be. `rows` has all rows of each of its partitions.
    """
    counted = rows.groupBy("tag", "time_bucket").agg(F.count("*").alias("rows"))
    number, most = F.col("rows"), advised(size)
    finest_first = sorted(
        (other for other in BucketSize if other.milliseconds < size.milliseconds),
        key=lambda other: other.milliseconds,
    )
    fits = F.lit(f"no bucket size is finer than {size}")
    for other in finest_first:
        # On average; the finest one is the answer if even that is not enough.
        is_enough = number * other.milliseconds <= advised(other) * size.milliseconds
        advice = F.lit(f"bucket size {other} would fit")
        fits = advice if other is finest_first[0] else F.when(is_enough, advice).otherwise(fits)
    detail = F.concat(
        F.format_string(f"%d rows in one {size} partition, at most {most:,} are advised; ", number),
        fits,
    )
    placed = counted.withColumn("persistence_id", F.lit(""))
    rule = FindingRule(checks.TAG_PARTITION_TOO_LARGE, number > most, number, F.lit(most), detail)
    return findings_of(placed, [rule])
