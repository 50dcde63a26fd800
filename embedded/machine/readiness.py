"""Waiting for a child process until it serves, or has died."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from embedded.errors import EmbeddedError
from embedded.machine import processes
from embedded.progress import ProgressLine

_DEADLINE_S = 180.0
_POLL_S = 0.5


@dataclass(frozen=True)
class Readiness:
    """When a server serves, and what tells why it does not.

    Attributes:
        name: its record in `run`.
        title: for people.
        run: its run directory.
        sign: what is waited for, for people, as in "a login".
        is_there: whether it has come.
        log: the log that tells most at this moment.
    """

    name: str
    title: str
    run: Path
    sign: str
    is_there: Callable[[], bool]
    log: Callable[[], Path]

    def wait(self, progress: ProgressLine) -> None:
        """Return once the sign has come.

        Raises:
            EmbeddedError: The process has died, or the sign did not come within three minutes.
        """
        while True:
            if not processes.running(self.name, self.run):
                raise self._failure(f"{self.title} died while starting")
            if progress.elapsed > _DEADLINE_S:
                raise self._failure(
                    f"{self.title} did not give {self.sign} within {_DEADLINE_S:.0f} s"
                )
            if self.is_there():
                return
            progress.update(f"waiting for {self.sign}, {self._last_step()}")
            time.sleep(_POLL_S)

    def _failure(self, what: str) -> EmbeddedError:
        log = self.log()
        return EmbeddedError(
            what, str(log), "its last lines are below", detail=processes.log_tail(log)
        )

    def _last_step(self) -> str:
        line = processes.log_tail(self.log(), 1).rpartition(" - ")[2]
        return f"log: {line.strip()[:70]}" if line.strip() else "JVM is starting"
