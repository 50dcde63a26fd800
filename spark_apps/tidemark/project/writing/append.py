"""Mode `append`: one row per event, under a primary key that contains the event's key."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from tidemark.project.definition.model import Definition
from tidemark.project.transformation import row_key, transform
from tidemark.project.transformation.row_key import RowKey
from tidemark.project.writing import tables
from tidemark.project.writing.mode import BY_EVENT, EVENT_KEY, Counted, WriteMode, WriteRequest

_EVENT = tuple(EVENT_KEY)


def key_problem(partition_key: Sequence[str], clustering: Sequence[str]) -> str | None:
    """Return the problem of a key by which two events could share a row, or None."""
    key = [*partition_key, *clustering]
    if set(_EVENT) <= set(key):
        return None
    return (
        f"the table's primary key is ({', '.join(key)}),"
        " mode append needs persistence_id and sequence_nr in it"
    )


def versioned(result: DataFrame, definition: Definition) -> DataFrame:
    """Return the rows with their write timestamp, see `transform.versioned`."""
    return transform.versioned(result, definition.version)


def count(
    rows: DataFrame, definition: Definition, key: RowKey, time_buckets: Sequence[int]
) -> Counted:
    """Count the rows of the result; raise a TidemarkError if an event has more than one row."""
    row_count = row_key.count(rows, definition, key, unique=_EVENT, required=_EVENT)
    return Counted(row_count.checked()[()])


def _write(batch: WriteRequest, rows: DataFrame, counted: Counted) -> Counted:
    if counted.rows:
        batch.claimed.check()
        tables.write_events(rows, batch.definition)
    return counted


MODE = WriteMode(
    required=EVENT_KEY,
    purpose="says which event it is",
    key_problem=key_problem,
    rows_of=versioned,
    count=count,
    store=_write,
    keeps_apart=BY_EVENT,
    instead=", or use mode bucket for sums of a time bucket, or mode fold",
)
