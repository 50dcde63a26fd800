"""Starting from snapshots as a reader does it, one event after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class Reader:
    """What is known of one persistence id over several runs.

    Attributes:
        base: the sequence nr of the snapshot that it began with; 0 if it began with an event.
        consumed: everything up to it is consumed; None before the first encounter.
        processed: what was handed over: `snap 2`, `3`, ...; no event twice.
    """

    base: int = 0
    consumed: int | None = None
    processed: list[str] = field(default_factory=list)

    def run(self, events: set[int], snapshots: Mapping[int, int], end: int) -> None:
        """Read what is there.

        Args:
            events: their sequence nrs.
            snapshots: when each was taken, by sequence nr.
            end: of the window; a snapshot taken then or later is not seen.
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
