"""Progress of long steps on stderr: what, how far, how long."""

from __future__ import annotations

import sys
import time


class ProgressLine:
    """Lines such as `cassandra: waiting for a login (12 s)`.

    On a terminal a running step rewrites its line; elsewhere (CI, a pipe) it prints a line now and
    then.

    Args:
        name: What the lines are about.
        every: Seconds between two lines when stderr is no terminal.
    """

    def __init__(self, name: str, every: float = 5.0) -> None:
        """Start the clock."""
        self._name = name
        self._every = every
        self._began = time.monotonic()
        self._last_at = float("-inf")
        self._live = sys.stderr.isatty()

    @property
    def elapsed(self) -> float:
        """Seconds since this object was made."""
        return time.monotonic() - self._began

    def update(self, text: str) -> None:
        """Show where the step stands."""
        now = time.monotonic()
        if self._live:
            self._write(f"\r\x1b[2K{self._line(text)}")
        elif now - self._last_at >= self._every:
            self._write(self._line(text) + "\n")
            self._last_at = now

    def done(self, text: str) -> None:
        """Show the outcome and end the line."""
        start = "\r\x1b[2K" if self._live else ""
        self._write(f"{start}{self._line(text)}\n")

    def _line(self, text: str) -> str:
        return f"{self._name}: {text} ({self.elapsed:.0f} s)"

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
