"""The reads of a scope's keys: by key if it names persistence ids, else by filtered scans."""

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
"""From this number of partitions of the tag views, a scan costs no more than reads by key."""


@dataclass(frozen=True)
class EventReader:
    """The reads of the keys of a scope; each call reads again.

    The window of the scope is ignored: a number depends on all events before it. `ids` are the
    persistence ids that the scope names, which are read by key; None if it names none.
    `are_applied` is as in `journal_keys.with_rule_tags`.
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
        """Return the reader of a scope; the arguments are the attributes."""
        persistence_ids = scope.persistence_ids
        ids = None if persistence_ids is None else ids_of(run, persistence_ids)
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
        """Read the messages without payloads, as `journal_keys.with_rule_tags` returns them."""
        spark, settings, payload = self.run.spark, self.run.settings, self._payload
        if self.ids is None:
            messages = frames.message_index(
                spark, settings, "partition_nr", *payload, with_has_payload=True
            )
            return self._tagged(self._of_slices(messages))
        of_progress = progress.select("persistence_id", F.col("progress_sequence_nr").alias("to"))
        recorded = of_progress.unionByName(scanning.withColumnRenamed("scanned_to", "to"))
        messages = frames.placed_messages_of_ids(
            self.ids,
            settings,
            *payload,
            # From the first partition on, in which a delete may have left events.
            deleted_to=self.ids.withColumn("deleted_to", F.lit(0).cast("bigint")),
            known_to=recorded.groupBy("persistence_id").agg(F.max("to").alias("known_to")),
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
        """Add events of rows that the read of messages did not return, such as newer events."""
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
        """Read up to where the events of the persistence ids are deleted."""
        return self._of_slices(frames.deleted(self.run.spark, self.run.settings, self.ids))

    @shaped(returns=SNAPSHOTS)
    def snapshots(self) -> DataFrame | None:
        """Read the snapshots; None without a snapshot store."""
        if not snapshots.has_snapshots(self.run.control, self.run.settings):
            return None
        return self._of_slices(snapshots.index(self.run.spark, self.run.settings, self.ids))

    @shaped(returns=ID)
    def listed(self) -> DataFrame:
        """Read the persistence ids in all_persistence_ids."""
        return self._of_slices(journal_keys.listed(self.run, self.ids))

    @property
    def _payload(self) -> Sequence[str]:
        """The payload columns that `_tagged` needs."""
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
        """Return the rows of the scope's slices; frames read by key have only its ids already."""
        return frame if self.ids is not None else of_ids(self.run, frame, self.scope)

    def _partitions(
        self, index: DataFrame, progress: DataFrame, ids: DataFrame
    ) -> DataFrame | None:
        """Return the partitions that may have rows of the ids; None if a scan costs no more."""
        of_findings = _partitions_of_findings(self.run, ids)
        ranges = row_ranges(index, progress, of_findings, self.run.settings)
        [size] = ranges.agg(F.sum("partitions").alias("partitions")).collect()
        located = index.select("persistence_id").union(progress.select("persistence_id"))
        is_any_unlocated = not ids.join(located, on="persistence_id", how="left_anti").isEmpty()
        if is_any_unlocated or (size["partitions"] or 0) > _MOST_PARTITIONS:
            return None
        step = F.lit(self.run.settings.bucket_size.milliseconds)
        partitions = ranges.select(
            "tag", F.explode(F.sequence("first_bucket", "last_bucket", step)).alias("time_bucket")
        )
        return of_tags(partitions.union(of_findings).distinct(), self.scope).select(
            F.col("tag").alias("tag_name"), F.col("time_bucket").alias("timebucket")
        )


def ids_of(run: RunContext, persistence_ids: Collection[str]) -> DataFrame:
    """Return persistence ids as a frame."""
    rows = [(persistence_id,) for persistence_id in sorted(persistence_ids)]
    return local_rows(run.spark, rows, "persistence_id string")


def of_ids(run: RunContext, frame: DataFrame, scope: Scope) -> DataFrame:
    """Return the rows of a scope's persistence ids; all rows if it names none."""
    if scope.slices is not None:
        slice_nr = columns.slice_of(F.col("persistence_id"))
        return frame.where(slice_nr.between(scope.slices.first, scope.slices.last))
    if scope.persistence_ids is None:
        return frame
    # Joined, since Spark plans a condition slowly if it has many values.
    ids = ids_of(run, scope.persistence_ids)
    return frame.join(ids, on="persistence_id", how="left_semi")


def of_tags(frame: DataFrame, scope: Scope) -> DataFrame:
    """Return the rows of a scope's tags; all rows if it names none."""
    return frame if scope.tags is None else frame.where(F.col("tag").isin(*sorted(scope.tags)))


def _partitions_of_findings(run: RunContext, ids: DataFrame) -> DataFrame:
    """Return tag and time_bucket (epoch ms) of the tag-view partitions with stored findings."""
    row_time_bucket = F.when(F.col("row_time_bucket") > 0, F.col("row_time_bucket"))
    return (
        store.stored(run.spark, run.settings)
        .where(F.col("check_name").isin(*finding_kinds.KINDS) & (F.col("tag") != ""))
        .join(ids, on="persistence_id", how="left_semi")
        .select("tag", F.coalesce(row_time_bucket, "time_bucket").alias("time_bucket"))
        .distinct()
    )


@shaped(
    index=MESSAGES,
    progress=WRITE_PROGRESS,
    further={"tag": "string"},
    returns={
        "tag": "string",
        "first_bucket": "bigint",
        "last_bucket": "bigint",
        "partitions": "bigint",
    },
)
def row_ranges(
    index: DataFrame, progress: DataFrame, further: DataFrame, settings: Settings
) -> DataFrame:
    """Return the first and last time bucket that may have rows of the events, for each tag.

    Events from sequence nr 1 on have no row before the first event. If the first events are
    missing, their rows may be anywhere from the first time bucket of readers on. The offsets of
    `progress` name the last events. `further` has other tags.
    """
    size = settings.bucket_size
    placed_progress = frames.placed(progress, size)
    tags = (
        placed_progress.select("tag")
        .union(index.select(F.explode("tags")))
        .union(further.select("tag"))
    )
    first_events = index.groupBy("persistence_id").agg(
        F.min("sequence_nr").alias("first_nr"), F.min("time_bucket").alias("time_bucket")
    )
    ids = (
        placed_progress.select("persistence_id")
        .union(first_events.select("persistence_id"))
        .distinct()
    )
    first = parse_first_time_bucket(settings.events_by_tag_first_time_bucket)
    earliest = F.lit(time_bucket(first, size)).cast("bigint")
    first_own_bucket = F.when(F.col("first_nr") == 1, F.col("time_bucket"))
    start = ids.join(first_events, on="persistence_id", how="left").agg(
        F.min(F.coalesce(first_own_bucket, F.least(earliest, F.col("time_bucket")))).alias(
            "first_bucket"
        )
    )
    ends = index.select("time_bucket").union(placed_progress.select("progress_bucket"))
    end = ends.agg(F.max("time_bucket").alias("last_bucket"))
    number = F.expr(f"(last_bucket - first_bucket) div {size.milliseconds} + 1")
    ranges = tags.distinct().crossJoin(start).crossJoin(end).where("first_bucket <= last_bucket")
    return ranges.withColumn("partitions", number)
