"""Which open groups no run can execute: those that are not rolled back, and all behind them."""

from __future__ import annotations

from collections.abc import Iterable

from tidemark.event_groups.stream.chunks import Extent, collides
from tidemark.event_groups.stream.states import GroupState, StoredGroup


def extent_of(group: StoredGroup) -> Extent[StoredGroup]:
    """Return a group with its size and rows."""
    return Extent(group, len(group.definition.events), group.definition.extent)


def holder(
    blocking: Iterable[Extent[StoredGroup]], group: Extent[StoredGroup]
) -> StoredGroup | None:
    """Return why a group cannot be executed: itself if it is not rolled back, or one before it.

    Args:
        blocking: the groups before it that cannot be executed.
        group: an open group.
    """
    if group.item.state is GroupState.ROLLBACK_FAILED:
        return group.item
    return next((one.item for one in blocking if collides(one, group)), None)
