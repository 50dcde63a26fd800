"""SQL whose result differs from run to run."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.spark.determinism import unrepeatable


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT id + 1 AS n FROM t WHERE id > 2 ORDER BY id", []),
        ("SELECT count(*) AS n, collect_list(id) AS ids FROM t GROUP BY id % 2", []),
        ("SELECT current_timezone(), timestamp '2024-01-01', unix_date(DATE '2024-01-01')", []),
        ("SELECT rand() AS r FROM t", ["rand"]),
        ("SELECT id FROM t WHERE rand(42) < 0.5", ["rand"]),
        ("SELECT id, uuid() AS u, monotonically_increasing_id() AS m FROM t",
         ["monotonically_increasing_id", "uuid"]),
        ("SELECT max(year(current_timestamp())) AS y FROM t", ["current_timestamp"]),
        ("SELECT current_date AS d, now() AS n, localtimestamp() AS l FROM t",
         ["current_date", "localtimestamp", "now"]),
        ("SELECT unix_timestamp() AS s FROM t", ["current_timestamp"]),
        ("SELECT id, row_number() OVER (PARTITION BY id ORDER BY randn()) AS n FROM t", ["randn"]),
        ("SELECT id FROM t WHERE id IN (SELECT id FROM t WHERE rand() > 0)", ["rand"]),
        ("SELECT id, (SELECT max(now()) FROM t) AS n FROM t", ["now"]),
        ("WITH a AS (SELECT shuffle(array(id)) AS x FROM t) SELECT x FROM a", ["shuffle"]),
        ("SELECT id FROM t TABLESAMPLE (50 PERCENT)", ["sample"]),
        ("SELECT id FROM t WHERE exists(array(1, 2), x -> x > rand())", ["rand"]),
        ("SELECT current_user() = 'me' AS mine FROM t", ["current_user"]),
        ("SELECT sum(x) AS s FROM (SELECT id + rand() AS x FROM t) WHERE x > 1", ["rand"]),
    ],
)  # fmt: skip
def test_what_changes_by_itself_is_named(spark: SparkSession, sql: str, names: list[str]) -> None:
    spark.range(3).createOrReplaceTempView("t")
    assert unrepeatable(spark.sql(sql)) == names


def test_a_function_of_the_users_says_so_itself(spark: SparkSession) -> None:
    def pick(number: int) -> int:
        return number

    sure, unsure = F.udf(pick, "bigint"), F.udf(pick, "bigint").asNondeterministic()
    rows = spark.range(3)
    assert unrepeatable(rows.select(sure("id"))) == []
    assert unrepeatable(rows.select(unsure("id"))) == ["pick"]
