from __future__ import annotations

from pyspark.sql import SparkSession

from tidemark.spark.local_rows import local_rows

SCHEMA = "name string, number bigint, small int, is_so boolean"


def test_rows_arrive_as_they_are(spark: SparkSession) -> None:
    rows = [
        ("a'b\\ ünï ✓", 2**63 - 1, -(2**31), True),
        ("", 2**53 + 1, None, False),
        (None, None, 0, None),
    ]
    frame = local_rows(spark, rows, SCHEMA)
    assert [tuple(row) for row in frame.collect()] == rows
    assert [f"{name} {kind}" for name, kind in frame.dtypes] == SCHEMA.split(", ")


def test_they_are_in_the_plan_and_no_python_worker_makes_them(spark: SparkSession) -> None:
    rows = [("a", number, 0, True) for number in range(1024)]
    frame = local_rows(spark, rows, SCHEMA)
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert plan.startswith("LocalTableScan"), plan
    assert [tuple(row) for row in frame.collect()] == rows


def test_without_rows_there_are_still_columns(spark: SparkSession) -> None:
    frame = local_rows(spark, [], SCHEMA)
    assert frame.collect() == []
    assert [f"{name} {kind}" for name, kind in frame.dtypes] == SCHEMA.split(", ")
