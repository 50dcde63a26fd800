"""Event groups that ended long ago.

Only ended groups are deleted: groups whose rollback failed still block others. The position of a
stream in a topic is kept: without it old groups would be submitted again. The newest group is kept
while an earlier one is open: otherwise the next group would get its sequence number, which runs
know as that of an ended group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from tidemark.application.approval import digest
from tidemark.application.guarded_change import EnsureLocked
from tidemark.cassandra.conditional import applied_to_each
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.purge.own_tables import store
from tidemark.purge.own_tables.old_rows import is_before, lock_of
from tidemark.purge.target import TargetPlan, Tombstones
from tidemark.text import counted
from tidemark.window import to_millis

_GROUPS, _ORDER = "event_group", "event_group_order"
_OF_GROUP = ("before_image", "named_result_size", "hook_delivery", "group_event")
_ROWS, _SIZES = "named_result", "named_result_size"
_PART = ("stream", "group_id", "event", "kind", "part")
_PAGE = 1000
_CLOCKS_DIFFER = timedelta(hours=1)
"""More than the clocks of two runs may differ."""


def plan_event_groups(run: RunContext, keep_days: int) -> TargetPlan:
    """Plan to delete the groups that ended more than `keep_days` days ago."""
    before = run.moment - timedelta(days=keep_days)
    # Groups of the same ids may be submitted at this moment, by a machine whose clock is slow.
    until = to_millis(run.moment - _CLOCKS_DIFFER) * 1000
    rows = run.control.stream(
        f"SELECT stream, id, sequence, ended_at FROM {table(run.settings.keyspace, _GROUPS)}",
        page=_PAGE,
    )
    ended = [
        (row["stream"], row["id"], row["sequence"])
        for row in rows
        if is_before(row["ended_at"], before)
    ]
    kept = {(stream, _needed_place(run, stream)) for stream in {stream for stream, _, _ in ended}}
    old = sorted(group for group in ended if (group[0], group[2]) not in kept)
    counts = {"event_groups_deleted": len(old)}

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        old_keys = [(stream, name) for stream, name, _ in old]
        # The group last: as long as it exists, another run finds its remaining rows.
        for group in old_keys:
            ensure_locked()
            parts = _parts(run, group)
            store.delete(run.control, run.settings, _ROWS, _PART, parts, write_time=until)
        for deleted, columns, keys in (
            *((name, ("stream", "group_id"), old_keys) for name in _OF_GROUP),
            (_ORDER, ("stream", "sequence"), _own_places(run, old)),
        ):
            ensure_locked()
            store.delete(run.control, run.settings, deleted, columns, keys, write_time=until)
        ensure_locked()
        # By transactions, since it may be submitted again at this moment.
        applied_to_each(
            run.control,
            f"DELETE FROM {table(run.settings.keyspace, _GROUPS)} WHERE stream = ? AND id = ?"
            " IF sequence = ?",
            old,
        )
        return counts

    return TargetPlan(
        counts,
        [
            f"{_GROUPS}: {counted(len(old), 'group')}, with its events, results, before-images and"
            " notices"
        ],
        Tombstones(partitions=5 * len(old), rows=len(old)),
        digest([_GROUPS, *old]),
        [lock_of(run, _GROUPS)],
        apply if old else None,
    )


def _own_places(run: RunContext, groups: Sequence[tuple[str, str, int]]) -> list[tuple[str, int]]:
    """Return the places of groups; a group that died before it took its place has none."""
    places = [(stream, sequence) for stream, _, sequence in groups]
    found_rows = run.control.execute_many(
        f"SELECT id FROM {table(run.settings.keyspace, _ORDER)} WHERE stream = ? AND sequence = ?",
        places,
    )
    return [
        place
        for (_, name, _), place, rows in zip(groups, places, found_rows, strict=True)
        if rows and rows[0]["id"] == name
    ]


def _needed_place(run: RunContext, stream: str) -> int | None:
    """Return the newest place of a stream if an earlier group may be open, else None."""
    rows = run.control.execute(
        f"SELECT sequence, open_from FROM {table(run.settings.keyspace, _ORDER)} WHERE stream = ?"
        " ORDER BY sequence DESC LIMIT 1",
        (stream,),
    )
    if not rows or rows[0]["sequence"] is None:
        return None
    [row] = rows
    sequence: int = row["sequence"]
    return sequence if sequence >= (row["open_from"] or 0) else None


def _parts(run: RunContext, group: Sequence[object]) -> Iterator[Sequence[object]]:
    """Yield the partitions of the rows that events with many rows have stored."""
    for row in run.control.execute(
        f"SELECT event, kind, parts FROM {table(run.settings.keyspace, _SIZES)}"
        " WHERE stream = ? AND group_id = ?",
        group,
    ):
        for part in range(row["parts"]):
            yield *group, row["event"], row["kind"], part
