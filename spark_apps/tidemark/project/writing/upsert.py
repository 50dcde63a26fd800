"""Mode `upsert`: one row per persistence id, in which the highest sequence nr wins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.definition.model import Definition
from tidemark.project.envelope import DELETED
from tidemark.project.transformation import row_key, transform
from tidemark.project.transformation.row_key import RowKey
from tidemark.project.writing import tables
from tidemark.project.writing.mode import (
    ANY_KEY,
    BY_EVENT,
    EVENT_KEY,
    Counted,
    WriteMode,
    WriteRequest,
)


def key_problem(partition_key: Sequence[str], clustering: Sequence[str]) -> str | None:
    """Return the problem of a key that allows several rows of an id, or None."""
    if partition_key == ["persistence_id"] and not clustering:
        return None
    key = ", ".join([*partition_key, *clustering])
    return f"the table's primary key is ({key}), mode upsert needs (persistence_id)"


def newest(result: DataFrame, definition: Definition) -> DataFrame:
    """Return the newest row of each persistence id, see `transform.newest`.

    Columns out: tidemark_is_deleted (boolean) in place of `deleted`, if present.
    """
    rows = transform.newest(result, definition.version)
    if DELETED not in result.columns:
        return rows
    is_deleted = F.coalesce(DELETED, F.lit(False))
    return rows.withColumn(transform.IS_DELETED, is_deleted).drop(DELETED)


def count(
    rows: DataFrame, definition: Definition, key: RowKey, time_buckets: Sequence[int]
) -> Counted:
    """Count the rows of `newest`; raise a TidemarkError if a persistence id has several rows."""
    event_key = list(EVENT_KEY)
    row_count = row_key.count(rows, definition, key, unique=event_key[:1], required=event_key)
    number = row_count.checked()[()]
    if transform.IS_DELETED not in rows.columns:
        return Counted(number)
    deleted = transform.deletions(rows).count()
    return Counted(number - deleted, deleted=deleted)


def _write(batch: WriteRequest, rows: DataFrame, counted: Counted) -> Counted:
    if counted.rows:
        batch.claimed.check()
        tables.write_newest(transform.stored(rows), batch.definition)
    if counted.deleted:
        batch.claimed.check()
        tables.delete_newest(transform.deletions(rows), batch.definition)
    return counted


def _column_problems(analyzed: AnalyzedDefinition) -> Iterator[str]:
    if DELETED in analyzed.result.names:
        kind = analyzed.result[DELETED].dataType
        if kind != T.BooleanType():
            yield (
                f"{DELETED} is {kind.simpleString()} in the result, it must be boolean: where it is"
                " true, the row is deleted"
            )


MODE = WriteMode(
    required=EVENT_KEY,
    purpose="decides which row is newer",
    key_problem=key_problem,
    rows_of=newest,
    count=count,
    store=_write,
    keeps_apart=BY_EVENT,
    column_problems=_column_problems,
    instead="; the newest row of a persistence id stays anyway, and mode fold makes its totals"
    + ANY_KEY,
)
