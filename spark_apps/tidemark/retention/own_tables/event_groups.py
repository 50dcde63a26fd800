"""Event groups that ended long ago, with what they have written down of their events.

Only groups that have ended go: those whose rollback has failed are still in the way of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from tidemark.application.guarded_change import EnsureLocked
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.retention.own_tables import store
from tidemark.retention.own_tables.old_rows import is_before, lock_of
from tidemark.retention.target import TargetPlan, Tombstones, digest
from tidemark.text import counted

_GROUPS, _ORDER = "event_group", "event_group_order"
_OF_GROUP = ("before_image", "group_event")
_PAGE = 1000


def plan_event_groups(run: RunContext, keep_days: int) -> TargetPlan:
    """Plan the groups that ended before `keep_days` days."""
    before = run.moment - timedelta(days=keep_days)
    rows = run.control.stream(
        f"SELECT stream, id, sequence, ended_at FROM {table(run.settings.keyspace, _GROUPS)}",
        page=_PAGE,
    )
    old = sorted(
        (row["stream"], row["id"], row["sequence"])
        for row in rows
        if is_before(row["ended_at"], before)
    )
    counts = {"event_groups_deleted": len(old)}

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        names = [(stream, name) for stream, name, _ in old]
        places = [(stream, sequence) for stream, _, sequence in old]
        # The group last: as long as it is there, another run finds what is left of it.
        for deleted, columns, keys in (
            *((name, ("stream", "group_id"), names) for name in _OF_GROUP),
            (_ORDER, ("stream", "sequence"), places),
            (_GROUPS, ("stream", "id"), names),
        ):
            ensure_locked()
            store.delete(run.control, run.settings, deleted, columns, keys)
        return counts

    return TargetPlan(
        counts,
        [f"{_GROUPS}: {counted(len(old), 'group')}, with its events and before-images"],
        Tombstones(partitions=3 * len(old), rows=len(old)),
        digest([_GROUPS, *old]),
        [lock_of(run, _GROUPS)],
        apply if old else None,
    )
