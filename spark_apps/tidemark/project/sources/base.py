"""The protocol of event sources, for acceptance and management."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.pekko import frames, snapshots
from tidemark.journals.pekko import shapes as journal_shapes
from tidemark.journals.pekko.messages import increments
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
    """The events of one projection in one run, only of its entity types and of some slices.

    All rows pass `only_ours` before they are shuffled, validated or cached.
    """

    finds_by_id = False
    """Whether the source implements `unread_events`."""
    finds_late_again = True
    """Whether later runs read a late event again that waits for its predecessor."""

    def __init__(self, run: RunContext, definition: Definition, slices: SliceRange = ALL) -> None:
        """Bind the source to a run, without any I/O."""
        self.run, self.definition, self.slices = run, definition, slices
        self._keys: DataFrame | None = None
        self._key_buckets: frozenset[int] = frozenset()

    @property
    @abstractmethod
    def table(self) -> str:
        """The table that the events come from, as `keyspace.table`."""

    @shaped(returns=shapes.EVENTS)
    def rows(self, time_buckets: Sequence[int]) -> DataFrame:
        """Read the events of some time buckets, with a row for each tag of an event."""
        return self.only_ours(self._rows(time_buckets))

    @shaped(returns=shapes.EVENTS)
    def planned_rows(self, time_buckets: Sequence[int]) -> DataFrame:
        """Read the rows of some time buckets, by the keys of `keep_keys` if it has them all."""
        # They lack a late time bucket that is tried again in a batch of its own.
        if self._keys is None or not self._key_buckets.issuperset(time_buckets):
            return self.rows(time_buckets)
        return self.only_ours(self._rows_of(self._keys, time_buckets))

    @contextmanager
    def keep_keys(self, time_buckets: Sequence[int]) -> Iterator[None]:
        """Keep the keys of some time buckets in memory, if `rows` scans the complete source.

        Without these keys, every batch of a long plan would scan the source.
        """
        keys = self._all_keys(time_buckets)
        if keys is None:
            yield
            return
        self._keys = kept_once(self.only_ours(keys))
        self._key_buckets = frozenset(time_buckets)
        try:
            yield
        finally:
            # A failed projection must not occupy memory while the next one runs.
            self._keys.unpersist()
            self._keys = None

    @abstractmethod
    @shaped(returns=shapes.NUMBERS)
    def numbers(self) -> DataFrame:
        """Read all numbers of every series; rows may repeat."""

    @shaped(planned=shapes.EVENT, offsets=shapes.STORED, returns=shapes.UNREAD)
    def unread(self, batch: Batch, planned: DataFrame, offsets: DataFrame) -> DataFrame:
        """Read the keys after the stored number of each persistence id, or all keys.

        `planned` are the rows of the buckets to process. A source whose series have tags does not
        implement this.
        """
        raise NotImplementedError

    def reads_by_id(self, batch: Batch) -> bool:
        """Return whether a batch only needs `unread_events`.

        A result by time buckets needs all their events. So does finding persistence ids that begin
        again, begin with a snapshot, or have events that expire.
        """
        definition = self.definition
        begins_elsewhere = definition.starts_from_snapshots or definition.reset_after is not None
        return (
            self.finds_by_id
            and definition.mode.is_by_persistence_id
            and not begins_elsewhere
            and batch.plan.truncated_from is None
        )

    @shaped(offsets=shapes.STORED, returns=shapes.EVENTS)
    def unread_events(self, batch: Batch, offsets: DataFrame) -> DataFrame:
        """Read the events of `unread` with their payload; only sources with `finds_by_id` can.

        The rows are in memory. They may include consumed events and some after the batch's end.
        """
        raise NotImplementedError

    @shaped(returns=shapes.WRITTEN)
    def written(self) -> DataFrame | None:
        """Read how far each series was written; None if the journal leaves no numbers out."""
        return None

    @shaped(returns=shapes.DELETED)
    def deleted(self) -> DataFrame:
        """Read how far each persistence id is deleted, by default in Pekko's journal."""
        return frames.deleted(self.run.spark, self.run.settings)

    @shaped(keys=shapes.EVENT, returns=shapes.EVENTS)
    def events_by_key(self, keys: DataFrame) -> DataFrame:
        """Read the events of unique keys, by default in Pekko's journal."""
        message_keys = increments.keys_of(keys, self.run.settings).localCheckpoint()
        messages = frames.messages_of(message_keys, self.run.settings, *read.PAYLOAD)
        return read.numbered(messages).select(*read.COLUMNS, *read.PAYLOAD)

    @shaped(ids=shapes.ID, returns=shapes.EVENTS)
    def history(self, ids: DataFrame) -> DataFrame:
        """Read all events of unique persistence ids, by default in Pekko's journal."""
        messages = frames.messages_of_ids(ids, self.run.settings, *read.PAYLOAD)
        return read.numbered(messages).select(*read.COLUMNS, *read.PAYLOAD)

    @shaped(ids=shapes.ID, returns=journal_shapes.SNAPSHOTS)
    def snapshot_index(self, ids: DataFrame | None = None) -> DataFrame:
        """Read the numbers of snapshots, all or of unique ids, by default of Pekko's."""
        return snapshots.index(self.run.spark, self.run.settings, ids)

    @shaped(keys=shapes.EVENT, returns=journal_shapes.SNAPSHOT_PAYLOADS)
    def snapshot_payloads(self, keys: DataFrame) -> DataFrame:
        """Read complete snapshots of unique keys, by default of Pekko's."""
        return snapshots.payloads(keys, self.run.settings)

    @shaped(planned=shapes.ID, offsets=shapes.ID, returns=shapes.ID)
    def listed_ids(self, batch: Batch, planned: DataFrame, offsets: DataFrame) -> DataFrame | None:
        """Read the possible persistence ids; None if this would need a scan.

        `planned` are the rows of the buckets to process.
        """
        return None

    @shaped(returns={"event": "binary"})
    def sample(self, time_buckets: Sequence[int]) -> DataFrame:
        """Read rows with payloads as large as those of some time buckets, to take a few samples."""
        return self.rows(time_buckets)

    def events_by_slice(self, time_buckets: Sequence[int]) -> dict[int, int]:
        """Count the events of some time buckets by slice, leaving out slices without events."""
        slice_number = columns.slice_of(F.col("persistence_id")).alias("slice")
        rows = self.rows(time_buckets).groupBy(slice_number).agg(F.count(F.lit(1)).alias("events"))
        return {row.slice: row.events for row in rows.collect()}  # a row for each slice

    def only_ours(self, rows: DataFrame) -> DataFrame:
        """Keep the rows of the projection's entity types and of these slices, by persistence_id."""
        typed = self.only_entity_types(rows)
        if self.slices == ALL:
            return typed
        slice_number = columns.slice_of(F.col("persistence_id"))
        return typed.where(slice_number.between(self.slices.first, self.slices.last))

    def only_entity_types(self, rows: DataFrame) -> DataFrame:
        """Keep the rows of the projection's entity types, by persistence_id."""
        entity_types = self.definition.source.entity_types
        if entity_types is None:
            return rows
        return rows.where(columns.entity_type(F.col("persistence_id")).isin(*entity_types))

    @abstractmethod
    def _rows(self, time_buckets: Sequence[int]) -> DataFrame:
        """Read as `rows` does, of all entity types and slices."""

    def _all_keys(self, time_buckets: Sequence[int]) -> DataFrame | None:
        """Read the keys that `_rows_of` needs, with persistence_id and time_bucket (bigint).

        Return None if `_rows` reads only its time buckets.
        """
        return None

    def _rows_of(self, keys: DataFrame, time_buckets: Sequence[int]) -> DataFrame:
        """Read as `_rows` does, by keys that include those of the time buckets."""
        raise NotImplementedError


@shaped(index={**shapes.UNREAD, "ticks": "bigint"}, returns=shapes.NUMBERS)
def event_numbers(index: DataFrame) -> DataFrame:
    """Return the numbers of events by persistence id, for `EventSource.numbers`."""
    epoch_ms = columns.ticks_epoch_ms(F.col("ticks")).alias("epoch_ms")
    return read.numbered(index).select("persistence_id", "tag", "number", "time_bucket", epoch_ms)
