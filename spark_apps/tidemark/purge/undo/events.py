"""Restores deleted events and snapshots from copies.

The order of writes: events, snapshots, then metadata, which makes the events visible.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.application.approval import digest
from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.errors import InvalidInput, WrongData
from tidemark.journals.pekko import frames, snapshots
from tidemark.journals.pekko.shapes import DELETED, ID, MESSAGE_KEYS
from tidemark.purge.messages import read
from tidemark.purge.messages.deletes import fingerprint
from tidemark.purge.saved import copies, save
from tidemark.purge.saved.copies import Copy
from tidemark.purge.target import TargetPlan, Tombstones
from tidemark.purge.undo import rules, store
from tidemark.purge.undo.visible import Table, require_visible
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import ddl, shaped

_MOST_NAMED = 10
_EVENT = ["persistence_id", "sequence_nr", "timestamp"]
_SNAPSHOT = ["persistence_id", "sequence_nr"]


def plan_events(
    run: RunContext,
    saved: Sequence[Copy],
    persistence_ids: Collection[str] = (),
    *,
    keep_write_times: bool,
) -> TargetPlan:
    """Plan to write back the events and snapshots of copies that the journal lacks.

    Without `persistence_ids` all of the copies are restored. A persistence id is left as it is if
    its journal no longer fits the copies: it has other events with their sequence nrs, or more was
    deleted than saved. The plan then has an error.

    Raises:
        InvalidInput: no copy has one of these persistence ids.
    """
    settings = run.settings
    fitting = _ids(run, saved, persistence_ids)
    deleted = frames.deleted(
        run.spark, settings, fitting.select("persistence_id")
    ).localCheckpoint()
    saved_events = _saved(run, saved, save.MESSAGES, _EVENT, fitting)
    keys_saved = (
        local_rows(run.spark, [], ddl(MESSAGE_KEYS)) if saved_events is None else saved_events
    )
    states = rules.compared(
        fitting.select("persistence_id", "deleted_to"), keys_saved, deleted
    ).localCheckpoint()
    held = _held_events(run, states.where(rules.is_changed()).select("persistence_id"), deleted)
    unfit = rules.not_fitting(states, keys_saved, held).localCheckpoint()
    # A persistence id is restored completely or not at all.
    fitting = fitting.join(unfit, on="persistence_id", how="left_anti").localCheckpoint()
    ids = fitting.select("persistence_id")
    events = None
    if saved_events is not None:
        events = saved_events.join(ids, on="persistence_id", how="left_semi").join(
            held, on=_EVENT, how="left_anti"
        )
    snapshot_rows = _saved(run, saved, save.SNAPSHOTS, _SNAPSHOT, fitting)
    snapshot_rows = None if snapshot_rows is None else _lacking_snapshots(run, snapshot_rows, ids)
    raised = rules.metadata(
        states.join(ids, on="persistence_id", how="left_semi")
    ).localCheckpoint()
    listed_ids = fitting.where("is_listed").select("persistence_id")
    counts = {
        "events_restored": 0 if events is None else events.count(),
        "snapshots_restored": 0 if snapshot_rows is None else snapshot_rows.count(),
        "metadata_restored": raised.count(),
    }
    is_empty = not any(counts.values())
    counts["ids_not_restored"] = unfit.count()
    keys = [keep_write_times, fingerprint(raised), fingerprint(unfit)]
    keys += [
        fingerprint(rows.select(*_SNAPSHOT)) for rows in (events, snapshot_rows) if rows is not None
    ]

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        if events is not None:
            ensure_locked()
            store.write_messages(events, settings, keep_write_times=keep_write_times)
        if snapshot_rows is not None:
            ensure_locked()
            store.write_snapshots(snapshot_rows, settings, keep_write_times=keep_write_times)
        require_visible(
            run,
            _hidden(run, events, snapshot_rows),
            saved[-1].saved_at,
            keep_write_times=keep_write_times,
        )
        ensure_locked()
        store.write_listed(listed_ids, settings)
        ensure_locked()
        store.write_metadata(raised, settings)
        now = frames.deleted(ids.sparkSession, settings, ids)
        hidden = raised.join(now, on=["persistence_id", "deleted_to"], how="left_anti").count()
        metadata = (settings.journal_keyspace, settings.metadata_table)
        require_visible(run, {metadata: hidden}, saved[-1].saved_at, keep_write_times=False)
        return counts

    lines = [
        f"{counts['events_restored']:,} events and {counts['snapshots_restored']:,} snapshots come"
        f" back, and deleted_to of {counts['metadata_restored']:,} persistence ids",
        "the actors of these persistence ids must be stopped; their tag views come back with"
        " `reconcile rebuild --persistence-id`, if they were deleted too",
    ]
    return TargetPlan(
        counts,
        [] if is_empty else lines,
        Tombstones(),
        digest(keys),
        (),
        None if is_empty else apply,
        error=_error(run, unfit) if counts["ids_not_restored"] else None,
    )


def _ids(run: RunContext, saved: Sequence[Copy], persistence_ids: Collection[str]) -> DataFrame:
    ids = run.spark.read.parquet(*(f"{copy.place}/{save.IDS}" for copy in saved))
    if persistence_ids:
        id_rows = [(persistence_id,) for persistence_id in sorted(set(persistence_ids))]
        wanted = local_rows(run.spark, id_rows, "persistence_id string")
        ids = ids.join(wanted, on="persistence_id", how="left_semi").localCheckpoint()
        absent = wanted.join(ids, on="persistence_id", how="left_anti").localCheckpoint()
        if not absent.isEmpty():
            raise InvalidInput(
                f"no copy has {_some(absent)}",
                where="--persistence-id",
                do="leave them out, or name another --run or directory",
            )
    # Only the first of several copies has the state before all these deletions.
    first = F.min_by("deleted_to", F.struct("saved_at", "deleted_to"))
    return (
        ids.groupBy("persistence_id")
        .agg(first.alias("deleted_to"), F.bool_or("is_listed").alias("is_listed"))
        .localCheckpoint()
    )


def _saved(
    run: RunContext, saved: Sequence[Copy], name: str, key: Sequence[str], ids: DataFrame
) -> DataFrame | None:
    rows = copies.rows_of(run, saved, name, key)
    if rows is None:
        return None
    return rows.join(ids.select("persistence_id"), on="persistence_id", how="left_semi")


@shaped(ids=ID, deleted=DELETED, returns=MESSAGE_KEYS)
def _held_events(run: RunContext, ids: DataFrame, deleted: DataFrame) -> DataFrame:
    """Return the keys of the events that the journal has of persistence ids, in memory."""
    if ids.isEmpty():
        return local_rows(run.spark, [], ddl(MESSAGE_KEYS))
    deleted = deleted.join(ids, on="persistence_id", how="left_semi")
    partitions = read.events_of_ids(run, ids, deleted).select("persistence_id", "partition_nr")
    return frames.messages_of(partitions.distinct(), run.settings).select(*_EVENT).localCheckpoint()


def _error(run: RunContext, ids: DataFrame) -> WrongData:
    return WrongData(
        "not restored, because the journal has other events of these sequence nrs now, or has"
        f" deleted more than was saved: {_some(ids)}",
        where=run.settings.journal_keyspace,
        do="restore by hand what you need of these persistence ids",
    )


def _some(ids: DataFrame) -> str:
    """Return the first persistence ids as text, and how many others there are."""
    number = ids.count()
    rows = ids.orderBy("persistence_id").limit(_MOST_NAMED).collect()
    more = f" and {number - _MOST_NAMED:,} more" if number > _MOST_NAMED else ""
    return ", ".join(row.persistence_id for row in rows) + more


@shaped(ids=ID)
def _lacking_snapshots(run: RunContext, saved: DataFrame, ids: DataFrame) -> DataFrame:
    return saved.join(_snapshots_of(run, ids).localCheckpoint(), on=_SNAPSHOT, how="left_anti")


@shaped(ids=ID)
def _snapshots_of(run: RunContext, ids: DataFrame) -> DataFrame:
    return snapshots.index(run.spark, run.settings, ids).select(
        "persistence_id", F.col("snapshot_nr").alias("sequence_nr")
    )


def _hidden(
    run: RunContext, events: DataFrame | None, restored_snapshots: DataFrame | None
) -> Mapping[Table, int]:
    """Count the written rows that cannot be read."""
    settings = run.settings
    hidden: dict[Table, int] = {}
    if events is not None:
        keys = events.select("persistence_id", "partition_nr").distinct()
        readable = frames.messages_of(keys, settings).select(*_EVENT)
        name = (settings.journal_keyspace, settings.journal_table)
        hidden[name] = events.join(readable, on=_EVENT, how="left_anti").count()
    if restored_snapshots is not None:
        readable = _snapshots_of(run, restored_snapshots.select("persistence_id").distinct())
        name = (settings.snapshot_keyspace, settings.snapshot_table)
        hidden[name] = restored_snapshots.join(readable, on=_SNAPSHOT, how="left_anti").count()
    return hidden
