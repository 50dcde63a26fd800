"""Compares the rows of two tables by their primary key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import Column, DataFrame, Observation, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.storagelevel import StorageLevel

from tidemark.spark.read_once import kept_once
from tidemark.text import counted

_SHOWN_OF_VALUE = 200
"""Most characters of a value that are shown."""
_CHANGES = "array<struct<column: string, first: string, second: string>>"


@dataclass(frozen=True)
class Numbers:
    """Numbers of rows that are equal in both tables, differ, or exist in one table only."""

    equal: int = 0
    differing: int = 0
    only_first: int = 0
    only_second: int = 0

    def line(self, first: int, second: int) -> str:
        """Return the text for reports; `first` and `second` are the versions."""
        return (
            f"{counted(self.differing, 'different row')}, {self.only_first:,} only in version"
            f" {first}, {self.only_second:,} only in version {second}"
        )


@dataclass(frozen=True)
class ReleaseComparison:
    """The result of a comparison.

    Attributes:
        total: numbers of all rows.
        by_bucket: numbers by time bucket (epoch ms), for the newest with differences; empty except
            in mode bucket.
        buckets: number of time buckets with differences; 0 except in mode bucket.
        sample: some differing rows: `key` as text, `side` and `changes` as in `compared`.
    """

    total: Numbers
    by_bucket: Mapping[int, Numbers] = field(default_factory=dict)
    buckets: int = 0
    sample: Sequence[Row] = ()


def compare(
    first: DataFrame, second: DataFrame, key: Sequence[str], limit: int, *, is_by_bucket: bool
) -> ReleaseComparison:
    """Compare two tables with the same columns by their primary key; each table is read once.

    The differing rows are cached on disk. `limit` is the number of rows of the sample, and of time
    buckets; `is_by_bucket` says whether to count by the key column `time_bucket` too.
    """
    observation = Observation()
    pairs = compared(first, second, key)
    observed = pairs.observe(observation, F.count(F.when(_is_equal(), True)).alias("equal"))
    differing = kept_once(observed.where(~_is_equal()), StorageLevel.DISK_ONLY)
    try:
        [total] = differing.agg(*_counts()).collect()
        by_bucket, buckets = {}, 0
        if is_by_bucket:
            grouped = differing.groupBy(F.col("key.time_bucket").alias("time_bucket"))
            newest = grouped.agg(*_counts()).orderBy(F.desc("time_bucket")).limit(limit).collect()
            by_bucket = {row["time_bucket"]: _numbers(row) for row in newest}
            buckets = grouped.agg(F.lit(1)).count()
        sample = (
            differing.orderBy("side", *(f"key.`{name}`" for name in _sortable(first, key)))
            .limit(limit)
            .select(_text(F.col("key"), T.StructType()).alias("key"), "side", "changes")
            .collect()
        )
    finally:
        differing.unpersist()
    numbers = _numbers(total)
    all_rows = Numbers(
        observation.get["equal"], numbers.differing, numbers.only_first, numbers.only_second
    )
    return ReleaseComparison(all_rows, by_bucket, buckets, sample)


def _is_equal() -> Column:
    return (F.col("side") == "both") & (F.size("changes") == 0)


def _counts() -> list[Column]:
    sides = {"both": "differing", "first": "only_first", "second": "only_second"}
    return [
        F.count(F.when(F.col("side") == side, True)).alias(name) for side, name in sides.items()
    ]


def _numbers(row: Row) -> Numbers:
    return Numbers(0, row["differing"], row["only_first"], row["only_second"])


def _sortable(rows: DataFrame, key: Sequence[str]) -> list[str]:
    return [name for name in key if not _has_map(rows.schema[name].dataType)]


def compared(first: DataFrame, second: DataFrame, key: Sequence[str]) -> DataFrame:
    """Match the rows of two frames with the same columns by key.

    Two NaNs are equal, and so are two nulls.

    Returns:
        `key` with the key columns, `side` (`both`, `first` or `second`), and `changes`: for a row
        in both frames, the columns that differ, with the text of both values.
    """
    kinds = {item.name: item.dataType for item in first.schema.fields}
    value_columns = [name for name in first.columns if name not in key]
    left = first.select(
        F.struct(*key).alias("a"), F.struct(F.lit(1).alias("_"), *value_columns).alias("x")
    )
    right = second.select(
        F.struct(*key).alias("b"), F.struct(F.lit(1).alias("_"), *value_columns).alias("y")
    )
    same_key = [
        _comparable(F.col(f"a.`{name}`"), kinds[name]).eqNullSafe(
            _comparable(F.col(f"b.`{name}`"), kinds[name])
        )
        for name in key
    ]
    joined = left.join(right, on=reduce(Column.__and__, same_key), how="full")
    in_first, in_second = F.col("x").isNotNull(), F.col("y").isNotNull()
    changes = F.array_compact(F.array(*(_change(name, kinds[name]) for name in value_columns)))
    is_in_both = in_first & in_second
    return joined.select(
        F.coalesce("a", "b").alias("key"),
        F.when(is_in_both, "both").when(in_first, "first").otherwise("second").alias("side"),
        F.when(is_in_both & F.lit(bool(value_columns)), changes)
        .otherwise(F.array())
        .cast(_CHANGES)
        .alias("changes"),
    )


def _change(name: str, kind: T.DataType) -> Column:
    """Return column, first and second value if the values differ; null otherwise."""
    first, second = F.col(f"x.`{name}`"), F.col(f"y.`{name}`")
    is_equal = _comparable(first, kind).eqNullSafe(_comparable(second, kind))
    return F.when(
        ~is_equal,
        F.struct(
            F.lit(name).alias("column"),
            _text(first, kind).alias("first"),
            _text(second, kind).alias("second"),
        ),
    )


def _comparable(value: Column, kind: T.DataType) -> Column:
    """Return a value that Spark can compare: for a map, its JSON in the order of its keys."""
    return F.to_json(value) if _has_map(kind) else value


def _has_map(kind: T.DataType) -> bool:
    return "map<" in kind.simpleString()


def _text(value: Column, kind: T.DataType) -> Column:
    if isinstance(kind, T.ArrayType | T.MapType | T.StructType):
        text = F.to_json(value)
    elif isinstance(kind, T.BinaryType):
        text = F.concat(F.lit("0x"), F.lower(F.hex(value)))
    else:
        text = value.cast("string")
    return F.substring(text, 1, _SHOWN_OF_VALUE)
