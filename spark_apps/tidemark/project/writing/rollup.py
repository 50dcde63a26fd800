"""Mode `rollup`: the rows of a query over a read model; all other rows are deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.cassandra import connector
from tidemark.project.definition.model import Definition
from tidemark.project.offset_store import management_state
from tidemark.project.transformation import row_key, transform
from tidemark.project.transformation.row_key import RowKey
from tidemark.project.writing import tables
from tidemark.project.writing.mode import Counted, WriteMode, WriteRequest, as_selected
from tidemark.spark.read_once import kept_once

_SCALE = 18
"""Digits after the decimal point that Spark reads from a decimal of Cassandra."""


def any_key(partition_key: Sequence[str], clustering: Sequence[str]) -> None:
    """Accept every key: `count` checks that no two rows have the same key."""


def count(
    rows: DataFrame, definition: Definition, key: RowKey, time_buckets: Sequence[int]
) -> Counted:
    """Count the rows of the result; raise a TidemarkError if two rows have the same key."""
    return Counted(row_key.count(rows, definition, key, unique=key.columns).checked()[()])


def changes(result: DataFrame, stored: DataFrame, key: Sequence[str]) -> DataFrame:
    """Compare a result with the rows of its table, by the columns of the primary key.

    A stored row that has only its key counts as different: the row may be about to expire, see
    `tables.delete_newest`.

    Returns:
        The rows of the result that are new or differ, and the rows to delete, with nulls in the
        columns outside of the key. Columns: those of the result, and tidemark_is_deleted (boolean).
    """
    value_columns = [name for name in result.columns if name not in key]
    new = result.select(F.struct(*result.columns).alias("new"))
    old = stored.select(F.struct(*result.columns).alias("old"))
    is_same = {name: _is_same(name, result.schema, stored.schema) for name in result.columns}
    has_value = (F.col(f"old.`{name}`").isNotNull() for name in value_columns)
    is_stored = reduce(
        and_, (is_same[name] for name in value_columns), reduce(or_, has_value, F.lit(False))
    )
    joined = new.join(old, on=reduce(and_, (is_same[name] for name in key)), how="full")
    key_values = [
        F.coalesce(
            F.col(f"new.`{name}`"), F.col(f"old.`{name}`").cast(result.schema[name].dataType)
        )
        for name in key
    ]
    return joined.where(~F.coalesce(is_stored, F.lit(False))).select(
        *(value.alias(name) for name, value in zip(key, key_values, strict=True)),
        *(F.col(f"new.`{name}`").alias(name) for name in value_columns),
        F.col("new").isNull().alias(transform.IS_DELETED),
    )


def _is_same(name: str, result: T.StructType, stored: T.StructType) -> Column:
    """Return whether a value of the result equals the stored value; false if unknown."""
    new, old = F.col(f"new.`{name}`"), F.col(f"old.`{name}`")
    kind = result[name].dataType
    if isinstance(kind, T.DecimalType) and kind.scale > _SCALE:
        return new.isNull() & old.isNull()
    # Values that the stored type cannot hold, or that Spark cannot read from it, are null.
    as_stored = new.cast(stored[name].dataType)
    if "map<" in kind.simpleString():
        return F.to_json(as_stored).eqNullSafe(F.to_json(old))
    return as_stored.eqNullSafe(old) & (new.isNull() == old.isNull())


def _write(batch: WriteRequest, rows: DataFrame, counted: Counted) -> Counted:
    """Write the rows that differ, then delete the rows that are not in the result.

    Deletions have a lower write time: if Cassandra stores a key with fewer digits than it was
    compared with, the new row must not be deleted.
    """
    definition = batch.definition
    key = RowKey.of(batch.run, definition).columns
    stored = connector.read(batch.run.spark, definition.keyspace, definition.table, *rows.columns)
    differences = kept_once(changes(rows, stored, key))
    try:
        [change_counts] = differences.agg(
            F.count_if(~F.col(transform.IS_DELETED)).alias("rows"),
            F.count_if(transform.IS_DELETED).alias("deleted"),
        ).collect()
        changed = replace(counted, rows=change_counts["rows"], deleted=change_counts["deleted"])
        if not changed.rows and not changed.deleted:
            return changed
        batch.claimed.check()
        write_time = management_state.next_write_time(batch.store)
        if changed.rows:
            tables.write_newest(_at(write_time, transform.stored(differences)), definition)
        if changed.deleted:
            batch.claimed.check()
            tables.delete_newest(_at(write_time - 1, transform.deletions(differences)), definition)
    finally:
        differences.unpersist()
    return changed


def _at(write_time: int, rows: DataFrame) -> DataFrame:
    return rows.withColumn(transform.WRITE_TIME, F.lit(write_time))


MODE = WriteMode(
    required={},
    purpose="",
    key_problem=any_key,
    rows_of=as_selected,
    count=count,
    store=_write,
)
