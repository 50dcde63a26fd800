"""Write timestamps that fence off a run that has lost its lock.

Of two writes of a cell, Cassandra keeps the write with the later timestamp. A run that is suspended
between the check of its lock and a write sends that write when it wakes up, even if its successor
has been working for long. The timestamp is from the time when the run still held the lock, so all
later writes of the successor stay.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable

from tidemark import clock

_MICROS = 1_000_000


class WriteTimes:
    """The write timestamps of one session, in microseconds since 1970.

    They follow the clock up to the bounds, and each timestamp is later than the previous one.
    """

    def __init__(self) -> None:
        """Start without a bound."""
        self._guard = threading.Lock()
        self._last = 0
        self._bounds: dict[Hashable, int] = {}

    def __call__(self) -> int:
        """Return the next timestamp."""
        with self._guard:
            present = min([clock.machine_micros(), *self._bounds.values()])
            self._last = max(self._last + 1, present)
            return self._last

    def pass_by(self, write_time: int) -> None:
        """Return only later timestamps than this from now on."""
        with self._guard:
            self._last = max(self._last, write_time)

    def bound(self, holder: Hashable, seconds: float) -> None:
        """Follow the clock only until `seconds` from now, or until the holder's next bound."""
        with self._guard:
            self._bounds[holder] = clock.machine_micros() + int(seconds * _MICROS)

    def free(self, holder: Hashable) -> None:
        """Remove the bound of a holder."""
        with self._guard:
            self._bounds.pop(holder, None)
