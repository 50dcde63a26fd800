"""The session with Cassandra that all requests of this server process share."""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from tidemark.cassandra.control import Control
from tidemark.context import RunContext
from tidemark.errors import CassandraUnavailable, StatementRefused, TidemarkError
from tidemark.ledger.applications import STATUS
from tidemark.settings import Settings

T = TypeVar("T")
_THREADS = 8
"""The most reads at a time: in an outage each waits, and Airflow's own threads must stay free."""
_FRESH_S = 5.0
"""How long requests get the last failure to connect without a further try."""


class SharedSession:
    """Opens a session at the first read, and a new one at the first read after an outage."""

    def __init__(self) -> None:
        self._opening = Lock()
        self._users = Lock()
        self._run: RunContext | None = None
        self._uses: dict[int, int] = {}
        self._failure: tuple[float, TidemarkError] | None = None
        self._limiter: CapacityLimiter | None = None

    async def read(self, function: Callable[[RunContext], T]) -> T:
        """Return what a function reads, which runs in a thread.

        Raises:
            TidemarkError: Cassandra cannot be reached, or the function fails.
        """
        if self._limiter is None:
            self._limiter = CapacityLimiter(_THREADS)
        return await to_thread.run_sync(self._read, function, limiter=self._limiter)

    def _read(self, function: Callable[[RunContext], T]) -> T:
        run = self._taken()
        try:
            return function(run)
        except StatementRefused:
            raise
        except CassandraUnavailable:
            self._replace(run)
            raise
        finally:
            self._give_back(run)

    def _taken(self) -> RunContext:
        with self._opening:
            if self._run is None:
                self._run = self._opened()
            run = self._run
            with self._users:
                self._uses[id(run)] = self._uses.get(id(run), 0) + 1
            return run

    def _opened(self) -> RunContext:
        if self._failure is not None and time.monotonic() - self._failure[0] < _FRESH_S:
            raise self._failure[1]
        try:
            settings = Settings.load()
            control = Control(settings)
        except TidemarkError as error:
            self._failure = (time.monotonic(), error)
            raise
        self._failure = None
        return RunContext(STATUS, settings, control, STATUS)

    def _replace(self, run: RunContext) -> None:
        """Let later reads open a session of their own."""
        with self._opening:
            if self._run is run:
                self._run = None

    def _give_back(self, run: RunContext) -> None:
        """Close a session that has been replaced, after its last read."""
        with self._users:
            self._uses[id(run)] -= 1
            is_last = self._uses[id(run)] == 0
            if is_last:
                del self._uses[id(run)]
        if is_last and run is not self._run:
            run.control.close()

    def close(self) -> None:
        """Close the session."""
        with self._opening:
            run, self._run = self._run, None
        if run is not None:
            run.control.close()


shared = SharedSession()
atexit.register(shared.close)
