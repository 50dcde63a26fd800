"""The deletes of events of one plan: their number, their keys, and how they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import islice

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.application.approval import digest
from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.journals.pekko import frames, tables
from tidemark.journals.pekko.shapes import DELETED
from tidemark.purge.messages import rules, shapes, store
from tidemark.purge.needs.events import TAG_WRITE, EventNeeds
from tidemark.purge.saved.copies import sums
from tidemark.purge.saved.save import RowsToDelete, save
from tidemark.purge.target import Tombstones
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped
from tidemark.tag_write import rules as tag_rules

Needed = Callable[[RunContext, DataFrame], EventNeeds]
"""Finds the needs of readers of persistence ids (ID): `purge.needs.events.needed`."""
AT_ONCE = 1000
"""Deletes that are made between two checks of the locks."""
MAX_LINES = 20


def locks_of(settings: Settings) -> list[str]:
    """Return the resources to lock: no run may number tag rows from messages that vanish."""
    return [tables.lock_of_messages(settings), tables.lock_of(settings)]


@dataclass(frozen=True)
class EventDeletes:
    """The deletes of events of one plan.

    Attributes:
        bounded: BOUNDED, in memory: the limit of each persistence id.
        raised: DELETED, in memory: the metadata to write.
        parts: DELETES, in memory: one row for each delete.
        write_time: of the metadata, microseconds; from before the plan.
        counts: numbers of deleted and of kept things, by name.
        lines: text for people.
        tombstones: the numbers of deletes.
        digest: of all keys to delete, and of all metadata to write.
    """

    bounded: DataFrame
    raised: DataFrame
    parts: DataFrame
    write_time: int
    counts: Mapping[str, int]
    lines: Sequence[str]
    tombstones: Tombstones
    digest: str

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be written."""
        return not self.tombstones.total and not self.counts["metadata_written"]

    def write_deleted_to(self, run: RunContext, ensure_locked: EnsureLocked) -> None:
        """Write to metadata up to where events are deleted: the first step."""
        if self.counts["metadata_written"]:
            ensure_locked()
            store.write_deleted_to(self.raised, run.settings, write_time=self.write_time)

    def save_on(self, run: RunContext) -> Callable[[str], None]:
        """Return a function that saves these events to a directory."""
        deletions = RowsToDelete(self.bounded.select("persistence_id"), parts=self.parts)
        return partial(save, run, deletions)

    def delete(self, run: RunContext, ensure_locked: EnsureLocked) -> None:
        """Delete whole partitions, then ranges."""
        if self.tombstones.partitions:
            ensure_locked()
            store.delete_partitions(self.parts.where("is_whole"), run.settings)
        ranges = self.parts.where(~F.col("is_whole")).select("persistence_id", "partition_nr", "to")
        for part in in_parts(ranges):
            ensure_locked()
            store.delete_ranges(run.control, run.settings, part)


def in_parts(rows: DataFrame) -> Iterator[list[tuple[object, ...]]]:
    """Yield the rows, a bounded number at a time."""
    values = (tuple(row) for row in rows.toLocalIterator())
    while part := list(islice(values, AT_ONCE)):
        yield part


