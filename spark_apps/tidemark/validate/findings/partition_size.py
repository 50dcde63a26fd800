"""The check of partitions of the tag views that are too large for their bucket size."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import TAG_ROWS
from tidemark.partitioning.keys import BucketSize
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.findings import checks
from tidemark.validate.findings.finding import FindingRule, findings_of

ROWS_ADVISED = 100_000
"""The largest number of rows of a partition for which the bucket size fits.

Pekko's manual: thousands of events per day and tag for Day, 100,000s for Hour, millions for Minute.
"""
MINUTE_ROWS_ADVISED = 10_000_000
"""The same for Minute, the finest bucket size ("in the order of 10s of millions")."""

BYTES_ADVISED = 100 << 20
"""The largest size of a partition that Cassandra's manual advises."""


def advised(size: BucketSize, row_bytes: float) -> int:
    """Return the largest number of rows of `row_bytes` in a partition that the bucket size fits."""
    rows = MINUTE_ROWS_ADVISED if size is BucketSize.MINUTE else ROWS_ADVISED
    return min(rows, int(BYTES_ADVISED / max(row_bytes, 1)))


@shaped(rows=TAG_ROWS, returns=shapes.VIEW_SIZES)
def sizes(rows: DataFrame) -> DataFrame:
    """Count the rows of each partition of the tag views."""
    return rows.groupBy("tag", "time_bucket").agg(F.count(F.lit(1)).alias("rows"))


@shaped(partitions=shapes.VIEW_SIZES, returns=shapes.FINDINGS)
def large_partitions(partitions: DataFrame, size: BucketSize, row_bytes: float) -> DataFrame:
    """Return a finding for each partition with more rows than `advised`.

    A finding has no persistence id; its number is the number of rows, expected the largest advised.
    `row_bytes`: the mean size of a row's payload, sampled (`cassandra.row_sizes`), by which the
    size of a partition is estimated.
    """
    number, most = F.col("rows"), advised(size, row_bytes)
    finest_first = sorted(
        (other for other in BucketSize if other.milliseconds < size.milliseconds),
        key=lambda other: other.milliseconds,
    )
    fits = F.lit(f"no bucket size is finer than {size}")
    for other in finest_first:
        # On average; the finest size is the answer even if it is not enough.
        is_enough = number * other.milliseconds <= advised(other, row_bytes) * size.milliseconds
        advice = F.lit(f"bucket size {other} would fit")
        fits = advice if other is finest_first[0] else F.when(is_enough, advice).otherwise(fits)
    detail = F.concat(
        F.format_string(
            f"%d rows (%.1f MB of payload, estimated) in one {size} partition, at most {most:,} are"
            " advised; ",
            number,
            number * F.lit(row_bytes / (1 << 20)),
        ),
        fits,
    )
    without_id = partitions.withColumn("persistence_id", F.lit(""))
    rule = FindingRule(checks.TAG_PARTITION_TOO_LARGE, number > most, number, F.lit(most), detail)
    return findings_of(without_id, [rule])
