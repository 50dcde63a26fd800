"""Whose events a projection reads: those of its entity types, and of the slices of a range.

Everything that is read passes here before it is shuffled, judged or kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

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

_SLICE = "_slice"
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
    if work.shared is None:
        return source_rows(run, work, reader, work.time_buckets)
    is_planned = F.col("time_bucket").isin(work.time_buckets)
    return work.shared.of(work.shared.rows, work.slices).where(is_planned)


def message_index(run: RunContext, work: Work) -> DataFrame:
    """The keys of every message of the work.

    Columns: persistence_id, sequence_nr (bigint), timestamp (timeuuid text), time_bucket (bigint).
    """
    if work.shared is None:
        return of_work(frames.message_index(run.spark, run.settings).select(*_INDEX), work)
    return work.shared.of(work.shared.index, work.slices)


class Shared:
    """What several ranges of one run need of the journal, read once, with the slices of the rows.

    An event that appears after that is one that the run has not seen; the next one finds it.
    """

    def __init__(self, run: RunContext, work: Work, reader: Reader) -> None:
        """Nothing is read before it is needed. `work` is that of all the ranges."""
        self._run, self._work, self._reader = run, work, reader
        self._cached: list[DataFrame] = []

    @cached_property
    def rows(self) -> DataFrame:
        """As `source_rows` has them in the time buckets to process."""
        rows = source_rows(self._run, self._work, self._reader, self._work.time_buckets)
        return self._kept(rows)

    @cached_property
    def index(self) -> DataFrame:
        """As `message_index` has it."""
        return self._kept(message_index(self._run, self._work))

    def of(self, rows: DataFrame, slices: SliceRange) -> DataFrame:
        """Those of `rows` or `index` that are in a range."""
        return rows.where(_is_inside(F.col(_SLICE), slices)).drop(_SLICE)

    def events(self) -> Mapping[int, int]:
        """How many rows there are of each slice; a slice without any is left out."""
        counted = self.rows.groupBy(_SLICE).agg(F.count(F.lit(1)).alias("events"))
        return {row[_SLICE]: row.events for row in counted.collect()}  # a row for each slice

    def release(self) -> None:
        """Forget what is in memory."""
        for frame in self._cached:
            frame.unpersist()

    def _kept(self, rows: DataFrame) -> DataFrame:
        with_slice = rows.withColumn(_SLICE, columns.slice_of(F.col("persistence_id")))
        self._cached.append(with_slice.persist(StorageLevel.MEMORY_AND_DISK))
        return self._cached[-1]
