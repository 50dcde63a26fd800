"""Mode `upsert`: one row per persistence id, of which the newest sequence nr wins."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from tidemark.projection.definition.model import Definition
from tidemark.projection.transformation import row_key, transform
from tidemark.projection.transformation.row_key import RowKey
from tidemark.projection.writing import tables
from tidemark.projection.writing.mode import BY_EVENT, EVENT_KEY, Counted, WriteMode, WriteRequest


def key_problem(partition_key: Sequence[str], clustering: Sequence[str]) -> str | None:
    """Return what is wrong with a key that allows several rows of an id, or None."""
    if partition_key == ["persistence_id"] and not clustering:
        return None
    key = ", ".join([*partition_key, *clustering])
    return f"the table's primary key is ({key}), mode upsert needs (persistence_id)"


def newest(result: DataFrame, definition: Definition) -> DataFrame:
    """Return the newest row of each persistence id, see `transform.newest`."""
    return transform.newest(result, definition.version)


def count(
    rows: DataFrame, definition: Definition, key: RowKey, time_buckets: Sequence[int]
) -> Counted:
    """Count the rows of `newest`.

    Raises:
        TidemarkError: a persistence id has more than one row, or as `RowCount.checked` raises it.
    """
    event = list(EVENT_KEY)
    numbers = row_key.count(rows, definition, key, one_row_each=event[:1], filled=event)
    return Counted(numbers.checked()[()])


def _write(batch: WriteRequest, rows: DataFrame, counted: Counted) -> None:
    if counted.rows:
        batch.claimed.check()
        tables.write_newest(rows, batch.definition)


MODE = WriteMode(
    required=EVENT_KEY,
    purpose="decides which row is newer",
    key_problem=key_problem,
    rows_of=newest,
    count=count,
    store=_write,
    keeps_apart=BY_EVENT,
    instead="; the newest row of a persistence id stays anyway, and mode fold makes totals",
)
