"""cleanup all: deletes events, snapshots and tag views of persistence ids.

The order: metadata and snapshots together, so that an actor starts with its complete state or with
none; then the tag views, whose rows are found by the events; then the events; then, with
`never_use_again`, the entries of the persistence id itself. Metadata reveals an interrupted run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from pyspark.sql import functions as F

from tidemark.application.approval import digest
from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.journals.pekko import frames, snapshots
from tidemark.purge.messages import by_hand
from tidemark.purge.messages.by_hand import STOPPED, Histories
from tidemark.purge.messages.deletes import EventDeletes, Needed, locks_of, plan_deletes
from tidemark.purge.saved.save import RowsToDelete, save
from tidemark.purge.snapshots import store as snapshot_store
from tidemark.purge.target import TargetPlan, Tombstones
from tidemark.reconcile.delete import plan as delete_plan
from tidemark.reconcile.delete.run import delete_rows
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.validate.scope import Scope


def locks(settings: Settings) -> Sequence[str]:
    """Return the resources to lock: messages, tag views and snapshots."""
    return [*locks_of(settings), snapshots.lock_of(settings)]


def plan_everything(
    run: RunContext, persistence_ids: Collection[str], needed: Needed, *, never_use_again: bool
) -> TargetPlan:
    """Plan to delete everything of persistence ids that no reader needs any more.

    A persistence id is deleted completely or not at all. `never_use_again` also forgets the last
    sequence nrs, and the persistence ids themselves.
    """
    journal = by_hand.histories(run, persistence_ids)
    events = plan_deletes(
        run,
        journal.events,
        journal.ends,
        journal.deleted,
        needed,
        write_time=journal.write_time,
        with_tag_views=True,
    )
    blocked = events.bounded.where(F.col("reader").isNotNull()).select("persistence_id").collect()
    deletable = set(persistence_ids) - {row.persistence_id for row in blocked}
    per_id = _snapshots(run, journal, deletable)
    deletions = _tag_views(run, journal, deletable)
    forgotten = by_hand.forgettable(run, journal, events.bounded) if never_use_again else []
    tombstones = (
        events.tombstones
        + Tombstones(partitions=len(per_id) + 2 * len(forgotten))
        + Tombstones(rows=sum(deletions.counts.values()))
    )
    counts = {
        **events.counts,
        **deletions.counts,
        "snapshots_deleted": sum(per_id.values()),
        "ids_forgotten": len(forgotten),
        **tombstones.counts(),
    }
    deleted_to = {row.persistence_id: row.deleted_to for row in events.raised.collect()}

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        for persistence_id in sorted({*deleted_to, *per_id}):
            ensure_locked()
            snapshot_store.end_history(
                run.control,
                run.settings,
                persistence_id,
                deleted_to=deleted_to.get(persistence_id),
                has_snapshots=persistence_id in per_id,
            )
        delete_rows(run, deletions, ensure_locked)
        events.delete(run, ensure_locked)
        by_hand.forget(run, forgotten, ensure_locked)
        return counts

    lines = [*events.lines, *deletions.lines_of_views]
    if per_id:
        lines.append(f"{sum(per_id.values()):,} snapshots of {len(per_id):,} persistence ids go")
    is_empty = (
        events.is_empty and not per_id and not forgotten and not any(deletions.counts.values())
    )
    if not is_empty:
        lines += by_hand.forget_lines(forgotten) or [STOPPED]
    return TargetPlan(
        counts,
        lines or ["nothing of these persistence ids is left"],
        tombstones,
        digest(
            [events.digest, sorted(per_id), sorted(deletions.rows), *deletions.progress, *forgotten]
        ),
        locks(run.settings),
        None if is_empty else apply,
        save=partial(save, run, _deletions(run, journal, events, per_id)),
    )


def _deletions(
    run: RunContext, journal: Histories, events: EventDeletes, ids: Collection[str]
) -> RowsToDelete:
    if not ids:
        return RowsToDelete(journal.ids, events.parts)
    rows = [(persistence_id, None) for persistence_id in sorted(ids)]
    ends = local_rows(run.spark, rows, "persistence_id string, first_kept bigint")
    return RowsToDelete(journal.ids, events.parts, ends)


def _snapshots(run: RunContext, journal: Histories, ids: Collection[str]) -> dict[str, int]:
    """Return the number of snapshots of the persistence ids that have some."""
    settings = run.settings
    if run.control.table_columns(settings.snapshot_keyspace, settings.snapshot_table) is None:
        return {}
    rows = (
        snapshots.index(run.spark, settings, journal.ids)
        .groupBy("persistence_id")
        .count()
        .collect()
    )
    return {row.persistence_id: row["count"] for row in rows if row.persistence_id in ids}


def _tag_views(
    run: RunContext, journal: Histories, ids: Collection[str]
) -> delete_plan.TagRowsToDelete:
    traces = (
        journal.ends.select("persistence_id")
        .unionByName(
            frames.write_progress(run.spark, run.settings, journal.ids).select("persistence_id")
        )
        .unionByName(frames.scanning(run.spark, run.settings, journal.ids).select("persistence_id"))
    )
    present = {row.persistence_id for row in traces.distinct().collect()} & set(ids)
    if not present:
        return delete_plan.TagRowsToDelete()
    return delete_plan.of_ids(run, Scope(frozenset(present)), search_all=False)
