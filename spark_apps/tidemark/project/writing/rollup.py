"""Mode `rollup`: the rows of a query over a read model; others of the table are deleted."""

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
"""Digits after the point that Spark reads of a decimal of Cassandra."""


def any_key(partition_key: Sequence[str], clustering: Sequence[str]) -> None:
    """Accept every key: that the rows are alone in it is seen when there are rows."""


def count(
    rows: DataFrame, definition: Definition, key: RowKey, time_buckets: Sequence[int]
) -> Counted:
    """Count the rows of the result.

    Raises:
        TidemarkError: as `RowCount.checked` raises it.
    """
    return Counted(row_key.count(rows, definition, key, one_row_each=key.columns).checked()[()])


def changes(result: DataFrame, stored: DataFrame, key: Sequence[str]) -> DataFrame:
    """Compare a result with the rows of its table.

    A stored row that has only its key counts as another one: it may be a row that is
    being deleted, see `tables.delete_newest`.

    Args:
        result: the rows that the table is to have, one for each key.
        stored: the rows that it has, with the same columns.
        key: the columns of its primary key.

    Returns:
        The rows of the result that the table does not have so; and the rows that it must lose, with
        tidemark_is_deleted (boolean) and nulls in their other columns.
    """
    others = [name for name in result.columns if name not in key]
    new = result.select(F.struct(*result.columns).alias("new"))
    old = stored.select(F.struct(*result.columns).alias("old"))
    is_same = {name: _is_same(name, result.schema, stored.schema) for name in result.columns}
    has_value = (F.col(f"old.`{name}`").isNotNull() for name in others)
    is_stored = reduce(
        and_, (is_same[name] for name in others), reduce(or_, has_value, F.lit(False))
    )
    joined = new.join(old, on=reduce(and_, (is_same[name] for name in key)), how="full")
    kept = [
        F.coalesce(
            F.col(f"new.`{name}`"), F.col(f"old.`{name}`").cast(result.schema[name].dataType)
        )
        for name in key
    ]
    return joined.where(~F.coalesce(is_stored, F.lit(False))).select(
        *(value.alias(name) for name, value in zip(key, kept, strict=True)),
        *(F.col(f"new.`{name}`").alias(name) for name in others),
        F.col("new").isNull().alias(transform.IS_DELETED),
    )


def _is_same(name: str, result: T.StructType, stored: T.StructType) -> Column:
    """Return whether a value of the result is the stored one; false where that is not known."""
    new, old = F.col(f"new.`{name}`"), F.col(f"old.`{name}`")
    kind = result[name].dataType
    if isinstance(kind, T.DecimalType) and kind.scale > _SCALE:
        return new.isNull() & old.isNull()
    # What the stored type cannot hold is null, and so is what Spark cannot read of it.
    as_stored = new.cast(stored[name].dataType)
    if "map<" in kind.simpleString():
        return F.to_json(as_stored).eqNullSafe(F.to_json(old))
    return as_stored.eqNullSafe(old) & (new.isNull() == old.isNull())


def _write(batch: WriteRequest, rows: DataFrame, counted: Counted) -> Counted:
    """Write the rows that differ, then delete those that are not in the result.

    The deletions have a lower write time: a key that Cassandra stores with fewer digits than it was
    compared by must not lose its new row.
    """
    control, definition = batch.run.control, batch.definition
    key = RowKey.of(control, definition).columns
    stored = connector.read(batch.run.spark, definition.keyspace, definition.table, *rows.columns)
    differing = kept_once(changes(rows, stored, key))
    try:
        [numbers] = differing.agg(
            F.count_if(~F.col(transform.IS_DELETED)).alias("rows"),
            F.count_if(transform.IS_DELETED).alias("deleted"),
        ).collect()
        changed = replace(counted, rows=numbers["rows"], deleted=numbers["deleted"])
        if not changed.rows and not changed.deleted:
            return changed
        batch.claimed.check()
        write_time = management_state.next_write_time(batch.store)
        if changed.rows:
            tables.write_newest(_at(write_time, transform.stored(differing)), definition)
        if changed.deleted:
            batch.claimed.check()
            tables.delete_newest(_at(write_time - 1, transform.deletions(differing)), definition)
    finally:
        differing.unpersist()
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
