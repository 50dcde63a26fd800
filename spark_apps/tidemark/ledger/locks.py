"""Locks with an owner and an expiry, kept in Cassandra.

A lock is a row that a lightweight transaction inserts with a TTL and that its owner renews while it
works. When the owner dies, the row expires. Source: promise 2 of docs/guarantees.md.

Resources are paths. `a/b` and `a/b/c` exclude each other, so work on a whole journal excludes work
on one of its days and vice versa. Each run first takes its own row and then looks for rows of
others, so at least one of two runs sees the other. The rows are written and read at QUORUM,
whatever consistency level is set, so runs in different data centres see each other too.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC
from types import TracebackType
from typing import Self

from tidemark import clock, termination
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.errors import InvalidInput, LockHeld, LockLost, TidemarkError
from tidemark.window import iso, to_millis

_log = logging.getLogger(__name__)
_RENEWED_AT_ONCE = 32
_SURELY_HELD = 0.75
"""The share of a lock's TTL in which write times rely on the lock; the rest allows for clocks that
differ."""
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _elapsed() -> float:
    """Return the seconds of a clock that, like the locks' TTLs, runs while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


class Locks:
    """The locks that one run holds and one thread renews.

    Use as a context manager: the end of the block releases the locks.
    """

    def __init__(
        self,
        control: Control,
        keyspace: str,
        resources: Iterable[str],
        *,
        owner: str,
        run_id: str,
        ttl: int,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare the locks; the start of the block takes them.

        Locks are taken in the sorted order of `resources`, so two runs cannot deadlock. They expire
        `ttl` seconds after the last renewal. When a lock is lost, the renewing thread calls
        `on_lost` once.
        """
        lock = table(keyspace, "lock")
        self._control = control
        self._resources = sorted(set(resources))
        self._owner, self._run_id, self._ttl = owner, run_id, ttl
        self._on_lost = on_lost
        self._lost = ""
        self._renewed: dict[str, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_stopped, name="locks", daemon=True)
        self._all_cql = f"SELECT resource, owner, taken_at FROM {lock}"
        self._take_cql = (
            f"INSERT INTO {lock} (resource, owner, run_id, taken_at)"
            " VALUES (?, ?, ?, ?) IF NOT EXISTS USING TTL ?"
        )
        self._renew_cql = (
            f"UPDATE {lock} USING TTL ? SET owner = ?, run_id = ?, taken_at = ?"
            " WHERE resource = ? IF owner = ?"
        )
        self._release_cql = f"DELETE FROM {lock} WHERE resource = ? IF owner = ? AND taken_at = ?"
        self._taken_at = clock.now()

    @classmethod
    def of(cls, run: RunContext, resources: Iterable[str]) -> Self:
        """Prepare the locks of a run; the loss of a lock cancels the run's Spark jobs."""
        return cls(
            run.control,
            run.settings.keyspace,
            resources,
            owner=run.owner,
            run_id=run.run_id,
            ttl=run.settings.lock_ttl,
            on_lost=run.stop_jobs,
        )

    def __enter__(self) -> Self:
        """Take every lock, or none.

        Raises:
            InvalidInput: clocks differ by so much that locks would not exclude each other.
            LockHeld: another run holds a lock; the message names the owner, the time of taking and
                the longest wait.
            LockLost: a lock was lost before the last lock was taken.
        """
        self._require_clocks()
        # Renewal starts before the first lock is taken, because taking many locks takes time.
        self._thread.start()
        try:
            for resource in self._resources:
                self._take(resource)
            self._require_no_overlap()
            self.check()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop renewal and release every lock that this run still holds."""
        self._end()

    def check(self) -> None:
        """Check that every lock is still held; call before each kind of write.

        Raises:
            LockLost: a lock expired or was taken; the run must not write any more.
            Ended: the run was ended.
        """
        termination.check()
        if self._lost or self._has_expired():
            raise LockLost(
                self._lost or "the locks could not be renewed before they expired",
                where=f"owner {self._owner}",
                do="nothing more was written; run again",
            )

    def _require_clocks(self) -> None:
        """Reject clocks so far apart that a held lock could expire or a late write win."""
        tolerance = self._ttl * (1 - _SURELY_HELD)
        for node, ahead in self._control.clock_offsets().items():
            if abs(ahead) > tolerance:
                how = "ahead of" if ahead > 0 else "behind"
                raise InvalidInput(
                    f"the clock of {node} is {abs(ahead):.0f} s {how} this machine's: locks of"
                    f" {self._ttl} s bear {tolerance:g} s",
                    where=f"the lock of {self._resources[0]}",
                    do="set the clocks of all machines by NTP; nothing was written",
                )

    def _take(self, resource: str) -> None:
        started = _elapsed()
        values = (resource, self._owner, self._run_id, self._taken_at, self._ttl)
        [(applied, holder)] = self._control.applied_everywhere(self._take_cql, [values])
        if not applied and not self._is_own(holder):
            raise self._lock_held({**holder, "resource": resource})
        self._was_renewed([resource], started)

    def _is_own(self, holder: Row) -> bool:
        """Return whether the row is this run's own, from a statement that was sent twice."""
        taken_at = holder["taken_at"]
        # Cassandra keeps milliseconds.
        return bool(
            holder["owner"] == self._owner
            and taken_at
            and to_millis(taken_at.replace(tzinfo=UTC)) == to_millis(self._taken_at)
        )

    def _require_no_overlap(self) -> None:
        for other in self._control.read_everywhere(self._all_cql):
            if other["owner"] != self._owner and any(
                other["resource"].startswith(f"{own}/") or own.startswith(f"{other['resource']}/")
                for own in self._resources
            ):
                raise self._lock_held(other)

    def _lock_held(self, holder: Row) -> LockHeld:
        since = iso(holder["taken_at"].replace(tzinfo=UTC)) if holder["taken_at"] else "?"
        return LockHeld(
            f"{holder['resource']} is held by {holder['owner']} since {since}",
            do=f"wait for it to end; if it died, its lock expires within {self._ttl} s",
        )

    def _was_renewed(self, resources: Iterable[str], started: float) -> None:
        self._renewed.update(dict.fromkeys(resources, started))
        surely_held = self._ttl * _SURELY_HELD - self._age()
        self._control.write_times.bound(self, surely_held)

    def _has_expired(self) -> bool:
        # Cassandra counts a TTL from the start of the second in which the row was written.
        return self._age() > self._ttl - 1

    def _age(self) -> float:
        """Return the seconds since the least recent renewal; 0 if no lock was taken."""
        # Another thread may add renewals meanwhile.
        return _elapsed() - min(list(self._renewed.values()), default=_elapsed())

    def _renew_until_stopped(self) -> None:
        interval = self._ttl / 4
        pause = interval
        while not self._stop.wait(pause):
            started = _elapsed()
            try:
                self._renew(timeout=interval)
            except LockLost as error:
                self._lose(error.what)
                return
            except TidemarkError as error:
                # The run survives failed renewals until the TTL has passed.
                if self._has_expired():
                    self._lose(f"could not renew the locks: {error}")
                    return
            pause = max(0.0, started + interval - _elapsed())

    def _renew(self, timeout: float) -> None:
        """Renew the taken locks, the least recently renewed first.

        Raises:
            LockLost: another run has taken a lock.
        """
        resources = sorted(self._renewed.copy(), key=self._renewed.__getitem__)
        for first in range(0, len(resources), _RENEWED_AT_ONCE):
            part = resources[first : first + _RENEWED_AT_ONCE]
            started = _elapsed()
            answers = self._control.applied_everywhere(
                self._renew_cql,
                [
                    (self._ttl, self._owner, self._run_id, self._taken_at, resource, self._owner)
                    for resource in part
                ],
                timeout=timeout,
            )
            for resource, (applied, holder) in zip(part, answers, strict=True):
                if not applied:
                    raise LockLost(f"lost the lock of {resource} to {holder.get('owner')}")
            self._was_renewed(part, started)

    def _lose(self, why: str) -> None:
        self._lost = why
        self._on_lost()

    @termination.deferred()
    def _end(self) -> None:
        self._stop.set()
        self._thread.join()
        self._control.write_times.free(self)
        # Release every resource: a lock whose answer never arrived may be held as well.
        releases = [(resource, self._owner, self._taken_at) for resource in self._resources]
        try:
            self._control.applied_everywhere(self._release_cql, releases)
        except TidemarkError as error:
            # The error of the block itself must be reported; the locks expire automatically.
            _log.warning(
                "the locks could not be released and expire within %d s: %s", self._ttl, error
            )
