"""cleanup all: events, snapshots and tag views of persistence ids.

The order: metadata and snapshots together, so that an actor starts with all that it knew or with
nothing; then the tag views, whose rows the events lead to; then the events; then, with
`never_use_again`, what names the persistence id. A run that died is found out by metadata.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from pyspark.sql import functions as F

from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.journals.pekko import frames, snapshots
from tidemark.purge.messages import by_hand
from tidemark.purge.messages.by_hand import STOPPED, Histories
from tidemark.purge.messages.deletes import EventDeletes, Needed, locks_of, plan_deletes
from tidemark.purge.saved.save import RowsToDelete, save
from tidemark.purge.snapshots import store as snapshot_store
from tidemark.purge.target import TargetPlan, Tombstones, digest
from tidemark.reconcile.delete import plan as delete_plan
from tidemark.reconcile.delete.run import delete_rows
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.validate.scope import Scope


def locks(settings: Settings) -> Sequence[str]:
    """Return what must be locked: messages, tag views and snapshots."""
    return [*locks_of(settings), snapshots.lock_of(settings)]


def plan_everything(
    run: RunContext, persistence_ids: Collection[str], needed: Needed, *, never_use_again: bool
) -> TargetPlan:
    """Plan to delete everything of persistence ids that no reader needs any more.

    A persistence id goes as a whole or not at all.

    Args:
        run: the context of the run.
        persistence_ids: the persistence ids.
        needed: tells what readers need.
        never_use_again: also forget the sequence nr, and the persistence id itself.
    """
    found = by_hand.histories(run, persistence_ids)
    events = plan_deletes(
        run,
        found.events,
        found.ends,
        found.deleted,
        needed,
        write_time=found.write_time,
        with_tag_views=True,
    )
    held = events.bounded.where(F.col("reader").isNotNull()).select("persistence_id").collect()
    free = set(persistence_ids) - {row.persistence_id for row in held}
    taken = _snapshots(run, found, free)
    deletions = _tag_views(run, found, free)
    forgotten = by_hand.forgettable(run, found, events.bounded) if never_use_again else []
    tombstones = (
        events.tombstones
        + Tombstones(partitions=len(taken) + 2 * len(forgotten))
        + Tombstones(rows=sum(deletions.counts.values()))
    )
    counts = {
        **events.counts,
        **deletions.counts,
        "snapshots_deleted": sum(taken.values()),
        "ids_forgotten": len(forgotten),
        **tombstones.counts(),
    }
    ended = {row.persistence_id: row.deleted_to for row in events.raised.collect()}

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        for persistence_id in sorted({*ended, *taken}):
            ensure_locked()
            snapshot_store.end_history(
                run.control,
                run.settings,
                persistence_id,
                deleted_to=ended.get(persistence_id),
                has_snapshots=persistence_id in taken,
            )
        delete_rows(run, deletions, ensure_locked)
        events.delete(run, ensure_locked)
        by_hand.forget(run, forgotten, ensure_locked)
        return counts

    lines = [*events.lines, *deletions.lines_of_views]
    if taken:
        lines.append(f"{sum(taken.values()):,} snapshots of {len(taken):,} persistence ids go")
    is_empty = (
        events.is_empty and not taken and not forgotten and not any(deletions.counts.values())
    )
    if not is_empty:
        lines += by_hand.forget_lines(forgotten) or [STOPPED]
    return TargetPlan(
        counts,
        lines or ["nothing of these persistence ids is left"],
        tombstones,
        digest(
            [events.digest, sorted(taken), sorted(deletions.rows), *deletions.progress, *forgotten]
        ),
        locks(run.settings),
        None if is_empty else apply,
        save=partial(save, run, _deletions(run, found, events, taken)),
    )


def _deletions(
    run: RunContext, found: Histories, events: EventDeletes, taken: Collection[str]
) -> RowsToDelete:
    if not taken:
        return RowsToDelete(found.ids, events.parts)
    named = [(persistence_id, None) for persistence_id in sorted(taken)]
    ends = local_rows(run.spark, named, "persistence_id string, first_kept bigint")
    return RowsToDelete(found.ids, events.parts, ends)


def _snapshots(run: RunContext, found: Histories, free: Collection[str]) -> dict[str, int]:
    """Return the number of snapshots of the persistence ids that have some."""
    settings = run.settings
    if run.control.table_columns(settings.snapshot_keyspace, settings.snapshot_table) is None:
        return {}
    rows = (
        snapshots.index(run.spark, settings, found.ids).groupBy("persistence_id").count().collect()
    )
    return {row.persistence_id: row["count"] for row in rows if row.persistence_id in free}


def _tag_views(
    run: RunContext, found: Histories, free: Collection[str]
) -> delete_plan.TagRowsToDelete:
    traces = (
        found.ends.select("persistence_id")
        .unionByName(
            frames.write_progress(run.spark, run.settings, found.ids).select("persistence_id")
        )
        .unionByName(frames.scanning(run.spark, run.settings, found.ids).select("persistence_id"))
    )
    known = {row.persistence_id for row in traces.distinct().collect()} & set(free)
    if not known:
        return delete_plan.TagRowsToDelete()
    return delete_plan.of_ids(run, Scope(frozenset(known)), thorough=False)
