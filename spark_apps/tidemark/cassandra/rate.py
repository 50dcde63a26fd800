"""The limit of a run's write rate, the same for the driver's statements and for Spark's tasks.

Both count rows. The connector's own limit (`throughputMBPerSec`) would not slow down many small
tasks, or deletes, which have few bytes: each task sends a MiB before it begins to wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tidemark.errors import LockLost

_PARTS_A_SECOND = 10
_ROWS_OF_A_TASK = 1 << 33
"""The ids that `monotonically_increasing_id` has for one task."""
_Item = TypeVar("_Item")


def _one(item: object) -> int:
    return 1


class WriteRate:
    """The most rows a second that the driver writes, over all its threads.

    A part is written at once, and the next part waits for a time in proportion to its rows: in any
    time t no more rows are begun than rate * t plus those of one part. A part has the rows of a
    tenth of a second, or one item that has more.
    """

    def __init__(
        self,
        rows: int,
        *,
        elapsed: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        """Set the rate to `rows` a second, 0 for no limit.

        `elapsed` is a monotonic clock in seconds. By default, `stop` ends a `sleep`.
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
        """Yield all items in order, in parts, each part when it may be written.

        Raises:
            LockLost: the run must not write any more.
        """
        if not self._rows:
            yield list(items)
            return
        part_rows = max(1, self._rows // _PARTS_A_SECOND)
        part: list[_Item] = []
        size = 0
        for item in items:
            rows = rows_of(item)
            if part and size + rows > part_rows:
                self._await_turn(size)
                yield part
                part, size = [], 0
            part.append(item)
            size += rows
        if part:
            self._await_turn(size)
            yield part

    def stop(self) -> None:
        """End all waiting, because a lock was lost; the run must not write any more."""
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

    `rows` is the rate of all tasks in rows a second, at least one for each task.
    """
    rows_between = max(1, rows // (_PARTS_A_SECOND * tasks))
    return rows_between, -(-rows_between * tasks * 1000 // rows)


def pause_before(rows_between: int, milliseconds: int) -> str:
    """Return a condition that is always true and pauses a task after every `rows_between` rows."""
    return (
        f"monotonically_increasing_id() % {_ROWS_OF_A_TASK}L % {rows_between} > 0"
        f" OR java_method('java.lang.Thread', 'sleep', {milliseconds}L) IS NOT NULL"
    )
