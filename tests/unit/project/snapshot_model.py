"""A model of a reader that starts from snapshots and takes one event after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class Reader:
    """A reader of a persistence id over several runs.

    Attributes:
        base: the sequence nr of the snapshot that the reader began with; 0 if that was an event.
        consumed: the number up to which all is consumed; None before the first event or snapshot.
        processed: the snapshots and events handed over, as `snap 2`, `3`, ...; no event twice.
    """

    base: int = 0
    consumed: int | None = None
    processed: list[str] = field(default_factory=list)

    def run(self, events: set[int], snapshots: Mapping[int, int], end: int) -> None:
        """Read the events and snapshots that exist.

        Args:
            events: the sequence nrs of the events.
            snapshots: the time at which each snapshot was taken, by sequence nr.
            end: the end of the window; a snapshot taken at this time or later is not seen.
        """
        if self.consumed is None:
            taken = [number for number, at in snapshots.items() if number > 0 and at < end]
            if taken:
                self.base = self.consumed = max(taken)
                self.processed.append(f"snap {self.base}")
        reached = self.consumed or 0
        for number in sorted(events):
            if number == reached + 1:
                reached = number
                self.processed.append(str(number))
        self.consumed = reached or None
