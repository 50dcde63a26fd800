"""Sources `messages` and `persistence-ids` on a journal of akka-persistence-r2dbc.

The timestamp of an event is that of its transaction's begin, so that events become visible in
another order. A run therefore reads again from TIDEMARK_R2DBC_LOOK_BACK seconds before its time
buckets, and by key the numbers that lack between the stored number of a persistence id and the
highest number that it found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import cached_property, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.r2dbc import frames, snapshots
from tidemark.journals.r2dbc.shapes import RANGES
from tidemark.partitioning.keys import SliceRange
from tidemark.partitioning.slice_ranges import ALL
from tidemark.project import shapes
from tidemark.project.definition.model import Definition
from tidemark.project.definition.source import PersistenceIds
from tidemark.project.planning.batch import Batch
from tidemark.project.sources import read, restarts
from tidemark.project.sources.base import EventSource, event_numbers
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import ddl, shaped

_LAST = 2**63 - 1
_TIMED = {**shapes.UNREAD, "timestamp": "string"}


class R2dbcSource(EventSource):
    """All events, or those of the definition's entity types, by the slice index."""

    finds_by_id = True
    finds_late_again = False
    _before: DataFrame | None = None
    _deletions: DataFrame | None = None

    @property
    def table(self) -> str:
        """The table of the journal, without the suffix of a data partition."""
        return self.definition.source.table(self.run.settings)

    def numbers(self) -> DataFrame:
        """Read the numbers of all events."""
        rows = frames.all_events(
            self.run.spark, self.run.settings, slices=self.slices, entity_types=self._entity_types
        )
        return event_numbers(self.only_ours(rows))

    def unread(self, batch: Batch, planned: DataFrame, offsets: DataFrame) -> DataFrame:
        """Read the keys of the look-back, and those that lack before the highest numbers."""
        # Each attempt to read a batch reads anew, as events may be deleted meanwhile.
        before = self._late(batch) if self._before is None else self._before
        self._before = None
        found = planned.select(*shapes.KEYS).unionByName(read.numbered(before).select(*shapes.KEYS))
        missing = lacking(found, self._present(found, offsets)).localCheckpoint()
        rows = frames.rows_of(missing, self.run.settings).localCheckpoint()
        self._deletions = frames.deletions(rows)
        # An event of the look-back may also be in a range.
        by_key = frames.events(rows).select(*_TIMED)
        return before.unionByName(by_key).distinct()

    def unread_events(self, batch: Batch, offsets: DataFrame) -> DataFrame:
        """Read the events after the stored numbers in the time buckets and before, see `unread`."""
        size = self.run.settings.bucket_size.milliseconds
        ranges = merged([*self._look_back(batch), *read.ranges_of(batch.planned, size)])
        known = offsets.select("persistence_id", "stored_number")
        is_new = F.col("sequence_nr") > F.coalesce("stored_number", F.lit(0))
        events = self.only_ours(self._between(ranges, *read.PAYLOAD))
        events = events.join(known, on="persistence_id", how="left").where(is_new)
        events = events.drop("stored_number").localCheckpoint()
        missing = lacking(events, offsets).localCheckpoint()
        rows = frames.rows_of(missing, self.run.settings, *read.PAYLOAD).localCheckpoint()
        self._deletions = frames.deletions(rows)
        key = ["persistence_id", "sequence_nr", "timestamp"]
        by_key = frames.events(rows).join(events.select(*key), on=key, how="left_anti")
        unread = read.numbered(events.unionByName(by_key))
        return unread.select(*read.COLUMNS, *read.PAYLOAD)

    def deleted(self) -> DataFrame:
        """Return how far the persistence ids are deleted whose numbers lack in the batch."""
        if self._deletions is None:
            return self.run.spark.createDataFrame([], ddl(shapes.DELETED))
        return self._deletions

    def events_by_key(self, keys: DataFrame) -> DataFrame:
        """Read the events of unique keys."""
        number = F.col("sequence_nr")
        ranges = keys.select("persistence_id", number.alias("first_nr"), number.alias("last_nr"))
        return self._events_of(ranges)

    def history(self, ids: DataFrame) -> DataFrame:
        """Read all events of unique persistence ids."""
        return self._events_of(_all_of(ids))

    def snapshot_index(self, ids: DataFrame | None = None) -> DataFrame:
        """Read the numbers of snapshots, all or of unique ids."""
        return snapshots.index(self.run.spark, self.run.settings, ids, self.slices)

    def snapshot_payloads(self, keys: DataFrame) -> DataFrame:
        """Read complete snapshots of unique keys."""
        return snapshots.payloads(keys, self.run.settings)

    def listed_ids(self, batch: Batch, planned: DataFrame, offsets: DataFrame) -> DataFrame | None:
        """Return the ids of the rows and the look-back, once the projection has met all others."""
        if offsets.isEmpty():
            return None
        # An id of a late event must not be in `unread` without its snapshot.
        self._before = self._late(batch)
        ids = self._before.select("persistence_id")
        return planned.select("persistence_id").unionByName(ids).distinct()

    def _late(self, batch: Batch) -> DataFrame:
        ranges = self._look_back(batch)
        return self.only_ours(self._between(ranges)).select(*_TIMED).localCheckpoint()

    def _look_back(self, batch: Batch) -> list[tuple[int, int]]:
        settings = self.run.settings
        return look_back(
            batch.planned,
            batch.unsettled | batch.left_out,
            settings.bucket_size.milliseconds,
            settings.r2dbc_look_back * 1000,
        )

    def _rows(self, time_buckets: Sequence[int]) -> DataFrame:
        size = self.run.settings.bucket_size.milliseconds
        events = self._between(read.ranges_of(set(time_buckets), size), *read.PAYLOAD)
        return read.by_sequence_nr(events, time_buckets)

    def _between(self, ranges: Sequence[tuple[int, int]], *payload: str) -> DataFrame:
        """Read the events of time ranges in epoch ms, the ends of which are exclusive."""
        if len(ranges) > read.MOST_RANGES:
            ranges = [(ranges[0][0], ranges[-1][1])]
        return reduce(
            DataFrame.unionByName,
            [
                frames.events_between(
                    self.run.spark,
                    self.run.settings,
                    first,
                    end,
                    *payload,
                    slices=self.slices,
                    entity_types=self._entity_types,
                )
                for first, end in ranges or [(0, 0)]
            ],
        )

    def _events_of(self, ranges: DataFrame) -> DataFrame:
        rows = frames.events(frames.rows_of(ranges, self.run.settings, *read.PAYLOAD))
        return read.numbered(rows).select(*read.COLUMNS, *read.PAYLOAD)

    def _present(self, found: DataFrame, offsets: DataFrame) -> DataFrame:
        """Leave out the stored numbers of persistence ids that began anew."""
        reset_after = self.definition.reset_after
        if reset_after is None:
            return offsets
        # Rows of a former life are deleted: a lower number that exists is of the present one.
        nothing = self.run.spark.createDataFrame([], ddl(shapes.DELETED))
        restarted = restarts.restarted_ids(found, offsets, nothing, reset_after)
        return offsets.join(restarted.select("persistence_id"), "persistence_id", "left_anti")

    @cached_property
    def _entity_types(self) -> Sequence[str]:
        stated = self.definition.source.entity_types
        return frames.read_entity_types(self.run.settings) if stated is None else stated


