"""Converts tag views to another bucket size, and compares tables, as pure transformations.

Only the time bucket of a row depends on the bucket size; its number and all else do not.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType

from tidemark.journals.pekko import tag_view_rows
from tidemark.partitioning import columns, keys
from tidemark.partitioning.keys import BucketSize

KEY = [*tag_view_rows.TAG_VIEW_KEY]
MISSING, EXTRA, DIFFERENT, EQUAL = "missing", "extra", "different", "equal"


class Totals(NamedTuple):
    """The numbers of rows that are equal in two tables, and that are not."""

    equal: int
    missing: int
    extra: int
    different: int

    @property
    def differing(self) -> int:
        """The number of rows that are not equal in both; 0 means that the tables are equal."""
        return self.missing + self.extra + self.different


class ViewDifference(NamedTuple):
    """The difference between two tables.

    Attributes:
        totals: the numbers of rows.
        rows: the rows that differ. Columns: KEY, and verdict: MISSING or EXTRA in the target, or
            DIFFERENT if a cell outside the key differs.
    """

    totals: Totals
    rows: DataFrame


def rebucketed(rows: DataFrame, size: BucketSize) -> DataFrame:
    """Return the rows with the time buckets of another size.

    The rows have the columns of the tag views, and perhaps more.
    """
    epoch_ms = columns.timeuuid_epoch_ms(F.col("timestamp"))
    return rows.withColumn("timebucket", columns.time_bucket(epoch_ms, size))


def before(end_ms: int) -> Column:
    """Return whether a row's event is older than a time, in epoch ms."""
    return columns.timeuuid_ticks(F.col("timestamp")) < keys.epoch_ms_ticks(end_ms)


def newest_ticks(rows: DataFrame) -> int:
    """Return the time of the newest event, in ticks (100 ns since 1582); 0 without rows."""
    [row] = rows.agg(F.max(columns.timeuuid_ticks(F.col("timestamp"))).alias("last")).collect()
    return row["last"] or 0


def compare(source: DataFrame, target: DataFrame) -> ViewDifference:
    """Compare two tables by key, and by a hash of 64 bits over the other cells of each row.

    Both have the columns of the tag views.
    """
    sides = _side(source, F.lit(True)).unionByName(_side(target, F.lit(False)))
    keyed = sides.groupBy(*KEY).agg(
        F.bool_or(F.col("is_source")).alias("in_source"),
        F.bool_or(~F.col("is_source")).alias("in_target"),
        F.min("cells").alias("lowest"),
        F.max("cells").alias("highest"),
    )
    verdict = (
        F.when(~F.col("in_target"), F.lit(MISSING))
        .when(~F.col("in_source"), F.lit(EXTRA))
        .when(F.col("lowest") != F.col("highest"), F.lit(DIFFERENT))
        .otherwise(F.lit(EQUAL))
    )
    with_verdicts = keyed.select(*KEY, verdict.alias("verdict"))
    # Counted while the differing rows are computed, so that both tables are read only once.
    observation = Observation()
    counts = [
        F.count(F.when(F.col("verdict") == name, True)).alias(name)
        for name in (EQUAL, MISSING, EXTRA, DIFFERENT)
    ]
    observed = with_verdicts.observe(observation, *counts)
    differing = observed.where(F.col("verdict") != EQUAL).localCheckpoint()
    return ViewDifference(Totals(**observation.get), differing)


def _side(rows: DataFrame, is_source: Column) -> DataFrame:
    names = sorted(set(rows.columns) - set(KEY))
    # A hash ignores nulls, so it gets a flag for each cell.
    cells = [_hashable(rows, name) for name in names] + [F.col(name).isNull() for name in names]
    return rows.select(*KEY, F.xxhash64(*cells).alias("cells"), is_source.alias("is_source"))


def _hashable(rows: DataFrame, name: str) -> Column:
    is_nested = isinstance(rows.schema[name].dataType, ArrayType | MapType | StructType)
    return F.to_json(F.struct(name)) if is_nested else F.col(name)
