"""Deaths of a run inside the tests' own process: as after a kill, it does nothing any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from tests.faults.seams import Seam
from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.errors import LockLost
from tidemark.ledger.locks import Locks

_SILENT = {"close", "stop_writing"}
"""The methods of Control that send nothing."""


class Died(BaseException):
    """The end of a run that is killed; nothing of the application catches it."""


class Death:
    """Whether a run is dead: then all that it would send ends it again, in each of its threads.

    So it records no failure and keeps its locks, which expire when the block ends.
    """

    def __init__(self) -> None:
        self.has_come = False
        self._locks: list[Locks] = []
        self._controls: list[Control] = []

    def come(self) -> None:
        """Kill the run."""
        self.has_come = True
        raise Died

    def alive(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that a dead run does not call."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.has_come:
                raise Died
            return function(*args, **kwargs)

        return call

    @contextmanager
    def possible(self) -> Iterator[None]:
        """Let the runs inside the block die."""
        release, renew, close = Locks._end, Locks._renew, Control.close

        def released(locks: Locks) -> None:
            if not self.has_come:
                release(locks)
                return
            locks._stop.set()
            locks._thread.join()
            self._locks.append(locks)

        def closed(control: Control) -> None:
            # Its locks are to expire by it.
            if self.has_come:
                self._controls.append(control)
            else:
                close(control)

        def renewed(locks: Locks, timeout: float) -> None:
            if self.has_come:
                raise LockLost("the run is dead")
            renew(locks, timeout)

        sending = [
            (Control, name)
            for name, member in vars(Control).items()
            if callable(member) and not name.startswith("_") and name not in _SILENT
        ]
        writing = [(connector, "write"), (connector, "delete")]
        with ExitStack() as stack:
            for owner, name in [*sending, *writing]:
                stack.enter_context(patch.object(owner, name, self.alive(getattr(owner, name))))
            stack.enter_context(patch.object(Control, "close", closed))
            stack.enter_context(patch.object(Locks, "_end", released))
            stack.enter_context(patch.object(Locks, "_renew", renewed))
            yield
        for locks in self._locks:
            release(locks)
        for control in self._controls:
            control.close()


@contextmanager
def dying_after(seam: Seam, calls: int, *, surely: bool = True) -> Iterator[Death]:
    """Let the run in the block die after a seam was passed so often.

    Args:
        seam: the place.
        calls: how often the run passes it before it dies.
        surely: whether the test fails if the run does not pass it so often.
    """
    owner, name = seam.place()
    death, left = Death(), [calls]

    with death.possible():
        function = getattr(owner, name)

        def and_die(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            left[0] -= 1
            if not left[0]:
                death.come()
            return result

        with patch.object(owner, name, and_die):
            try:
                yield death
            except Died:
                assert death.has_come
    if surely:
        assert death.has_come, f"the run has not passed {seam.name} {calls} times"
