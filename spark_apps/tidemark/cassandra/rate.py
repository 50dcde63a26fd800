"""How fast a run writes: the same limit for the driver's statements and for Spark's tasks.

Both count rows. The connector has a limit of its own (`throughputMBPerSec`), but each of its tasks
sends a MiB before it begins to wait: a write of many small tasks, or of deletes, which have next to
no bytes, would not be limited at all.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tidemark.errors import LockLost

_PARTS_A_SECOND = 10
_ROWS_OF_A_TASK = 1 << 33
"""`monotonically_increasing_id` counts so far in a task."""
_Item = TypeVar("_Item")


def _one(item: object) -> int:
    return 1


class WriteRate:
    """The most rows a second that the driver writes, over all its threads.

    A part is written at once, and moves the moment of the next part on by its rows: in any time t
    no more rows are begun than rate * t and those of one part. A part has the rows of a tenth of a
    second, or one item that has more.
    """

    def __init__(
        self,
        rows: int,
        *,
        elapsed: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        """State the rate.

        Args:
            rows: rows a second; 0 is no limit.
            elapsed: a clock that never goes back, in seconds.
            sleep: waits so many seconds; by default until `stop` at the latest.
        """
        self._rows = rows
        self._elapsed = elapsed
        self._stopped = threading.Event()
        self._sleep = sleep or self._stopped.wait
        self._turn = threading.Lock()
        self._next = elapsed()

    def parts(
        self, items: Iterable[_Item], rows_of: Callable[[_Item], int] = _one
    ) -> Iterator[list[_Item]]:
        """Yield all items in their order, in parts, each when it may be written.

        Raises:
            LockLost: the run must not write any more.
        """
        if not self._rows:
            yield list(items)
            return
        together = max(1, self._rows // _PARTS_A_SECOND)
        part: list[_Item] = []
        size = 0
        for item in items:
            rows = rows_of(item)
            if part and size + rows > together:
                self._await_turn(size)
                yield part
                part, size = [], 0
            part.append(item)
            size += rows
        if part:
            self._await_turn(size)
            yield part

    def stop(self) -> None:
        """End all waiting, because a lock was lost; nothing is written any more."""
        self._stopped.set()

    def _await_turn(self, rows: int) -> None:
        with self._turn:
            now = self._elapsed()
            begin = max(now, self._next)
            self._next = begin + rows / self._rows
        if begin > now:
            self._sleep(begin - now)
        if self._stopped.is_set():
            raise LockLost(
                "a lock was lost while the run waited for its turn to write",
                where="TIDEMARK_WRITE_RATE",
                do="nothing more was written; run again",
            )


def pauses(rows: int, tasks: int) -> tuple[int, int]:
    """Return after how many rows a task pauses, and for how many milliseconds.

    Args:
        rows: rows a second of all tasks together, at least one for each.
        tasks: the number of tasks.
    """
    together = max(1, rows // (_PARTS_A_SECOND * tasks))
    return together, -(-together * tasks * 1000 // rows)


def pause_before(together: int, milliseconds: int) -> str:
    """Return a condition that is always true, and pauses at each so many rows of a task."""
    return (
        f"monotonically_increasing_id() % {_ROWS_OF_A_TASK}L % {together} > 0"
        f" OR java_method('java.lang.Thread', 'sleep', {milliseconds}L) IS NOT NULL"
    )
