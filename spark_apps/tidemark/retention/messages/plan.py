"""Plans of deletes of events: as a policy, and of persistence ids that somebody names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.journal import frames
from tidemark.partitioning import columns
from tidemark.retention.messages import read
from tidemark.retention.messages.deletes import EventDeletes, Needed, locks_of, plan_deletes
from tidemark.retention.target import TargetPlan, Tombstones, digest


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
    left = (
        index.join(deleted, on="persistence_id")
        .where("sequence_nr <= deleted_to")
        .groupBy("persistence_id")
        .agg(F.max("deleted_to").alias("to"))
        .localCheckpoint()
    )
    if left.isEmpty():
        return nothing(run, "no event up to metadata.deleted_to is left in messages")
    events = index.join(left, on="persistence_id", how="left_semi").localCheckpoint()
    return target(run, plan_deletes(run, events, left, deleted, needed, write_time=write_time))


def only(rows: DataFrame, entity_types: Sequence[str]) -> DataFrame:
    """Keep the rows of some entity types, by persistence_id; of all if none is named."""
    if not entity_types:
        return rows
    return rows.where(columns.entity_type(F.col("persistence_id")).isin(*entity_types))


def nothing(run: RunContext, line: str) -> TargetPlan:
    """Return the plan of a policy that has nothing to delete."""
    none = Tombstones()
    return TargetPlan(none.counts(), [line], none, digest([]), locks_of(run.settings), None)


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
