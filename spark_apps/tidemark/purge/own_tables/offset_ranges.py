"""Old ranges of replicated offsets.

A run of replicate reads only the newest range of a topic partition: whether it was ended, and its
write times. That range is always kept; older ones are for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from tidemark.application.approval import digest
from tidemark.application.guarded_change import EnsureLocked
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.purge.own_tables import store
from tidemark.purge.own_tables.old_rows import is_before, lock_of
from tidemark.purge.target import TargetPlan, Tombstones
from tidemark.text import counted

_TABLE = "offset_range"
_PARTITION = ("journal_keyspace", "topic", "partition")
_PAGE = 1000


def plan_offset_ranges(run: RunContext, keep_days: int) -> TargetPlan:
    """Plan the ranges older than the newest and than any of the last `keep_days` days."""
    before = run.moment - timedelta(days=keep_days)
    rows = run.control.stream(
        "SELECT journal_keyspace, topic, partition, number, finished_at"
        f" FROM {table(run.settings.keyspace, _TABLE)}",
        page=_PAGE,
    )
    lowest_kept: dict[tuple[object, ...], int] = {}
    old: dict[tuple[object, ...], int] = {}
    # The newest range of a topic partition comes first.
    for row in rows:
        key = tuple(row[name] for name in _PARTITION)
        if key not in lowest_kept or not is_before(row["finished_at"], before):
            lowest_kept[key] = row["number"]
            # Ranges between two kept ones are kept.
            old[key] = 0
        else:
            old[key] += 1
    bounds = sorted(((*key, lowest_kept[key]) for key, count in old.items() if count), key=str)
    counts = {"offset_ranges_deleted": sum(old.values())}

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        ensure_locked()
        store.delete(run.control, run.settings, _TABLE, _PARTITION, bounds, below="number")
        return counts

    number = counted(counts["offset_ranges_deleted"], "range")
    return TargetPlan(
        counts,
        [f"{_TABLE}: {number} of {counted(len(bounds), 'topic partition')}"],
        Tombstones(ranges=len(bounds)),
        digest([_TABLE, *bounds]),
        [lock_of(run, _TABLE)],
        apply if bounds else None,
    )
