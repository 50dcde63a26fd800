"""Plans of snapshot deletes, by policy or for given persistence ids.

Snapshots are deleted first, then the events before the oldest snapshot that is kept: the events
after a snapshot exist as long as it does, and the newest snapshot is never deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.application.approval import digest
from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.journals.pekko import frames, snapshots
from tidemark.purge.messages import read
from tidemark.purge.messages.by_hand import STOPPED
from tidemark.purge.messages.deletes import (
    EventDeletes,
    Needed,
    fingerprint,
    in_parts,
    locks_of,
    plan_deletes,
)
from tidemark.purge.messages.plan import only
from tidemark.purge.needs.snapshots import needed_snapshots
from tidemark.purge.saved.save import RowsToDelete, save
from tidemark.purge.snapshots import store
from tidemark.purge.snapshots.rules import kept
from tidemark.purge.target import TargetPlan, Tombstones
from tidemark.spark.local_rows import local_rows
from tidemark.window import to_millis


@dataclass(frozen=True)
class SnapshotsPolicy:
    """The policy of snapshots.

    Attributes:
        keep: the number of newest snapshots that each persistence id keeps; at least 1.
        keep_after: snapshots taken after this are kept too; None for no date.
        events: whether to delete the events before the oldest snapshot that is kept.
        entity_types: only of these; all if empty.
    """

    keep: int
    keep_after: datetime | None = None
    events: bool = False
    entity_types: tuple[str, ...] = ()


def plan_snapshots(
    run: RunContext,
    policy: SnapshotsPolicy,
    needed: Needed,
    persistence_ids: Collection[str] | None = None,
) -> TargetPlan:
    """Plan to delete the snapshots that a policy does not keep, and the events before the others.

    Given persistence ids are read by key, all of them (None) by a scan.

    Raises:
        InvalidInput: the policy keeps less than one snapshot; or there is no directory of
            projection files.
    """
    if policy.keep < 1:
        raise InvalidInput(
            "at least one snapshot of each persistence id must stay",
            do="to delete all, `cleanup all-snapshots` takes persistence ids",
        )
    settings = run.settings
    snapshots.require_snapshots(run.control, settings)
    write_time = run.control.write_time()
    ids = None if persistence_ids is None else _ids(run, persistence_ids)
    index = snapshots.index(run.spark, settings)
    if ids is not None:
        index = snapshots.index(ids.sparkSession, settings, ids)
    index = only(index, policy.entity_types).localCheckpoint()
    keep_after = None if policy.keep_after is None else to_millis(policy.keep_after)
    needs = needed_snapshots(run, index)
    kept_rows = kept(index, needs, keep=policy.keep, keep_after=keep_after).localCheckpoint()
    events = _events(run, kept_rows, ids, needed, write_time) if policy.events else None
    return _plan(run, kept_rows, events)


def plan_all_snapshots(run: RunContext, persistence_ids: Collection[str]) -> TargetPlan:
    """Plan to delete all snapshots of persistence ids."""
    settings = run.settings
    snapshots.require_snapshots(run.control, settings)
    ids = _ids(run, persistence_ids)
    rows = (
        snapshots.index(ids.sparkSession, settings, ids)
        .groupBy("persistence_id")
        .agg(F.count("*").alias("snapshots"))
        .join(frames.deleted(ids.sparkSession, settings, ids), on="persistence_id", how="left")
        .orderBy("persistence_id")
        .collect()
    )
    deletions = [row.persistence_id for row in rows]
    headless = [row.persistence_id for row in rows if row.deleted_to]
    tombstones = Tombstones(partitions=len(deletions))
    number = sum(row.snapshots for row in rows)
    counts = {"snapshots_deleted": number, **tombstones.counts()}
    lines = [f"{number:,} snapshots of {len(deletions):,} persistence ids go"]
    if headless:
        lines += [
            f"of {len(headless):,} of them, such as {headless[0]}, the first events are deleted:"
            " their actors start without what those said",
            STOPPED,
        ]

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        ensure_locked()
        store.delete_all(run.control, settings, deletions)
        return counts

    return TargetPlan(
        counts,
        lines if deletions else ["no snapshot of these persistence ids"],
        tombstones,
        digest(deletions),
        [snapshots.lock_of(settings)],
        apply if deletions else None,
        save=partial(
            save, run, RowsToDelete(ids, snapshots=ids.withColumn("first_kept", F.lit(None)))
        ),
    )


def _ids(run: RunContext, persistence_ids: Collection[str]) -> DataFrame:
    rows = [(persistence_id,) for persistence_id in sorted(set(persistence_ids))]
    return local_rows(run.spark, rows, "persistence_id string")


def _events(
    run: RunContext, kept_rows: DataFrame, ids: DataFrame | None, needed: Needed, write_time: int
) -> EventDeletes:
    snapshot_ids = kept_rows.select("persistence_id")
    if ids is not None:
        deleted = frames.deleted(run.spark, run.settings, ids).localCheckpoint()
        events = read.events_of_ids(run, snapshot_ids, deleted)
    else:
        deleted = frames.deleted(run.spark, run.settings)
        events = read.all_events(run).join(snapshot_ids, on="persistence_id", how="left_semi")
        events = events.localCheckpoint()
    # A snapshot may be later than the last event: no later sequence nr is deleted.
    limits = read.ends(events, deleted).join(kept_rows, on="persistence_id")
    limits = limits.select("persistence_id", F.least("to", "first_kept").alias("to"))
    return plan_deletes(run, events, limits, deleted, needed, write_time=write_time)


def _plan(run: RunContext, kept_rows: DataFrame, events: EventDeletes | None) -> TargetPlan:
    deletions = kept_rows.where("snapshots > 0").select("persistence_id", "first_kept", "snapshots")
    [row] = deletions.agg(
        F.count("*").alias("ids"), F.coalesce(F.sum("snapshots"), F.lit(0)).alias("snapshots")
    ).collect()
    tombstones = Tombstones(ranges=row.ids) + (events.tombstones if events else Tombstones())
    of_events = events.counts if events else {}
    counts = {"snapshots_deleted": row.snapshots, **of_events, **tombstones.counts()}
    keys = fingerprint(deletions)
    lines = []
    if row.ids:
        lines.append(f"{row.snapshots:,} snapshots of {row.ids:,} persistence ids go")
    lines += events.lines if events else []

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        for part in in_parts(deletions.select("persistence_id", "first_kept")):
            ensure_locked()
            store.delete_before(run.control, run.settings, part)
        if events:
            events.write_deleted_to(run, ensure_locked)
            events.delete(run, ensure_locked)
        return counts

    is_empty = not row.ids and (events is None or events.is_empty)
    locks = [snapshots.lock_of(run.settings), *(locks_of(run.settings) if events else [])]
    return TargetPlan(
        counts,
        lines or ["no snapshot is beyond what is kept"],
        tombstones,
        digest([*keys, events.digest if events else ""]),
        locks,
        None if is_empty else apply,
        save=partial(
            save,
            run,
            RowsToDelete(
                kept_rows.select("persistence_id"),
                events.parts if events else None,
                deletions.select("persistence_id", "first_kept"),
            ),
        ),
    )
