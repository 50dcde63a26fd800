"""Which open groups no run can execute: those that are not rolled back, and what waits for them."""

from __future__ import annotations

from tidemark.event_groups.definition.tokens import Refused
from tidemark.event_groups.stream.chunks import Extent, Occupied
from tidemark.event_groups.stream.states import GroupState, StoredGroup

MOST_HELD = 1000
"""The most groups that a run looks at that it cannot execute: it executes nothing after them."""


def extent_of(group: StoredGroup) -> Extent[StoredGroup]:
    """Return a group with its size and rows; one that only goes back does not read any more."""
    has_read = group.state is GroupState.ROLLBACK_FAILED
    try:
        return group.definition.extent_as(group, reads=not has_read)
    except Refused:
        # Submitted to an earlier version; its execution says what is wrong.
        return Extent(group, len(group.definition.events), None)


class Held:
    """The groups of a stream that cannot be executed, as far as they were read."""

    def __init__(self) -> None:
        """Begin without any."""
        self.groups: dict[str, StoredGroup] = {}
        self._waiting: set[str] = set()
        self._occupied: Occupied[StoredGroup] = Occupied()

    @property
    def are_enough(self) -> bool:
        """Return whether no group after them is executed, so that none need be read."""
        return self._occupied.is_everything or len(self.groups) >= MOST_HELD

    def leave(self, group: StoredGroup) -> None:
        """Leave a group to a later run, since somebody else must take something back first."""
        self._waiting.add(group.id)

    def holder(self, group: Extent[StoredGroup]) -> StoredGroup | None:
        """Return why a group cannot be executed: itself if it is not rolled back, or another one.

        One that is held is held from then on. Groups are given in the order of the stream.
        """
        is_stuck = group.item.state is GroupState.ROLLBACK_FAILED or group.item.id in self._waiting
        found = group.item if is_stuck else self._occupied.meeting(group)
        if found is not None:
            self.groups[group.item.id] = group.item
            self._occupied.add(group)
        return found

    @property
    def last(self) -> int:
        """Return the sequence of the last of them; 0 without any."""
        return max((group.sequence for group in self.groups.values()), default=0)

    @property
    def stuck(self) -> list[StoredGroup]:
        """Return those for which the others wait."""
        return [
            group
            for group in self.groups.values()
            if group.state is GroupState.ROLLBACK_FAILED or group.id in self._waiting
        ]
