"""The sessions with Cassandra that all requests of this server process share, one per journal."""

from __future__ import annotations

import atexit
import copy
import time
from collections import Counter
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from tidemark.cassandra.control import Control
from tidemark.context import RunContext
from tidemark.errors import CassandraUnavailable, StatementRefused, TidemarkError
from tidemark.installation import of_journal
from tidemark.ledger.applications import STATUS
from tidemark.settings import Settings

T = TypeVar("T")
_THREADS = 8
"""The most reads at a time: in an outage each waits, and Airflow's own threads must stay free."""
FRESH_S = 5.0
"""How long requests get the last failure to connect without a further try."""


class SharedSession:
    """Opens a session at the first read, and another at the first read after an outage."""

    def __init__(self, journal: str) -> None:
        """Open nothing yet."""
        self._journal = journal
        self._lock = Lock()
        self._settings = Settings.model_construct()
        self._control: Control | None = None
        self._readers = Counter[Control]()
        self._failure: tuple[float, TidemarkError] | None = None

    def read(self, function: Callable[[RunContext], T]) -> T:
        """Return what a function reads of the journal.

        Raises:
            TidemarkError: Cassandra cannot be reached, or the function fails.
        """
        with of_journal(self._journal):
            return self._read(function)

    def _read(self, function: Callable[[RunContext], T]) -> T:
        with self._lock:
            control, settings = self._opened(), self._settings
            self._readers[control] += 1
        is_outage = False
        try:
            return function(RunContext(STATUS, settings, control, STATUS))
        except CassandraUnavailable as error:
            is_outage = not isinstance(error, StatementRefused)
            raise
        finally:
            self._end(control, is_outage=is_outage)

    def _opened(self) -> Control:
        if self._control is not None:
            return self._control
        if self._failure is not None and time.monotonic() - self._failure[0] < FRESH_S:
            raise copy.copy(self._failure[1])
        try:
            self._settings = Settings.load()
            self._control = Control(self._settings)
        except TidemarkError as error:
            self._failure = (time.monotonic(), error)
            raise
        return self._control

    def _end(self, control: Control, *, is_outage: bool) -> None:
        """End a read; a session that is no longer in use is closed after its last read."""
        with self._lock:
            if is_outage and self._control is control:
                self._control = None
            self._readers[control] -= 1
            is_unused = not self._readers[control] and self._control is not control
            if not self._readers[control]:
                del self._readers[control]
        if is_unused:
            control.close()

    def close(self) -> None:
        """Close the session, and forget the last failure."""
        with self._lock:
            control, self._control, self._failure = self._control, None, None
        if control is not None:
            control.close()


class SharedSessions:
    """The sessions by journal; reads of all journals share the threads."""

    def __init__(self) -> None:
        """Open nothing yet."""
        self._sessions: dict[str, SharedSession] = {}
        self._limiter: CapacityLimiter | None = None

    async def read(self, journal: str, function: Callable[[RunContext], T]) -> T:
        """Return what a function reads of a journal, in a thread.

        Raises:
            TidemarkError: Cassandra cannot be reached, or the function fails.
        """
        if self._limiter is None:
            self._limiter = CapacityLimiter(_THREADS)
        session = self.of(journal)
        return await to_thread.run_sync(session.read, function, limiter=self._limiter)

    def of(self, journal: str) -> SharedSession:
        """Return the session of a journal."""
        return self._sessions.setdefault(journal, SharedSession(journal))

    def close(self) -> None:
        """Close the sessions, and forget their last failures."""
        for session in self._sessions.values():
            session.close()


shared = SharedSessions()
atexit.register(shared.close)
