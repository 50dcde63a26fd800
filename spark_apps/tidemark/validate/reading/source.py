"""The keys of a scope: by key where persistence ids are named, else by filtered scans."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.pekko import frames, snapshots, tag_view_rows
from tidemark.journals.pekko.messages import increments
from tidemark.journals.pekko.shapes import (
    DELETED,
    ID,
    MESSAGES,
    SCANNING,
    SNAPSHOTS,
    TAG_ROWS,
    WRITE_PROGRESS,
)
from tidemark.partitioning import columns
from tidemark.partitioning.keys import time_bucket
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.tag_write import rules
from tidemark.validate import shapes, store
from tidemark.validate.reading import journal_keys
from tidemark.validate.scope import Scope
from tidemark.validate.tag_views import finding_kinds
from tidemark.validate.tag_views.keys import once
from tidemark.window import parse_first_time_bucket

_MOST_PARTITIONS = 100_000
"""Partitions of the tag views from which on a scan is no dearer than asking for each."""


@dataclass(frozen=True)
class EventReader:
    """The reads of the keys of a scope; each reads anew.

    The window of the scope does not matter: a number depends on all events before it.

    Attributes:
        run: the context of the run.
        scope: persistence ids, slices and tags.
        ids: the persistence ids that the scope names, which are read by key; None if it names none.
        tag_rules: the tag rules.
        are_applied: as in `journal_keys.with_rule_tags`.
    """

    run: RunContext
    scope: Scope
    ids: DataFrame | None
    tag_rules: Sequence[rules.TagRule]
    are_applied: bool

    @classmethod
    def of(
        cls, run: RunContext, scope: Scope, tag_rules: Sequence[rules.TagRule], *, are_applied: bool
    ) -> Self:
        """Return how the keys of a scope are read; the arguments are the attributes."""
        named = scope.persistence_ids
        ids = None if named is None else ids_of(run, named)
        return cls(run, scope, ids, tag_rules, are_applied)

    @shaped(returns=WRITE_PROGRESS)
    def progress(self) -> DataFrame:
        """Read tag_write_progress."""
        progress = frames.write_progress(self.run.spark, self.run.settings, self.ids)
        return of_tags(self._of_slices(progress), self.scope)

    @shaped(returns=SCANNING)
    def scanning(self) -> DataFrame:
        """Read tag_scanning."""
        return self._of_slices(frames.scanning(self.run.spark, self.run.settings, self.ids))

    @shaped(progress=WRITE_PROGRESS, scanning=SCANNING, returns=shapes.JOURNAL_EVENTS)
    def index(self, progress: DataFrame, scanning: DataFrame) -> DataFrame:
        """Read the messages without payloads, with their rules' columns.

        The frame has the columns of `journal_keys.with_rule_tags`.
        """
        spark, settings, payload = self.run.spark, self.run.settings, self._payload
        if self.ids is None:
            messages = frames.message_index(
                spark, settings, "partition_nr", *payload, with_has_payload=True
            )
            return self._tagged(self._of_slices(messages))
        of_progress = progress.select("persistence_id", F.col("progress_sequence_nr").alias("to"))
        known = of_progress.unionByName(scanning.withColumnRenamed("scanned_to", "to"))
        messages = frames.placed_messages_of_ids(
            self.ids,
            settings,
            *payload,
            # From the first partition on: a delete may have left events there.
            deleted_to=self.ids.withColumn("deleted_to", F.lit(0).cast("bigint")),
            known_to=known.groupBy("persistence_id").agg(F.max("to").alias("known_to")),
            with_has_payload=True,
        )
        return self._tagged(messages)

    @shaped(index=MESSAGES, progress=WRITE_PROGRESS, returns=TAG_ROWS)
    def rows(self, index: DataFrame, progress: DataFrame) -> DataFrame:
        """Read the rows of the tag views."""
        spark, settings = self.run.spark, self.run.settings
        partitions = None if self.ids is None else self._partitions(index, progress, self.ids)
        if partitions is None:
            rows = tag_view_rows.tag_view_keys(spark, settings)
            return of_tags(of_ids(self.run, rows, self.scope), self.scope)
        rows = tag_view_rows.tag_view_keys_of(partitions, settings)
        return of_ids(self.run, rows, self.scope)

    @shaped(index=shapes.JOURNAL_EVENTS, rows=TAG_ROWS, returns=shapes.JOURNAL_EVENTS)
    def with_events_of(self, index: DataFrame, rows: DataFrame) -> DataFrame:
        """Add events that came, or were missed, between the read of messages and that of rows."""
        if self.ids is None:
            return index
        event = ["persistence_id", "sequence_nr"]
        unread = once(rows.select(*event).distinct().join(index, on=event, how="left_anti"))
        if unread.isEmpty():
            return index
        messages = frames.messages_of(
            increments.keys_of(unread, self.run.settings),
            self.run.settings,
            "partition_nr",
            *self._payload,
            with_has_payload=True,
        )
        return once(index.unionByName(self._tagged(messages).select(*index.columns)))

    @shaped(returns=DELETED)
    def deleted(self) -> DataFrame:
        """Read how far the persistence ids are deleted."""
        return self._of_slices(frames.deleted(self.run.spark, self.run.settings, self.ids))

    @shaped(returns=SNAPSHOTS)
    def snapshots(self) -> DataFrame | None:
        """Read the snapshots; None without a snapshot store."""
        if not snapshots.has_snapshots(self.run.control, self.run.settings):
            return None
        return self._of_slices(snapshots.index(self.run.spark, self.run.settings, self.ids))

    @shaped(returns=ID)
    def listed(self) -> DataFrame:
        """Read the persistence ids that are in all_persistence_ids."""
        return self._of_slices(journal_keys.listed(self.run, self.ids))

    @property
    def _payload(self) -> Sequence[str]:
        """The payload columns that `_tagged` takes."""
        return journal_keys.payload_for(self.tag_rules)

    def _tagged(self, messages: DataFrame) -> DataFrame:
        """Return messages with the tags of the scope."""
        indexed = journal_keys.with_rule_tags(
            self.run, messages, self.tag_rules, are_applied=self.are_applied
        )
        if self.scope.tags is None:
            return indexed
        wanted = F.array(*(F.lit(tag) for tag in sorted(self.scope.tags)))
        return indexed.withColumns(
            {name: F.array_intersect(name, wanted) for name in ("tags", "pending_tags")}
        )

    def _of_slices(self, frame: DataFrame) -> DataFrame:
        """Return a frame, which has the named ids alone if there are any, in the scope's slices."""
        return frame if self.ids is not None else of_ids(self.run, frame, self.scope)

    def _partitions(
        self, index: DataFrame, progress: DataFrame, ids: DataFrame
    ) -> DataFrame | None:
        """Return the partitions that can have rows of ids; None if a scan is no dearer."""
        found = _places_of_findings(self.run, ids)
        places = row_places(index, progress, found, self.run.settings)
        [size] = places.agg(F.sum("partitions").alias("partitions")).collect()
        placed = index.select("persistence_id").union(progress.select("persistence_id"))
        is_placeless = not ids.join(placed, on="persistence_id", how="left_anti").isEmpty()
        if is_placeless or (size["partitions"] or 0) > _MOST_PARTITIONS:
            return None
        step = F.lit(self.run.settings.bucket_size.milliseconds)
        partitions = places.select(
            "tag", F.explode(F.sequence("first_bucket", "last_bucket", step)).alias("time_bucket")
        )
        return of_tags(partitions.union(found).distinct(), self.scope).select(
            F.col("tag").alias("tag_name"), F.col("time_bucket").alias("timebucket")
        )


