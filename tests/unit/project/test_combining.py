"""Queries that would give other rows if runs were cut otherwise, and those that would not."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from tidemark.errors import SchemaMismatch
from tidemark.project.analysis.combining import combinations, grouped_by
from tidemark.project.envelope import ENVELOPE
from tidemark.projection.testing import run_projection
from tidemark.user_sql import allowed

SCHEMA = T.StructType([*ENVELOPE.fields, T.StructField("x", T.IntegerType())])
HEADER = """\
/*---
name: one
version: 1
source: messages
mode: {mode}
target: {target}
event: x INT
---*/

"""
BY_HOUR = "SELECT time_bucket, hour(timestamp) AS hour, count(*) AS n FROM events GROUP BY ALL"
VALUES = "(VALUES (1, 'a'), (2, 'b')) AS v(x, name)"


def query(spark: SparkSession, sql: str) -> DataFrame:
    spark.createDataFrame([], SCHEMA).createOrReplaceTempView("events")
    return allowed.query(spark, sql, ("events",))


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        ("SELECT *, upper(entity_type) AS e FROM events WHERE x > 1", []),
        ("SELECT time_bucket, count(*) FROM events GROUP BY time_bucket, x", ["time_bucket"]),
        ("SELECT max(time_bucket) AS time_bucket FROM events GROUP BY x", [""]),
        ("SELECT time_bucket FROM events GROUP BY ROLLUP (time_bucket, x)", [""]),
        ("SELECT date_trunc('DAY', timestamp) AS d FROM events GROUP BY 1", [""]),
        ("SELECT lag(x) OVER (PARTITION BY persistence_id ORDER BY sequence_nr) FROM events",
         ["persistence_id"]),
        ("SELECT lag(x) OVER (PARTITION BY time_bucket, persistence_id ORDER BY x) FROM events",
         ["persistence_id time_bucket"]),
        ("SELECT persistence_id, sequence_nr, max(t) FROM"
         " (SELECT *, explode(tags) AS t FROM events) GROUP BY persistence_id, sequence_nr",
         ["persistence_id sequence_nr"]),
        ("SELECT DISTINCT time_bucket, x FROM events", ["time_bucket"]),
        ("SELECT DISTINCT x FROM events", [""]),
        ("SELECT * FROM events ORDER BY x LIMIT 3", [""]),
        ("SELECT * FROM events UNION ALL SELECT * FROM events", []),
        ("SELECT time_bucket FROM (SELECT * FROM events UNION ALL SELECT * FROM events)"
         " GROUP BY time_bucket", ["time_bucket"]),
        ("SELECT b FROM (SELECT time_bucket AS b FROM events UNION ALL"
         " SELECT time_bucket - 3600000 FROM events) GROUP BY b", [""]),
        ("SELECT time_bucket FROM events INTERSECT SELECT time_bucket FROM events",
         ["time_bucket"]),
        ("SELECT time_bucket, x FROM events EXCEPT ALL SELECT 1L, x FROM events", [""]),
        ("SELECT a.x FROM events a JOIN events b USING (time_bucket, x)", ["time_bucket"]),
        ("SELECT a.x FROM events a JOIN events b ON a.time_bucket > b.time_bucket", [""]),
        ("WITH a AS (SELECT time_bucket AS b, x FROM events), n AS (SELECT b, max(x) AS most"
         " FROM a GROUP BY b) SELECT a.x - most FROM a JOIN n ON a.b = n.b",
         ["time_bucket", "time_bucket"]),
        (f"SELECT e.x, name FROM events e JOIN {VALUES} USING (x)", []),
        (f"SELECT e.x, name FROM events e LEFT JOIN {VALUES} USING (x)", []),
        (f"SELECT e.x, name FROM {VALUES} RIGHT JOIN events e USING (x)", []),
        (f"SELECT x, name FROM {VALUES} LEFT JOIN events e USING (x)", [""]),
        (f"SELECT * FROM events CROSS JOIN (SELECT max(x) AS most FROM {VALUES})", []),
    ],
)  # fmt: skip
def test_steps_that_combine_events_and_what_they_keep_apart(
    spark: SparkSession, sql: str, kept: list[str]
) -> None:
    steps = combinations(query(spark, sql))
    assert sorted(" ".join(sorted(step.keeps)) for step in steps) == kept


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT time_bucket, hour(timestamp) AS h, x + 1 AS y, count(*) AS n FROM events"
         " GROUP BY time_bucket, hour(timestamp), x + 1", ["time_bucket", "h", "y"]),
        ("SELECT b AS time_bucket, n FROM (SELECT time_bucket AS b, x, count(*) AS n FROM events"
         " GROUP BY 1, 2)", None),
        ("SELECT b, n, x AS y FROM (SELECT time_bucket AS b, x, count(*) AS n FROM events"
         " GROUP BY 1, 2) WHERE n > 1", ["b", "y"]),
        ("SELECT time_bucket, persistence_id FROM events", None),
    ],
)  # fmt: skip
def test_columns_that_a_result_is_grouped_by(
    spark: SparkSession, sql: str, columns: list[str] | None
) -> None:
    assert grouped_by(query(spark, sql)) == columns


@pytest.mark.parametrize(
    ("mode", "sql", "refused"),
    [
        ("bucket", "SELECT time_bucket, lag(x) OVER (ORDER BY timestamp) AS y FROM events", "Wind"),
        ("bucket", "SELECT max(time_bucket) AS time_bucket, x FROM events GROUP BY x", "Aggregate"),
        ("export", "SELECT * FROM events LIMIT 3", "GlobalLimit"),
        ("upsert", "SELECT persistence_id, max(sequence_nr) AS sequence_nr, count(*) AS n"
         " FROM events GROUP BY persistence_id", "Aggregate"),
        ("upsert", "SELECT persistence_id, max(sequence_nr) AS sequence_nr FROM events"
         " GROUP BY time_bucket, persistence_id", "Aggregate"),
        ("append", "SELECT DISTINCT persistence_id, 1L AS sequence_nr FROM events", "Distinct"),
        ("bucket", BY_HOUR, ""),
    ],
)  # fmt: skip
def test_a_query_whose_rows_depend_on_how_runs_are_cut_is_refused(
    spark: SparkSession, mode: str, sql: str, refused: str
) -> None:
    text = HEADER.format(mode=mode, target="one" if mode == "export" else "k.one") + sql
    if not refused:
        assert run_projection(text, [], spark=spark) == []
        return
    with pytest.raises(SchemaMismatch, match=rf"the SELECT combines events \({refused}"):
        run_projection(text, [], spark=spark)


EVENTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.sampled_from([None, 1, 2])),
    max_size=8,
)
INNER = st.sampled_from(
    [
        "events",
        "(SELECT * FROM events WHERE x > 1)",
        "(SELECT *, row_number() OVER (PARTITION BY {} ORDER BY sequence_nr) AS n FROM events)",
        "(SELECT e.* FROM events e LEFT SEMI JOIN events f ON e.x = f.x AND e.{0} = f.{0})",
        "(SELECT DISTINCT time_bucket, persistence_id, x FROM events)",
        "(SELECT max(time_bucket) AS time_bucket, persistence_id, x FROM events GROUP BY {}, 2, 3)",
        "(SELECT * FROM events LIMIT 2)",
    ]
)
BY = st.sampled_from(["time_bucket", "persistence_id", "persistence_id, time_bucket", "x"])
OUTER = st.sampled_from(
    [
        "SELECT max(time_bucket) AS time_bucket, sum(x) AS y FROM {inner} GROUP BY {by}",
        "SELECT time_bucket, x FROM {inner}",
        "SELECT time_bucket, max(x) OVER (PARTITION BY {by}) AS y FROM {inner}",
    ]
)


@settings(max_examples=15)
@given(events=EVENTS, inner=INNER, inner_by=BY, outer=OUTER, by=BY)
def test_what_is_accepted_gives_the_same_rows_however_runs_are_cut(
    spark: SparkSession,
    events: list[tuple[str, int, int | None]],
    inner: str,
    inner_by: str,
    outer: str,
    by: str,
) -> None:
    """`run_projection` compares all at once with each time bucket by itself."""
    numbers: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    for pid, hour, x in sorted(events, key=lambda one: one[1]):
        numbers[pid] += 1
        moment = f"2024-03-01T{hour:02d}:00:00Z"
        rows.append(
            {"persistence_id": pid, "sequence_nr": numbers[pid], "timestamp": moment, "x": x}
        )
    column = inner_by.split(", ")[0]
    sql = outer.format(inner=inner.format(column), by=by)
    with suppress(SchemaMismatch):
        run_projection(HEADER.format(mode="export", target="one") + sql, rows, spark=spark)


def test_a_nan_is_the_same_however_runs_are_cut(spark: SparkSession) -> None:
    sql = "SELECT time_bucket, avg(x / CAST('NaN' AS DOUBLE)) AS y FROM events GROUP BY time_bucket"
    events = [
        {
            "persistence_id": "a",
            "sequence_nr": hour,
            "timestamp": f"2024-03-01T{hour:02d}:00:00Z",
            "x": 1,
        }
        for hour in (1, 2)
    ]
    text = HEADER.format(mode="export", target="one") + sql
    assert len(run_projection(text, events, spark=spark)) == len(events)