class R2dbcIdsSource(R2dbcSource):
    """The events of the definition's persistence ids, by the primary key."""

    finds_late_again = True

    def __init__(
        self,
        run: RunContext,
        definition: Definition,
        spec: PersistenceIds,
        slices: SliceRange = ALL,
    ) -> None:
        """Bind the source to a run, without any I/O."""
        super().__init__(run, definition, slices)
        self._ids = spec.ids

    def numbers(self) -> DataFrame:
        """Read the numbers of the persistence ids."""
        return event_numbers(frames.events(self._all_rows()))

    def unread(self, batch: Batch, planned: DataFrame, offsets: DataFrame) -> DataFrame:
        """Read the keys of all events of the persistence ids."""
        rows = self._all_rows().localCheckpoint()
        self._deletions = frames.deletions(rows)
        return frames.events(rows)

    def unread_events(self, batch: Batch, offsets: DataFrame) -> DataFrame:
        """Read all events of the persistence ids, with the payload."""
        rows = self._all_rows(*read.PAYLOAD).localCheckpoint()
        self._deletions = frames.deletions(rows)
        events = read.numbered(frames.events(rows))
        return events.select(*read.COLUMNS, *read.PAYLOAD)

    def listed_ids(self, batch: Batch, planned: DataFrame, offsets: DataFrame) -> DataFrame | None:
        """Return the ids that the definition names."""
        return self._id_rows()

    def _rows(self, time_buckets: Sequence[int]) -> DataFrame:
        return read.by_sequence_nr(frames.events(self._all_rows(*read.PAYLOAD)), time_buckets)

    def _all_rows(self, *payload: str) -> DataFrame:
        ids = self.only_ours(self._id_rows())
        return frames.rows_of(_all_of(ids), self.run.settings, *payload)

    def _id_rows(self) -> DataFrame:
        return local_rows(self.run.spark, [(pid,) for pid in self._ids], "persistence_id string")


def _all_of(ids: DataFrame) -> DataFrame:
    return ids.select(
        "persistence_id",
        F.lit(1).cast("bigint").alias("first_nr"),
        F.lit(_LAST).cast("bigint").alias("last_nr"),
    )


@shaped(found=shapes.EVENT, offsets=shapes.STORED, returns=RANGES)
def lacking(found: DataFrame, offsets: DataFrame) -> DataFrame:
    """Find where numbers lack between the stored number and the highest one that was found.

    `offsets` are unique by persistence id; without one, the numbers begin with 1.
    """
    stored = offsets.select("persistence_id", "stored_number")
    after = F.coalesce("stored_number", F.lit(0))
    highest, different = F.max("sequence_nr"), F.count_distinct("sequence_nr")
    return (
        found.join(stored, on="persistence_id", how="left")
        .where(F.col("sequence_nr") > after)
        .groupBy("persistence_id", after.alias("after"))
        .agg(highest.alias("last_nr"), different.alias("numbers"))
        .where(F.col("numbers") < F.col("last_nr") - F.col("after"))
        .select("persistence_id", (F.col("after") + 1).alias("first_nr"), "last_nr")
    )


def look_back(
    planned: Set[int], held: Set[int], size: int, look_back_ms: int
) -> list[tuple[int, int]]:
    """Return the time ranges that may have late events, ascending and disjoint; all in epoch ms.

    They are `look_back_ms` before each of the `planned` time buckets, and the time buckets in which
    events are `held` back, except for planned time buckets. `size` is that of a time bucket.
    """
    firsts = {bucket: bucket for bucket in held - planned}
    for bucket in planned:
        earliest = bucket - look_back_ms
        for before in range(bucket - size, earliest - size, -size):
            if before not in planned:
                firsts[before] = min(firsts.get(before, before + size), max(before, earliest))
    return merged([(first, bucket + size) for bucket, first in firsts.items()])


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return disjoint ranges in their order; ranges that touch each other become one."""
    result: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if result and result[-1][1] == first:
            result[-1] = (result[-1][0], end)
        else:
            result.append((first, end))
    return result
