"""Plans to delete the events of given persistence ids, as Pekko's Cleanup does."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.application.approval import digest
from tidemark.application.guarded_change import EnsureLocked
from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.journals.pekko import frames, snapshots
from tidemark.journals.pekko.shapes import ID
from tidemark.purge.messages import read, store
from tidemark.purge.messages.deletes import AT_ONCE, MAX_LINES, EventDeletes, Needed, plan_deletes
from tidemark.purge.messages.plan import target
from tidemark.purge.saved.save import RowsToDelete, save
from tidemark.purge.target import TargetPlan, Tombstones
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped

STOPPED = "the actors of these persistence ids must be stopped"


@dataclass(frozen=True)
class Histories:
    """The journal's events of persistence ids, without payloads; the frames are in memory.

    Attributes:
        ids: ID.
        events: EVENTS.
        deleted: DELETED.
        ends: LIMITS: the last sequence nr that each persistence id has used.
        write_time: from before the reads, microseconds.
    """

    ids: DataFrame
    events: DataFrame
    deleted: DataFrame
    ends: DataFrame
    write_time: int


def histories(run: RunContext, persistence_ids: Collection[str]) -> Histories:
    """Read the journal's events of persistence ids."""
    write_time = run.control.write_time()
    rows = [(persistence_id,) for persistence_id in sorted(set(persistence_ids))]
    ids = local_rows(run.spark, rows, "persistence_id string")
    deleted = frames.deleted(run.spark, run.settings, ids).localCheckpoint()
    events = read.events_of_ids(run, ids, deleted)
    return Histories(ids, events, deleted, read.ends(events, deleted).localCheckpoint(), write_time)


def plan_events_to(
    run: RunContext, persistence_ids: Collection[str], to: int, needed: Needed
) -> TargetPlan:
    """Plan to delete the events of persistence ids up to a sequence nr, inclusive.

    The sequence nr is kept: an actor continues after its last event. Tag views are kept, too.
    """
    journal = histories(run, persistence_ids)
    limits = journal.ends.withColumn("to", F.least("to", F.lit(to).cast("bigint")))
    deletes = plan_deletes(
        run, journal.events, limits, journal.deleted, needed, write_time=journal.write_time
    )
    return _with_lines(target(run, deletes), lost_state_lines(run, journal, deletes))


def plan_all_events(
    run: RunContext, persistence_ids: Collection[str], needed: Needed, *, never_use_again: bool
) -> TargetPlan:
    """Plan to delete all events of persistence ids; snapshots and tag views are kept.

    `never_use_again` also forgets the last sequence nrs, and the persistence ids themselves.
    """
    journal = histories(run, persistence_ids)
    deletes = plan_deletes(
        run, journal.events, journal.ends, journal.deleted, needed, write_time=journal.write_time
    )
    plan = _with_lines(target(run, deletes), lost_state_lines(run, journal, deletes))
    if not never_use_again:
        return plan
    forgotten = forgettable(run, journal, deletes.bounded)
    tombstones = deletes.tombstones + Tombstones(partitions=2 * len(forgotten))
    counts = {**plan.counts, "ids_forgotten": len(forgotten), **tombstones.counts()}

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        deletes.write_deleted_to(run, ensure_locked)
        deletes.delete(run, ensure_locked)
        forget(run, forgotten, ensure_locked)
        return counts

    return TargetPlan(
        counts,
        [*plan.lines, *forget_lines(forgotten)],
        tombstones,
        digest([plan.digest, *forgotten]),
        plan.locks,
        apply if forgotten or plan.apply is not None else None,
        save=partial(save, run, RowsToDelete(journal.ids, parts=deletes.parts)),
    )


def forgettable(run: RunContext, journal: Histories, bounded: DataFrame) -> list[str]:
    """Return the persistence ids that the journal has and of which no reader needs an event."""
    settings = run.settings
    listed = connector.read_partitions(
        journal.ids, settings.journal_keyspace, settings.all_persistence_ids_table, "persistence_id"
    )
    present = listed.unionByName(journal.deleted.select("persistence_id")).unionByName(
        journal.ends.select("persistence_id")
    )
    needed = bounded.where(F.col("reader").isNotNull()).select("persistence_id")
    rows = present.join(needed, on="persistence_id", how="left_anti").distinct().collect()
    return sorted(row.persistence_id for row in rows)


def forget(run: RunContext, persistence_ids: Sequence[str], ensure_locked: EnsureLocked) -> None:
    """Forget persistence ids, a bounded number at a time."""
    for start in range(0, len(persistence_ids), AT_ONCE):
        part = persistence_ids[start : start + AT_ONCE]
        ensure_locked()
        store.unlist_ids(run.control, run.settings, part)
        ensure_locked()
        store.forget_ids(run.control, run.settings, part)


def forget_lines(ids: Sequence[str]) -> list[str]:
    """Return the consequences of forgetting persistence ids, for people."""
    if not ids:
        return []
    return [
        f"{len(ids):,} persistence ids are forgotten, with their last sequence nr: who uses"
        " one again begins with sequence nr 1, which readers have met before",
        STOPPED,
    ]


def lost_state_lines(run: RunContext, journal: Histories, deletes: EventDeletes) -> list[str]:
    """Warn of persistence ids whose actors will lose the state in deleted events."""
    newest = newest_snapshots(run, journal.ids)
    rows = (
        deletes.bounded.join(
            deletes.raised.select("persistence_id"), on="persistence_id", how="left_semi"
        )
        .join(newest, on="persistence_id", how="left")
        .where(F.col("to") > F.coalesce(F.col("newest"), F.lit(0)))
        .orderBy("persistence_id")
        .collect()
    )
    lines = [
        f"{row.persistence_id}: events up to {row.to:,} go, but"
        + (f" its newest snapshot is of {row.newest:,}" if row.newest else " it has no snapshot")
        + ": its actor starts without what they said"
        for row in rows[:MAX_LINES]
    ]
    more = [f"and {len(rows) - MAX_LINES:,} more of these"] if len(rows) > MAX_LINES else []
    return [*lines, *more, *([STOPPED] if rows else [])]


@shaped(ids=ID)
def newest_snapshots(run: RunContext, ids: DataFrame) -> DataFrame:
    """Return `newest`, the sequence nr of the newest snapshot, by persistence id."""
    settings = run.settings
    if run.control.table_columns(settings.snapshot_keyspace, settings.snapshot_table) is None:
        return local_rows(run.spark, [], "persistence_id string, newest bigint")
    index = snapshots.index(ids.sparkSession, settings, ids)
    return index.groupBy("persistence_id").agg(F.max("snapshot_nr").alias("newest"))


def _with_lines(plan: TargetPlan, lines: Sequence[str]) -> TargetPlan:
    return replace(plan, lines=[*plan.lines, *lines] or ["no event of these persistence ids"])
