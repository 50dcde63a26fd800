"""Plans of event deletes: by policy, and for given persistence ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.application.approval import digest
from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.journals.pekko import frames
from tidemark.partitioning import columns
from tidemark.purge.messages import read
from tidemark.purge.messages.deletes import MAX_LINES, EventDeletes, Needed, locks_of, plan_deletes
from tidemark.purge.target import TargetPlan, Tombstones


@dataclass(frozen=True)
class DeletedEventsPolicy:
    """The policy of events that are already deleted according to metadata.

    Attributes:
        entity_types: only of these; all if empty.
    """

    entity_types: tuple[str, ...] = ()


def plan_deleted_events(run: RunContext, policy: DeletedEventsPolicy, needed: Needed) -> TargetPlan:
    """Plan to finish interrupted deletes: events up to metadata.deleted_to that still exist.

    Actors and Pekko's readers no longer see them, but projections of messages do.
    """
    write_time = run.control.write_time()
    deleted = only(frames.deleted(run.spark, run.settings), policy.entity_types)
    deleted = deleted.where("deleted_to > 0")
    index = read.all_events(run)
    spans = (
        index.groupBy("persistence_id")
        .agg(F.min("sequence_nr").alias("first"), F.max("sequence_nr").alias("last"))
        .join(deleted.withColumnRenamed("deleted_to", "to"), on="persistence_id")
        .where("first <= to")
        .localCheckpoint()
    )
    lines = _ahead_lines(spans)
    limits = spans.where("to <= last").select("persistence_id", "to")
    if limits.isEmpty():
        line = "no event up to metadata.deleted_to is left in messages"
        return nothing(run, *(lines or [line]))
    events = index.join(limits, on="persistence_id", how="left_semi").localCheckpoint()
    plan = target(run, plan_deletes(run, events, limits, deleted, needed, write_time=write_time))
    return replace(plan, lines=[*plan.lines, *lines])


def _ahead_lines(spans: DataFrame) -> list[str]:
    """Return lines on persistence ids left out because their deleted_to may be wrong."""
    ahead = spans.where("to > last").orderBy("persistence_id").limit(MAX_LINES + 1).collect()
    lines = [
        f"{row.persistence_id}: deleted_to is {row.to:,}, beyond the last event {row.last:,}, and"
        " may be wrong: nothing is deleted (see validate's check deleted_to_ahead)"
        for row in ahead[:MAX_LINES]
    ]
    return lines + (["and more of these"] if len(ahead) > MAX_LINES else [])


def only(rows: DataFrame, entity_types: Sequence[str]) -> DataFrame:
    """Keep the rows of persistence ids of some entity types; of all if there are none."""
    if not entity_types:
        return rows
    return rows.where(columns.entity_type(F.col("persistence_id")).isin(*entity_types))


def nothing(run: RunContext, *lines: str) -> TargetPlan:
    """Return the plan of a policy that has nothing to delete."""
    none = Tombstones()
    return TargetPlan(none.counts(), [*lines], none, digest([]), locks_of(run.settings), None)


def target(run: RunContext, deletes: EventDeletes) -> TargetPlan:
    """Return the plan of deletes of events only."""
    counts = {**deletes.counts, **deletes.tombstones.counts()}

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        deletes.write_deleted_to(run, ensure_locked)
        deletes.delete(run, ensure_locked)
        return counts

    return TargetPlan(
        counts,
        deletes.lines,
        deletes.tombstones,
        deletes.digest,
        locks_of(run.settings),
        None if deletes.is_empty else apply,
        save=deletes.save_on(run),
    )
