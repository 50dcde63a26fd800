"""Plans of deletes of events: as a policy, and of persistence ids that somebody names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.journals.pekko import frames
from tidemark.partitioning import columns
from tidemark.purge.messages import read
from tidemark.purge.messages.deletes import MAX_LINES, EventDeletes, Needed, locks_of, plan_deletes
from tidemark.purge.target import TargetPlan, Tombstones, digest


@dataclass(frozen=True)
class DeletedEventsPolicy:
    """The policy of events that are deleted already, as metadata says.

    Attributes:
        entity_types: only of these; all if none is named.
    """

    entity_types: tuple[str, ...] = ()


def plan_deleted_events(run: RunContext, policy: DeletedEventsPolicy, needed: Needed) -> TargetPlan:
    """Plan to finish deletes that died: events up to metadata.deleted_to that are still there.

    Actors and Pekko's readers see none of them, but projections of messages do.
    """
    write_time = run.control.write_time()
    deleted = only(frames.deleted(run.spark, run.settings), policy.entity_types)
    deleted = deleted.where("deleted_to > 0")
    index = read.all_events(run)
    found = (
        index.groupBy("persistence_id")
        .agg(F.min("sequence_nr").alias("first"), F.max("sequence_nr").alias("last"))
        .join(deleted.withColumnRenamed("deleted_to", "to"), on="persistence_id")
        .where("first <= to")
        .localCheckpoint()
    )
    lines = _ahead_lines(found)
    left = found.where("to <= last").select("persistence_id", "to")
    if left.isEmpty():
        line = "no event up to metadata.deleted_to is left in messages"
        return nothing(run, *(lines or [line]))
    events = index.join(left, on="persistence_id", how="left_semi").localCheckpoint()
    plan = target(run, plan_deletes(run, events, left, deleted, needed, write_time=write_time))
    return replace(plan, lines=[*plan.lines, *lines])


def _ahead_lines(found: DataFrame) -> list[str]:
    """Return which persistence ids are left out, since their deleted_to may be wrong."""
    ahead = found.where("to > last").orderBy("persistence_id").limit(MAX_LINES + 1).collect()
    lines = [
        f"{row.persistence_id}: deleted_to is {row.to:,}, beyond the last event {row.last:,}, and"
        " may be wrong: nothing is deleted (see validate's check deleted_to_ahead)"
        for row in ahead[:MAX_LINES]
    ]
    return lines + (["and more of these"] if len(ahead) > MAX_LINES else [])


def only(rows: DataFrame, entity_types: Sequence[str]) -> DataFrame:
    """Keep the rows of some entity types, by persistence_id; of all if none is named."""
    if not entity_types:
        return rows
    return rows.where(columns.entity_type(F.col("persistence_id")).isin(*entity_types))


def nothing(run: RunContext, *lines: str) -> TargetPlan:
    """Return the plan of a policy that has nothing to delete."""
    none = Tombstones()
    return TargetPlan(none.counts(), [*lines], none, digest([]), locks_of(run.settings), None)


def target(run: RunContext, planned: EventDeletes) -> TargetPlan:
    """Return the plan of deletes that are of events only."""
    counts = {**planned.counts, **planned.tombstones.counts()}

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        planned.write_deleted_to(run, ensure_locked)
        planned.delete(run, ensure_locked)
        return counts

    return TargetPlan(
        counts,
        planned.lines,
        planned.tombstones,
        planned.digest,
        locks_of(run.settings),
        None if planned.is_empty else apply,
        save=planned.save_on(run),
    )
