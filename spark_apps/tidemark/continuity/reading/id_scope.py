"""The keys of some persistence ids: by key where ids are named, by filtered scans for slices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.continuity.reading import journal_keys
from tidemark.errors import InvalidInput
from tidemark.journal import frames, snapshots
from tidemark.journal.shapes import (
    DELETED,
    ID,
    MESSAGES,
    SCANNING,
    SNAPSHOTS,
    TAG_ROWS,
    WRITE_PROGRESS,
)
from tidemark.partitioning import columns, slice_ranges
from tidemark.partitioning.keys import SliceRange, time_bucket
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.tagging import rules
from tidemark.window import parse_first_time_bucket

_MOST_PARTITIONS = 100_000
"""Partitions of the tag views from which on a scan is no dearer than asking for each."""
_NAMED = 10


@dataclass(frozen=True)
class IdScope:
    """The persistence ids that a run judges: those named, or those of a range of slices."""

    persistence_ids: frozenset[str] = frozenset()
    slices: SliceRange | None = None

    @classmethod
    def of(cls, persistence_ids: Sequence[str] | None, slices: str | None) -> IdScope:
        """Return the scope that options name.

        Raises:
            InvalidInput: both are given, or the range is none.
        """
        if persistence_ids and slices is not None:
            raise InvalidInput(
                "persistence ids and slices together",
                where="--persistence-id, --slices",
                do="give one of them",
            )
        chosen = None if slices is None else slice_ranges.parse(slices)
        return cls(frozenset(persistence_ids or ()), chosen)

    def holds(self, persistence_id: Column) -> Column:
        """Return whether a persistence id is one of these."""
        if self.slices is None:
            return persistence_id.isin(*sorted(self.persistence_ids))
        return columns.slice_of(persistence_id).between(self.slices.first, self.slices.last)

    def details(self) -> dict[str, object]:
        """Return the scope as fields for programs, with the first persistence ids."""
        if self.slices is not None:
            return {"slices": slice_ranges.text(self.slices)}
        return {"persistence_ids": sorted(self.persistence_ids)[:_NAMED]}

    def __str__(self) -> str:
        """Return the scope for people."""
        if self.slices is not None:
            return f"the persistence ids of slices {slice_ranges.text(self.slices)}"
        shown = ", ".join(sorted(self.persistence_ids)[:_NAMED])
        more = len(self.persistence_ids) - _NAMED
        return f"persistence id {shown}{f' and {more:,} more' if more > 0 else ''}"


class IdSource(ABC):
    """The reads of a scope's keys; each reads anew."""

    @abstractmethod
    def progress(self) -> DataFrame:
        """Read tag_write_progress."""

    @abstractmethod
    def scanning(self) -> DataFrame:
        """Read tag_scanning."""

    @abstractmethod
    def index(self) -> DataFrame:
        """Read the messages as `journal_keys.index` does."""

    @abstractmethod
    def rows(self, index: DataFrame, progress: DataFrame) -> DataFrame:
        """Read the rows of the tag views, by what messages and progress tell of their places."""

    @abstractmethod
    def deleted(self) -> DataFrame:
        """Read how far the persistence ids are deleted."""

    @abstractmethod
    def snapshots(self) -> DataFrame | None:
        """Read the snapshots; None without a snapshot store."""

    @abstractmethod
    def listed(self) -> DataFrame:
        """Read those that are in all_persistence_ids."""


def source_of(run: RunContext, scope: IdScope, tag_rules: Sequence[rules.TagRule]) -> IdSource:
    """Return how the keys of a scope are read."""
    scanned = _Scanned(run, scope, tag_rules)
    if scope.slices is not None:
        return scanned
    named = [(persistence_id,) for persistence_id in sorted(scope.persistence_ids)]
    ids = local_rows(run.spark, named, "persistence_id string")
    return _Named(run, ids, tag_rules, scanned)


@dataclass(frozen=True)
class _Scanned(IdSource):
    run: RunContext
    scope: IdScope
    tag_rules: Sequence[rules.TagRule]

    @shaped(returns=WRITE_PROGRESS)
    def progress(self) -> DataFrame:
        return self._of(frames.write_progress(self.run.spark, self.run.settings))

    @shaped(returns=SCANNING)
    def scanning(self) -> DataFrame:
        return self._of(frames.scanning(self.run.spark, self.run.settings))

    @shaped(returns=MESSAGES)
    def index(self) -> DataFrame:
        return self._of(journal_keys.index(self.run, self.tag_rules))

    @shaped(returns=TAG_ROWS)
    def rows(self, index: DataFrame, progress: DataFrame) -> DataFrame:
        return self._of(frames.tag_view_keys(self.run.spark, self.run.settings))

    @shaped(returns=DELETED)
    def deleted(self) -> DataFrame:
        return self._of(frames.deleted(self.run.spark, self.run.settings))

    @shaped(returns=SNAPSHOTS)
    def snapshots(self) -> DataFrame | None:
        if not snapshots.has_snapshots(self.run.control, self.run.settings):
            return None
        return self._of(snapshots.index(self.run.spark, self.run.settings))

    @shaped(returns=ID)
    def listed(self) -> DataFrame:
        run = self.run
        return self._of(journal_keys.listed(run.spark, run.settings, run.control))

    def _of(self, frame: DataFrame) -> DataFrame:
        return frame.where(self.scope.holds(F.col("persistence_id")))


