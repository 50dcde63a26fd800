"""Whose events a projection reads: those of its entity types, and of the slices of a range.

Everything that is read passes here before it is shuffled, judged or kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journal import frames
from tidemark.partitioning import columns
from tidemark.partitioning.keys import SliceRange
from tidemark.partitioning.slice_ranges import ALL
from tidemark.projection.definition.model import Definition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemark.projection.planning.plan import Work
    from tidemark.projection.sources.base import Reader

_INDEX = ("persistence_id", "sequence_nr", "timestamp", "time_bucket")


def of_types(rows: DataFrame, definition: Definition) -> DataFrame:
    """The rows of the definition's entity types, by their persistence_id."""
    if definition.entity_types is None:
        return rows
    entity_type = columns.entity_type(F.col("persistence_id"))
    return rows.where(entity_type.isin(list(definition.entity_types)))


def of_work(rows: DataFrame, work: Work) -> DataFrame:
    """The rows of the projection's entity types and of the work's slices."""
    typed = of_types(rows, work.definition)
    if work.slices == ALL:
        return typed
    return typed.where(_is_inside(columns.slice_of(F.col("persistence_id")), work.slices))


def _is_inside(number: Column, slices: SliceRange) -> Column:
    return number.between(slices.first, slices.last)


def source_rows(
    run: RunContext, work: Work, reader: Reader, time_buckets: Sequence[int]
) -> DataFrame:
    """The source's rows of the work in those time buckets, see `Reader.rows`."""
    return of_work(reader.rows(run, time_buckets), work)


def planned_rows(run: RunContext, work: Work, reader: Reader) -> DataFrame:
    """The same of the time buckets to process."""
    if work.keys is not None:
        return of_work(reader.rows_of(run, work.keys, work.time_buckets), work)
    return source_rows(run, work, reader, work.time_buckets)


def events_by_slice(run: RunContext, work: Work, reader: Reader) -> dict[int, int]:
    """How many rows the time buckets to process have of each slice that has any."""
    rows = source_rows(run, work, reader, work.time_buckets)
    number = columns.slice_of(F.col("persistence_id")).alias("slice")
    counted = rows.groupBy(number).agg(F.count(F.lit(1)).alias("events"))
    return {row.slice: row.events for row in counted.collect()}  # a row for each slice


def message_index(run: RunContext, work: Work) -> DataFrame:
    """The keys of every message of the work.

    Columns: persistence_id, sequence_nr (bigint), timestamp (timeuuid text), time_bucket (bigint).
    """
    return of_work(frames.message_index(run.spark, run.settings).select(*_INDEX), work)
