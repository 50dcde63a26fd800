"""The write times of a stream's groups: each is later than those of all groups before it."""

from __future__ import annotations

import threading

from tidemark import clock


class GroupTimes:
    """The write times that a run gives to statements, in microseconds since 1970.

    They follow the clock but never go back, whichever machine executed earlier groups: a delete
    leaves no value whose write time could be read.
    """

    def __init__(self, newest: int) -> None:
        """Start after a write time of the stream."""
        self._guard = threading.Lock()
        self._newest = newest

    @property
    def newest(self) -> int:
        """Return the newest known write time."""
        return self._newest

    def pass_by(self, write_time: int) -> None:
        """Give only write times later than this one from now on."""
        with self._guard:
            self._newest = max(self._newest, write_time)

    def after(self, write_time: int) -> int:
        """Return a write time that is later than all others, and than `write_time`."""
        with self._guard:
            self._newest = max(clock.now_micros(), self._newest + 1, write_time + 1)
            return self._newest