@dataclass(frozen=True)
class _Named(IdSource):
    run: RunContext
    ids: DataFrame
    tag_rules: Sequence[rules.TagRule]
    scanned: _Scanned

    @shaped(returns=WRITE_PROGRESS)
    def progress(self) -> DataFrame:
        return frames.write_progress_of_ids(self.ids, self.run.settings)

    @shaped(returns=SCANNING)
    def scanning(self) -> DataFrame:
        return frames.scanning_of_ids(self.ids, self.run.settings)

    @shaped(returns=MESSAGES)
    def index(self) -> DataFrame:
        messages = frames.placed_messages_of_ids(
            self.ids,
            self.run.settings,
            *journal_keys.payload_for(self.tag_rules),
            deleted_to=self.deleted(),
            with_has_payload=True,
        )
        return journal_keys.with_rule_tags(self.run, messages, self.tag_rules)

    @shaped(index=MESSAGES, progress=WRITE_PROGRESS, returns=TAG_ROWS)
    def rows(self, index: DataFrame, progress: DataFrame) -> DataFrame:
        places = row_places(index, progress, self.run.settings)
        [size] = places.agg(F.sum("partitions").alias("partitions")).collect()
        if (size["partitions"] or 0) > _MOST_PARTITIONS:
            return self.scanned.rows(index, progress)
        step = F.lit(self.run.settings.bucket_size.milliseconds)
        partitions = places.select(
            F.col("tag").alias("tag_name"),
            F.explode(F.sequence("first_bucket", "last_bucket", step)).alias("timebucket"),
        )
        rows = frames.tag_view_keys_of(partitions, self.run.settings)
        return rows.join(F.broadcast(self.ids), on="persistence_id", how="left_semi")

    @shaped(returns=DELETED)
    def deleted(self) -> DataFrame:
        return frames.deleted_of_ids(self.ids, self.run.settings)

    @shaped(returns=SNAPSHOTS)
    def snapshots(self) -> DataFrame | None:
        if not snapshots.has_snapshots(self.run.control, self.run.settings):
            return None
        return snapshots.index_of_ids(self.ids, self.run.settings)

    @shaped(returns=ID)
    def listed(self) -> DataFrame:
        settings = self.run.settings
        name = settings.all_persistence_ids_table
        if self.run.control.table_columns(settings.journal_keyspace, name) is None:
            return self.ids.limit(0)
        return connector.read_partitions(
            self.ids, settings.journal_keyspace, name, "persistence_id"
        )


@shaped(
    index=MESSAGES,
    progress=WRITE_PROGRESS,
    returns={
        "tag": "string",
        "first_bucket": "bigint",
        "last_bucket": "bigint",
        "partitions": "bigint",
    },
)
def row_places(index: DataFrame, progress: DataFrame, settings: Settings) -> DataFrame:
    """Return where rows of the events can lie: of each tag, the time buckets from first to last.

    Events from sequence nr 1 on have no row before the first of them. Where the first events are
    missing, their rows may lie anywhere from the first time bucket of readers on.

    Args:
        index: the events of the persistence ids, with their tags.
        progress: of the same ids, whose offsets name the last events.
        settings: the bucket size, and the first time bucket of readers.
    """
    size = settings.bucket_size
    named = frames.placed(progress, size)
    tags = named.select("tag").union(index.select(F.explode("tags"))).distinct()
    begun = index.groupBy("persistence_id").agg(
        F.min("sequence_nr").alias("first_nr"), F.min("time_bucket").alias("time_bucket")
    )
    ids = named.select("persistence_id").union(begun.select("persistence_id")).distinct()
    first = parse_first_time_bucket(settings.events_by_tag_first_time_bucket)
    earliest = F.lit(time_bucket(first, size)).cast("bigint")
    own = F.when(F.col("first_nr") == 1, F.col("time_bucket"))
    start = ids.join(begun, on="persistence_id", how="left").agg(
        F.min(F.coalesce(own, F.least(earliest, F.col("time_bucket")))).alias("first_bucket")
    )
    ends = index.select("time_bucket").union(named.select("progress_bucket"))
    end = ends.agg(F.max("time_bucket").alias("last_bucket"))
    number = F.expr(f"(last_bucket - first_bucket) div {size.milliseconds} + 1")
    places = tags.crossJoin(start).crossJoin(end).where("first_bucket <= last_bucket")
    return places.withColumn("partitions", number)
