"""What acceptance and management ask of a source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.pekko import frames
from tidemark.partitioning import columns
from tidemark.partitioning.keys import SliceRange
from tidemark.partitioning.slice_ranges import ALL
from tidemark.project import shapes
from tidemark.project.definition.model import Definition
from tidemark.project.planning.batch import Batch
from tidemark.project.sources import read
from tidemark.spark.read_once import kept_once
from tidemark.spark.shapes import shaped


class EventSource(ABC):
    """The events of one projection in one run, of its entity types and of some slices only.

    Whatever is read passes `only_ours` before it is shuffled, judged or kept.
    """

    finds_by_id = False
    """Whether there is `unread_events`."""

    def __init__(self, run: RunContext, definition: Definition, slices: SliceRange = ALL) -> None:
        """Bind the source to a run, without any I/O."""
        self.run, self.definition, self.slices = run, definition, slices
        self._keys: DataFrame | None = None
        self._kept: frozenset[int] = frozenset()

    @property
    @abstractmethod
    def table(self) -> str:
        """The table that the events come from, as `keyspace.table`."""

    @shaped(returns=shapes.EVENTS)
    def rows(self, time_buckets: Sequence[int]) -> DataFrame:
        """Read the events of some time buckets; an event of several tags once for each."""
        return self.only_ours(self._rows(time_buckets))

    @shaped(returns=shapes.EVENTS)
    def planned_rows(self, time_buckets: Sequence[int]) -> DataFrame:
        """Read the rows by the keys of `keep_keys` if it has the keys of all these time buckets."""
        # A late time bucket that is tried anew by itself is not among them.
        if self._keys is None or not self._kept.issuperset(time_buckets):
            return self.rows(time_buckets)
        return self.only_ours(self._rows_of(self._keys, time_buckets))

    @contextmanager
    def keep_keys(self, time_buckets: Sequence[int]) -> Iterator[None]:
        """Keep the keys of some time buckets in memory, where `rows` reads all of the source.

        For the batches of a long plan, which would scan the source as often as there are batches.
        """
        keys = self._all_keys(time_buckets)
        if keys is None:
            yield
            return
        self._keys = kept_once(self.only_ours(keys))
        self._kept = frozenset(time_buckets)
        try:
            yield
        finally:
            # A projection that fails must not keep them while the next one runs.
            self._keys.unpersist()
            self._keys = None

    @abstractmethod
    @shaped(returns=shapes.NUMBERS)
    def numbers(self) -> DataFrame:
        """Read the numbers of every series, wherever they lie; rows may repeat."""

    @shaped(planned=shapes.EVENT, stored=shapes.STORED, returns=shapes.UNREAD)
    def unread(self, batch: Batch, planned: DataFrame, stored: DataFrame) -> DataFrame:
        """Read the keys behind the stored number of each persistence id, or of everything.

        A source whose series have tags does not implement this.

        Args:
            batch: what is processed.
            planned: the rows of the buckets to process.
            stored: of all series.
        """
        raise NotImplementedError

    def reads_by_id(self, batch: Batch) -> bool:
        """Return whether a batch needs no more than `unread_events`.

        A result by time buckets needs all that lies in them. A persistence id that begins anew or
        with a snapshot is known by its events, and one whose events expire is found by them.
        """
        definition = self.definition
        begins_elsewhere = definition.starts_from_snapshots or definition.reset_after is not None
        return (
            self.finds_by_id
            and definition.mode.is_by_persistence_id
            and not begins_elsewhere
            and batch.plan.truncated_from is None
        )

    @shaped(stored=shapes.STORED, returns=shapes.EVENTS)
    def unread_events(self, batch: Batch, stored: DataFrame) -> DataFrame:
        """Read as `unread` does, with the payload; only a source that `finds_by_id` implements it.

        Events that were consumed, and some after the batch's end, may be among the rows, which are
        in memory.

        Args:
            batch: what is processed.
            stored: of all series.
        """
        raise NotImplementedError

    @shaped(returns=shapes.WRITTEN)
    def written(self) -> DataFrame | None:
        """Read up to which number a series was written, where numbers may be left out."""
        return None

    @shaped(returns=shapes.DELETED)
    def deleted(self) -> DataFrame:
        """Read how far each persistence id is deleted: by default every one of Pekko's journal."""
        return frames.deleted(self.run.spark, self.run.settings)

    @shaped(planned=shapes.ID, stored=shapes.ID, returns=shapes.ID)
    def listed_ids(self, planned: DataFrame, stored: DataFrame) -> DataFrame | None:
        """Read the persistence ids that there may be, if they are known without a scan; else None.

        Args:
            planned: the rows of the buckets to process.
            stored: of all series.
        """
        return None

    @shaped(returns={"event": "binary"})
    def sample(self, time_buckets: Sequence[int]) -> DataFrame:
        """Read rows whose payloads are as large as those of some time buckets, to take a few of."""
        return self.rows(time_buckets)

    def events_by_slice(self, time_buckets: Sequence[int]) -> dict[int, int]:
        """Count the events of some time buckets by slice, without the slices that have none."""
        number = columns.slice_of(F.col("persistence_id")).alias("slice")
        rows = self.rows(time_buckets).groupBy(number).agg(F.count(F.lit(1)).alias("events"))
        return {row.slice: row.events for row in rows.collect()}  # a row for each slice

    def only_ours(self, rows: DataFrame) -> DataFrame:
        """Keep the rows of the projection's entity types and of these slices, by persistence_id."""
        typed = self.only_entity_types(rows)
        if self.slices == ALL:
            return typed
        number = columns.slice_of(F.col("persistence_id"))
        return typed.where(number.between(self.slices.first, self.slices.last))

    def only_entity_types(self, rows: DataFrame) -> DataFrame:
        """Keep the rows of the projection's entity types, by persistence_id."""
        entity_types = self.definition.source.entity_types
        if entity_types is None:
            return rows
        return rows.where(columns.entity_type(F.col("persistence_id")).isin(*entity_types))

    @abstractmethod
    def _rows(self, time_buckets: Sequence[int]) -> DataFrame:
        """Read as `rows` does, whatever the entity type and the slice."""

    def _all_keys(self, time_buckets: Sequence[int]) -> DataFrame | None:
        """Read the keys that `_rows_of` needs, with persistence_id and time_bucket (bigint).

        None where `_rows` reads no more than its time buckets.
        """
        return None

    def _rows_of(self, keys: DataFrame, time_buckets: Sequence[int]) -> DataFrame:
        """Read as `_rows` does, by the keys of these and other time buckets."""
        raise NotImplementedError


@shaped(index={**shapes.UNREAD, "ticks": "bigint"}, returns=shapes.NUMBERS)
def event_numbers(index: DataFrame) -> DataFrame:
    """Number events by persistence id, as `EventSource.numbers` has them."""
    epoch_ms = columns.ticks_epoch_ms(F.col("ticks")).alias("epoch_ms")
    return read.numbered(index).select("persistence_id", "tag", "number", "time_bucket", epoch_ms)
