"""What would come out otherwise if it were evaluated again."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tidemark.determinism import unsteady_functions


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("id > 3 AND hash(id) % 2 = 0", []),
        ("to_date('2024-03-01') > date_add(to_date('2024-02-01'), CAST(id AS INT))", []),
        ("id < 10 * rand()", ["rand"]),
        ("randn() > 0 OR uuid() = 'x'", ["randn", "uuid"]),
        ("shuffle(array(1, 2))[0] = 1", ["shuffle"]),
        ("monotonically_increasing_id() = id", ["monotonically_increasing_id"]),
        ("current_timestamp() > timestamp'2024-03-01'", ["current_timestamp"]),
        ("now() IS NOT NULL", ["now"]),
        ("unix_timestamp() > id", ["current_timestamp"]),
        ("current_date() > date'2024-03-01'", ["current_date"]),
        ("localtimestamp() IS NOT NULL", ["localtimestamp"]),
        ("current_user() = 'me'", ["current_user"]),
        ("id IN (SELECT CAST(10 * rand() AS BIGINT))", ["rand"]),
        ("id > (SELECT max(hour(now())) FROM VALUES (1) AS t(x))", ["now"]),
        ("exists(array(1, 2), x -> x > rand())", ["rand"]),
    ],
)
def test_unsteady_functions_are_named(
    spark: SparkSession, expression: str, expected: list[str]
) -> None:
    assert unsteady_functions(spark.range(3).selectExpr(expression)) == expected


def test_what_lies_below_the_last_step_counts(spark: SparkSession) -> None:
    below = spark.range(3).selectExpr("id + rand() AS x").where("x > 1").groupBy().sum("x")
    assert unsteady_functions(below) == ["rand"]
