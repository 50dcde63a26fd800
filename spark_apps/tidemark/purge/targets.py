"""The planner of each target that a policy may name; add new targets here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Any

from tidemark.context import RunContext
from tidemark.purge.iceberg_snapshots import plan_iceberg_snapshots
from tidemark.purge.kafka_journal.expiry import plan_expiry
from tidemark.purge.messages.plan import DeletedEventsPolicy, plan_deleted_events
from tidemark.purge.needs.events import needed
from tidemark.purge.own_tables.event_groups import plan_event_groups
from tidemark.purge.own_tables.ledger import plan_ledger
from tidemark.purge.own_tables.offset_ranges import plan_offset_ranges
from tidemark.purge.own_tables.old_rows import plan_findings, plan_quarantine
from tidemark.purge.own_tables.orphans import plan_offsets, plan_tails
from tidemark.purge.own_tables.skipped import plan_skipped
from tidemark.purge.policies.effective import Effective
from tidemark.purge.policies.model import DeletedEvents, Snapshots
from tidemark.purge.snapshots.plan import SnapshotsPolicy, plan_snapshots
from tidemark.purge.tag_views import TagViewOrder, plan_tag_views
from tidemark.purge.target import TargetPlan

WITHOUT_PEKKO = frozenset(
    {
        *("kafka-journal-expiry", "ledger", "findings", "quarantine"),
        *("offset-ranges", "event-groups", "iceberg-snapshots"),
    }
)
"""Targets that can be planned without a Pekko journal, since they read none."""
Planner = Callable[[RunContext, Any], TargetPlan]
"""A function that plans a policy of its target; it only reads."""


def planners(order: TagViewOrder) -> Mapping[str, Planner]:
    """Return the planner of each target, by its name in the file of the policies."""
    return {
        "tag-views": partial(plan_tag_views, order=order),
        "deleted-events": partial(_plan_deleted_events, given_up=order.given_up),
        "snapshots": partial(_plan_snapshots, given_up=order.given_up),
        "kafka-journal-expiry": partial(plan_expiry, given_up=order.given_up),
        "iceberg-snapshots": _of_days(plan_iceberg_snapshots),
        "ledger": _of_days(plan_ledger),
        "quarantine": _of_days(plan_quarantine),
        "findings": _of_days(plan_findings),
        "tails": _of_days(plan_tails),
        "offsets": _of_days(plan_offsets),
        "skipped": _of_days(plan_skipped),
        "offset-ranges": _of_days(plan_offset_ranges),
        "event-groups": _of_days(plan_event_groups),
    }


def _plan_deleted_events(
    run: RunContext, policy: DeletedEvents, given_up: Collection[str]
) -> TargetPlan:
    return plan_deleted_events(
        run, DeletedEventsPolicy(policy.entity_types), partial(needed, given_up=given_up)
    )


def _plan_snapshots(run: RunContext, policy: Snapshots, given_up: Collection[str]) -> TargetPlan:
    keep_after = None
    if policy.keep_after is not None:
        keep_after = datetime.combine(policy.keep_after, time(), UTC)
    elif policy.keep_days is not None:
        keep_after = run.moment - timedelta(days=policy.keep_days)
    snapshots_policy = SnapshotsPolicy(policy.keep, keep_after, policy.events, policy.entity_types)
    return plan_snapshots(run, snapshots_policy, partial(needed, given_up=given_up))


def _of_days(plan: Callable[[RunContext, int], TargetPlan]) -> Planner:
    return lambda run, policy: plan(run, policy.keep_days)


def plan_of(run: RunContext, effective: Effective, targets: Mapping[str, Planner]) -> TargetPlan:
    """Plan one policy by the planner of its target."""
    policy = effective.policy
    return targets[policy.target](run, policy)
