"""Writes to more partitions of a table than a task collects batches for."""

from __future__ import annotations

from itertools import groupby

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra.connector import repartition_by_key

KEY = ("tag_name", "timebucket")


def rows_of(spark: SparkSession, partitions: int) -> DataFrame:
    """Return three rows of each partition, in three places."""
    numbers = spark.range(0, 3 * partitions, 1, numPartitions=3)
    return numbers.selectExpr(
        f"concat('tag ', id % {partitions} % 2) AS tag_name",
        f"id % {partitions} AS timebucket",
        "id AS number",
    )


def test_rows_of_a_partition_come_one_after_the_other(
    spark: SparkSession, partitions: None
) -> None:
    repartitioned = repartition_by_key(rows_of(spark, 1200), KEY, 1200)
    placed = repartitioned.select(*KEY, "number", F.spark_partition_id().alias("place")).collect()
    runs = [key for key, _ in groupby(placed, key=lambda row: (row.place, *row[:2]))]
    assert len(runs) == len({run[1:] for run in runs}) == 1200
    assert len({run[0] for run in runs}) > 1
    assert sorted(row.number for row in placed) == list(range(3600))


def test_rows_of_few_partitions_stay_where_they_are(spark: SparkSession) -> None:
    rows = rows_of(spark, 40)
    assert repartition_by_key(rows, KEY, 40) is rows