def ids_of(run: RunContext, persistence_ids: Collection[str]) -> DataFrame:
    """Return named persistence ids as a frame."""
    named = [(persistence_id,) for persistence_id in sorted(persistence_ids)]
    return local_rows(run.spark, named, "persistence_id string")


def of_ids(run: RunContext, frame: DataFrame, scope: Scope) -> DataFrame:
    """Return the rows of a scope's persistence ids; those of all ids if it names none."""
    if scope.slices is not None:
        slice_nr = columns.slice_of(F.col("persistence_id"))
        return frame.where(slice_nr.between(scope.slices.first, scope.slices.last))
    if scope.persistence_ids is None:
        return frame
    # Joined, since Spark plans a condition name by name.
    ids = ids_of(run, scope.persistence_ids)
    return frame.join(ids, on="persistence_id", how="left_semi")


def of_tags(frame: DataFrame, scope: Scope) -> DataFrame:
    """Return the rows of a scope's tags; those of all tags if it names none."""
    return frame if scope.tags is None else frame.where(F.col("tag").isin(*sorted(scope.tags)))


def _places_of_findings(run: RunContext, ids: DataFrame) -> DataFrame:
    """Return tag and time_bucket (epoch ms) of the partitions that stored findings name."""
    held_in = F.when(F.col("held_in") > 0, F.col("held_in"))
    return (
        store.stored(run.spark, run.settings)
        .where(F.col("check_name").isin(*finding_kinds.KINDS) & (F.col("tag") != ""))
        .join(ids, on="persistence_id", how="left_semi")
        .select("tag", F.coalesce(held_in, "time_bucket").alias("time_bucket"))
        .distinct()
    )


@shaped(
    index=MESSAGES,
    progress=WRITE_PROGRESS,
    found={"tag": "string"},
    returns={
        "tag": "string",
        "first_bucket": "bigint",
        "last_bucket": "bigint",
        "partitions": "bigint",
    },
)
def row_places(
    index: DataFrame, progress: DataFrame, found: DataFrame, settings: Settings
) -> DataFrame:
    """Return where rows of the events can lie: of each tag, the time buckets from first to last.

    Events from sequence nr 1 on have no row before the first of them. Where the first events are
    missing, their rows may lie anywhere from the first time bucket of readers on.

    Args:
        index: the events of the persistence ids, with their tags.
        progress: of the same ids, whose offsets name the last events.
        found: further tags.
        settings: the bucket size, and the first time bucket of readers.
    """
    size = settings.bucket_size
    named = frames.placed(progress, size)
    tags = named.select("tag").union(index.select(F.explode("tags"))).union(found.select("tag"))
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
    places = tags.distinct().crossJoin(start).crossJoin(end).where("first_bucket <= last_bucket")
    return places.withColumn("partitions", number)
