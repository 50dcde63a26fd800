"""Write timestamps that fence off a run which has lost its lock.

Of two writes of a cell Cassandra keeps the one with the later timestamp. A run that is suspended
between the check of its lock and a write sends that write when it wakes up, however long its
successor has been at work by then. Its timestamp is that of a time at which it still held the lock,
so whatever the successor has written since stays.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable

from tidemark import clock

_MICROS = 1_000_000


class WriteTimes:
    """The write timestamps of one session, in microseconds since 1970.

    They follow the clock, each is later than the one before it, and none lies behind a bound.
    """

    def __init__(self) -> None:
        """Begin without a bound."""
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
        """Return only later ones than this from now on."""
        with self._guard:
            self._last = max(self._last, write_time)

    def bound(self, holder: Hashable, seconds: float) -> None:
        """Return none of later than `seconds` from now, until the holder says otherwise."""
        with self._guard:
            self._bounds[holder] = clock.machine_micros() + int(seconds * _MICROS)

    def free(self, holder: Hashable) -> None:
        """Forget the bound of a holder."""
        with self._guard:
            self._bounds.pop(holder, None)
