"""Mode `append`: one row per event, under a key that holds the event's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.errors import TidemarkError
from tidemark.projection.analysis.analyze import AnalyzedDefinition
from tidemark.projection.definition.model import Definition
from tidemark.projection.transformation import transform
from tidemark.projection.writing import tables
from tidemark.projection.writing.mode import EVENT_KEY, ONE_ROW, Counted, WriteMode, WriteRequest

_EVENT = tuple(EVENT_KEY)


def key_problem(partition_key: Sequence[str], clustering: Sequence[str]) -> str | None:
    """Return what is wrong with a key by which two events share a row, or None."""
    key = [*partition_key, *clustering]
    if set(_EVENT) <= set(key):
        return None
    return (
        f"the table's primary key is ({', '.join(key)}),"
        " mode append needs persistence_id and sequence_nr in it"
    )


def combined_events(analyzed: AnalyzedDefinition) -> Iterator[str]:
    """Refuse rows of several events: a run that reads others of them would make another row."""
    if analyzed.combining:
        yield (
            f"{analyzed.definition.body} combines events ({', '.join(analyzed.combining)}),"
            " in mode append a row is made of one event alone"
        )


def versioned(result: DataFrame, definition: Definition) -> DataFrame:
    """Return the rows with their write timestamp, see `transform.versioned`."""
    return transform.versioned(result, definition.version)


def count(rows: DataFrame, definition: Definition, time_buckets: Sequence[int]) -> Counted:
    """Count the rows of the result.

    Raises:
        TidemarkError: an event has more than one row, or its key has a null.
    """
    by_event = rows.groupBy(*_EVENT).agg(F.count(F.lit(1)).alias("rows"))
    is_wrong = (F.col("rows") > 1) | F.col(_EVENT[0]).isNull() | F.col(_EVENT[1]).isNull()
    totals = by_event.agg(
        F.sum("rows").alias("rows"),
        F.min(F.when(is_wrong, F.struct(*_EVENT, "rows"))).alias("wrong"),
    ).first()
    assert totals is not None  # noqa: S101 - an aggregate without keys has one row
    if totals.wrong is not None:
        raise TidemarkError(
            f"the result has {totals.wrong.rows} rows for the event"
            f" {totals.wrong.persistence_id} {totals.wrong.sequence_nr}",
            where=str(definition.file),
            do=ONE_ROW,
        )
    return Counted(int(totals.rows or 0))


def _write(batch: WriteRequest, rows: DataFrame, counted: Counted) -> None:
    if counted.rows:
        batch.claimed.check()
        tables.write_events(rows, batch.definition)


MODE = WriteMode(
    required=EVENT_KEY,
    purpose="says which event it is",
    key_problem=key_problem,
    rows_of=versioned,
    count=count,
    store=_write,
    result_problems=combined_events,
)
