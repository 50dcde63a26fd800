"""The comparison of two versions of a projection, without Cassandra."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidemark.errors import InvalidInput, SchemaMismatch
from tidemark.project.definition.model import Mode
from tidemark.project.versions import diff
from tidemark.project.versions.comparison import Numbers, compare
from tidemark.project.versions.diff import Columns, VersionTable
from tidemark.window import Window

HOUR = 3_600_000
SCHEMA = "time_bucket bigint, sizes map<string, int>, x double, names map<string, int>, note string"


def test_rows_are_matched_by_key_and_compared_with_nulls_and_nans(spark: SparkSession) -> None:
    nan, sizes = float("nan"), {"a": 1, "b": 2}
    first = [
        (0, sizes, nan, sizes, None),
        (0, {"a": 1}, 1.0, {"k": 1}, None),
        (HOUR, sizes, None, None, "old"),
        (2 * HOUR, sizes, 1.0, sizes, "only first"),
    ]
    second = [
        (0, sizes, nan, sizes, None),
        (0, {"a": 1}, 1.0, {"k": 2}, "new"),
        (HOUR, sizes, 0.5, None, "old"),
        (3 * HOUR, sizes, 1.0, sizes, "only second"),
    ]
    one, other = (spark.createDataFrame(rows, SCHEMA) for rows in (first, second))
    # Other tests have left some of their own.
    kept_before = set(spark.sparkContext._jsc.getPersistentRDDs())
    result = compare(one, other, ["time_bucket", "sizes"], 2, is_by_bucket=True)
    assert result.total == Numbers(equal=1, differing=2, only_first=1, only_second=1)
    # The newest time buckets that the limit allows.
    assert result.by_bucket == {3 * HOUR: Numbers(only_second=1), 2 * HOUR: Numbers(only_first=1)}
    assert result.buckets == 4
    assert [(row["key"], row["side"], *map(tuple, row["changes"])) for row in result.sample] == [
        (
            '{"time_bucket":0,"sizes":{"a":1}}',
            "both",
            ("names", '{"k":1}', '{"k":2}'),
            ("note", None, "new"),
        ),
        (f'{{"time_bucket":{HOUR},"sizes":{{"a":1,"b":2}}}}', "both", ("x", None, "0.5")),
    ]
    assert set(spark.sparkContext._jsc.getPersistentRDDs()) <= kept_before


def test_rows_of_a_key_alone_are_equal_or_in_one_table(spark: SparkSession) -> None:
    first, second = spark.range(0, 3), spark.range(1, 5)
    result = compare(first, second, ["id"], 10, is_by_bucket=False)
    assert result.total == Numbers(equal=2, only_first=1, only_second=2)
    assert [row["side"] for row in result.sample] == ["first", "second", "second"]


def test_columns_of_one_table_or_of_another_type_are_not_compared() -> None:
    first = VersionTable(1, "k", "t_v1", {"id": "text"}, {"n": "int", "x": "int", "old": "int"})
    second = VersionTable(2, "k", "t_v2", {"id": "text"}, {"n": "int", "x": "text", "new": "int"})
    columns = Columns.of(first, second)
    assert columns.shared == ["n"]
    assert columns.lines == [
        "only version 1 has the column old",
        "only version 2 has the column new",
        "the column x is not compared: int in version 1, text in version 2",
    ]
    other_key = VersionTable(2, "k", "t_v2", {"id": "int"}, {})
    keys = r"version 1 in k.t_v1 has \(id text\), version 2 in k.t_v2 has \(id int\)"
    with pytest.raises(SchemaMismatch, match=rf"the primary keys differ: {keys}; compare"):
        diff._require_same_key(first, other_key)


@pytest.mark.parametrize(
    "versions",
    [
        ["totals@1"],
        ["totals@1", "totals@1"],
        ["totals@1", "others@2"],
        ["totals@1", "totals@0"],
        ["totals@1", "totals"],
        ["totals@1", "totals@2", "totals@3"],
    ],
)
def test_what_is_not_two_versions_of_one_projection_is_refused(versions: list[str]) -> None:
    with pytest.raises(InvalidInput, match="not two versions of one projection: totals@1"):
        diff._parsed(versions)


def test_a_window_is_for_mode_bucket() -> None:
    definition: Any = SimpleNamespace(name="latest", mode=Mode.UPSERT)
    run: Any = None
    window = Window.parse("2024-03-01", "2024-03-02")
    with pytest.raises(InvalidInput, match="in mode upsert a row does not belong to one"):
        diff._require_window(run, definition, window)
    diff._require_window(run, definition, None)
