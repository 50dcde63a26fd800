"""Events and snapshots that deletions took and saved, written back.

The order of writes: events, snapshots, then metadata, which makes the events visible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.errors import WrongData
from tidemark.journal import frames, snapshots
from tidemark.journal.shapes import ID
from tidemark.retention.messages import read
from tidemark.retention.messages.deletes import fingerprint
from tidemark.retention.target import TargetPlan, Tombstones, digest
from tidemark.retention.undo import copies, save, store
from tidemark.retention.undo.copies import Copy
from tidemark.retention.undo.visible import Table, require_visible
from tidemark.spark.shapes import shaped

_EVENT = ["persistence_id", "sequence_nr", "timestamp"]
_SNAPSHOT = ["persistence_id", "sequence_nr"]


def plan_events(run: RunContext, found: Sequence[Copy], *, keep_write_times: bool) -> TargetPlan:
    """Plan to write back what copies of events and snapshots hold and the journal lacks.

    Raises:
        WrongData: the journal has gone on in a way that the copies do not fit: other events under
            their sequence nrs, or more deleted than they hold.
    """
    settings = run.settings
    known = _ids(run, found)
    ids = known.select("persistence_id")
    deleted = frames.deleted(ids.sparkSession, settings, ids).localCheckpoint()
    saved = copies.rows_of(run, found, save.MESSAGES, _EVENT)
    events = None if saved is None else _lacking_events(run, saved, known, deleted)
    saved = copies.rows_of(run, found, save.SNAPSHOTS, _SNAPSHOT)
    taken = None if saved is None else _lacking_snapshots(run, saved, ids)
    back = (
        known.join(deleted.withColumnRenamed("deleted_to", "now"), "persistence_id", "left")
        .where(F.coalesce(F.col("now"), F.lit(0)) != F.col("deleted_to"))
        .select("persistence_id", "deleted_to")
        .localCheckpoint()
    )
    listed = known.where("is_listed").select("persistence_id")
    counts = {
        "events_restored": 0 if events is None else events.count(),
        "snapshots_restored": 0 if taken is None else taken.count(),
        "metadata_restored": back.count(),
    }
    keys = [fingerprint(back)]
    keys += [fingerprint(rows.select(*_SNAPSHOT)) for rows in (events, taken) if rows is not None]

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        if events is not None:
            ensure_locked()
            store.write_messages(events, settings, keep_write_times=keep_write_times)
        if taken is not None:
            ensure_locked()
            store.write_snapshots(taken, settings, keep_write_times=keep_write_times)
        require_visible(
            run,
            _hidden(run, events, taken),
            found[-1].saved_at,
            keep_write_times=keep_write_times,
        )
        ensure_locked()
        store.write_listed(listed, settings)
        ensure_locked()
        store.write_metadata(back, settings)
        now = frames.deleted(ids.sparkSession, settings, ids)
        hidden = back.join(now, on=["persistence_id", "deleted_to"], how="left_anti").count()
        metadata = (settings.journal_keyspace, settings.metadata_table)
        require_visible(run, {metadata: hidden}, found[-1].saved_at, keep_write_times=False)
        return counts

    lines = [
        f"{counts['events_restored']:,} events and {counts['snapshots_restored']:,} snapshots come"
        f" back, and deleted_to of {counts['metadata_restored']:,} persistence ids",
        "the actors of these persistence ids must be stopped; their tag views come back with"
        " `reconcile rebuild --persistence-id`, if they were deleted too",
    ]
    return TargetPlan(
        counts,
        lines if any(counts.values()) else [],
        Tombstones(),
        digest(keys),
        (),
        apply if any(counts.values()) else None,
    )


def _ids(run: RunContext, found: Sequence[Copy]) -> DataFrame:
    ids = run.spark.read.parquet(*(f"{copy.place}/{save.IDS}" for copy in found))
    # Of several copies the first knew what was deleted before them all.
    first = F.min_by("deleted_to", F.struct("saved_at", "deleted_to"))
    return (
        ids.groupBy("persistence_id")
        .agg(first.alias("deleted_to"), F.bool_or("is_listed").alias("is_listed"))
        .localCheckpoint()
    )


def _lacking_events(
    run: RunContext, saved: DataFrame, known: DataFrame, deleted: DataFrame
) -> DataFrame:
    there = read.events_of_ids(run, known.select("persistence_id"), deleted).select(
        "persistence_id", "partition_nr"
    )
    held = frames.messages_of(there.distinct(), run.settings).select(*_EVENT).localCheckpoint()
    ends = saved.groupBy("persistence_id").agg(F.max("sequence_nr").alias("end"))
    others = (
        held.join(ends, on="persistence_id")
        .where(F.col("sequence_nr") <= F.col("end"))
        .join(saved.select(*_EVENT), on=_EVENT, how="left_anti")
        .select("persistence_id")
    )
    # Of events that were deleted already, some may have been gone before they were saved.
    before = known.select("persistence_id", F.col("deleted_to").alias("before"))
    further = (
        deleted.join(ends, on="persistence_id")
        .join(before, on="persistence_id")
        .where(F.col("deleted_to") > F.greatest("end", "before"))
    )
    moved = others.unionByName(further.select("persistence_id")).distinct()
    if names := [row.persistence_id for row in moved.orderBy("persistence_id").limit(3).collect()]:
        raise WrongData(
            f"{', '.join(names)}: the journal has gone on since: it has other events of these"
            " sequence nrs, or has deleted more than was saved",
            where=run.settings.journal_keyspace,
            do="nothing was written; restore by hand what you need",
        )
    return saved.join(held, on=_EVENT, how="left_anti")


@shaped(ids=ID)
def _lacking_snapshots(run: RunContext, saved: DataFrame, ids: DataFrame) -> DataFrame:
    return saved.join(_snapshots_of(run, ids).localCheckpoint(), on=_SNAPSHOT, how="left_anti")


@shaped(ids=ID)
def _snapshots_of(run: RunContext, ids: DataFrame) -> DataFrame:
    return snapshots.index(run.spark, run.settings, ids).select(
        "persistence_id", F.col("snapshot_nr").alias("sequence_nr")
    )


def _hidden(
    run: RunContext, events: DataFrame | None, taken: DataFrame | None
) -> Mapping[Table, int]:
    """Count the written rows that cannot be read."""
    settings = run.settings
    hidden: dict[Table, int] = {}
    if events is not None:
        keys = events.select("persistence_id", "partition_nr").distinct()
        there = frames.messages_of(keys, settings).select(*_EVENT)
        name = (settings.journal_keyspace, settings.journal_table)
        hidden[name] = events.join(there, on=_EVENT, how="left_anti").count()
    if taken is not None:
        there = _snapshots_of(run, taken.select("persistence_id").distinct())
        name = (settings.snapshot_keyspace, settings.snapshot_table)
        hidden[name] = taken.join(there, on=_SNAPSHOT, how="left_anti").count()
    return hidden
