"""Mode `upsert`: one row per persistence id, of which the newest sequence nr wins."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.errors import TidemarkError
from tidemark.projection.definition.model import Definition
from tidemark.projection.transformation import transform
from tidemark.projection.writing import tables
from tidemark.projection.writing.mode import EVENT_KEY, ONE_ROW, Counted, WriteMode, WriteRequest


def key_problem(partition_key: Sequence[str], clustering: Sequence[str]) -> str | None:
    """Return what is wrong with a key that allows several rows of an id, or None."""
    if partition_key == ["persistence_id"] and not clustering:
        return None
    key = ", ".join([*partition_key, *clustering])
    return f"the table's primary key is ({key}), mode upsert needs (persistence_id)"


def newest(result: DataFrame, definition: Definition) -> DataFrame:
    """Return the newest row of each persistence id, see `transform.newest`."""
    return transform.newest(result, definition.version)


def count(rows: DataFrame, definition: Definition, time_buckets: Sequence[int]) -> Counted:
    """Count the rows of `newest`.

    Raises:
        TidemarkError: a persistence id has more than one row, or its key has a null.
    """
    totals = rows.agg(
        F.count(F.lit(1)).alias("rows"),
        F.countDistinct("persistence_id").alias("ids"),
        F.count("sequence_nr").alias("numbers"),
    ).first()
    if totals is None or not totals.rows == totals.ids == totals.numbers:
        raise TidemarkError(
            "the result has more than one row for an event, or a null in its key",
            where=str(definition.file),
            do=ONE_ROW,
        )
    return Counted(int(totals.rows))


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
)