@shaped(events=shapes.EVENTS, limits=shapes.LIMITS, deleted=DELETED)
def plan_deletes(
    run: RunContext,
    events: DataFrame,
    limits: DataFrame,
    deleted: DataFrame,
    needed: Needed,
    *,
    write_time: int,
    with_tag_views: bool = False,
) -> EventDeletes:
    """Plan the deletes of events up to limits, except those that a reader needs.

    `events` are all events of these persistence ids; `limits` are unique in persistence_id.
    `write_time` (microseconds) is from before `deleted` was read, which is never lowered.

    With `with_tag_views` the events' rows of the tag views are deleted too, so that none is
    pending; and a persistence id is deleted completely or not at all.
    """
    limits = limits.localCheckpoint()
    ids = limits.select("persistence_id")
    needs = needed(run, ids)
    holds = [needs.per_id.withColumnRenamed("needed_from", "held_from")]
    if needs.everything:
        reader = "; ".join(needs.everything)
        holds.append(ids.select("persistence_id", _first(), F.lit(reader).alias("reader")))
    if not with_tag_views:
        limited = events.join(limits, on="persistence_id").where("sequence_nr <= to").drop("to")
        holds.append(_without_tag_rows(run, limited, ids))
    all_holds = reduce(DataFrame.unionByName, holds)
    if with_tag_views:
        all_holds = rules.wholly(all_holds, limits)
    bounded = rules.bounded(limits, all_holds).localCheckpoint()
    raised = (
        bounded.join(deleted, on="persistence_id", how="left")
        .where(F.col("to") > F.coalesce(F.col("deleted_to"), F.lit(0)))
        .select("persistence_id", F.col("to").alias("deleted_to"))
        .localCheckpoint()
    )
    parts = rules.deletes(events, bounded).localCheckpoint()
    return _counted(bounded, raised, parts, write_time)


def _first() -> Column:
    return F.lit(1).cast("bigint").alias("held_from")


def _without_tag_rows(run: RunContext, events: DataFrame, ids: DataFrame) -> DataFrame:
    settings = run.settings
    present_rules = tag_rules.load(settings.tagging_dir)
    tag_rules.require_present(run.control, settings, present_rules)
    return rules.without_rows(
        events,
        frames.write_progress(ids.sparkSession, settings, ids),
        frames.scanning(ids.sparkSession, settings, ids),
        has_rules=bool(present_rules),
    )


def _counted(
    bounded: DataFrame, raised: DataFrame, parts: DataFrame, write_time: int
) -> EventDeletes:
    [row] = parts.agg(
        F.count_if("is_whole").alias("whole"),
        F.count_if(~F.col("is_whole")).alias("ranges"),
        F.coalesce(F.sum("events"), F.lit(0)).alias("events"),
        F.countDistinct("persistence_id").alias("ids"),
    ).collect()
    metadata_rows = raised.count()
    counts = {
        "events_deleted": row.events,
        "persistence_ids": row.ids,
        "metadata_written": metadata_rows,
        "ids_kept": bounded.where(F.col("reader").isNotNull()).count(),
    }
    tombstones = Tombstones(partitions=row.whole, ranges=row.ranges)
    lines = []
    if tombstones.total or metadata_rows:
        lines.append(
            f"{row.events:,} events of {row.ids:,} persistence ids go: {row.whole:,} partitions as"
            f" a whole, {row.ranges:,} ranges; deleted_to is raised for {metadata_rows:,}"
        )
    keys = [*fingerprint(parts.drop("events")), *fingerprint(raised)]
    return EventDeletes(
        bounded,
        raised,
        parts,
        write_time,
        counts,
        [*lines, *_kept_lines(bounded)],
        tombstones,
        digest(keys),
    )


def fingerprint(rows: DataFrame) -> tuple[object, ...]:
    """Return the number of rows and sums over their hashes, independent of their order."""
    [row] = rows.agg(*sums(rows)).collect()
    return tuple(row)


def _kept_lines(bounded: DataFrame) -> list[str]:
    rows = (
        bounded.where(F.col("reader").isNotNull())
        .groupBy("reader")
        .agg(F.count("*").alias("ids"), F.min(F.struct("persistence_id", "held_from")).alias("one"))
        .orderBy(F.desc("ids"), "reader")
        .limit(MAX_LINES)
        .collect()
    )
    return [
        f"keep events of {row.ids:,} persistence ids: {_why(row.reader)}, such as"
        f" {row.one.persistence_id} from sequence nr {row.one.held_from:,} on"
        for row in rows
    ]


def _why(reader: str) -> str:
    if reader == TAG_WRITE:
        return "their rows in the tag views are not written yet"
    return f"needed by {reader}"
