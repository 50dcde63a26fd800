"""Locks with an owner and an expiry, kept in Cassandra.

A lock is a row taken with a lightweight transaction and a TTL, renewed while its owner works.
When the owner dies, the row expires. Source: promise 2 of docs/guarantees.md.

Resources are paths: `a/b` excludes `a/b/c` and the other way round, so that work on a whole
journal and work on one of its days exclude each other. Both take their own row first and look
for the other's afterwards; so at least one of the two sees the other. Rows are written and read at
QUORUM whatever the consistency level that is set, so that it sees it from any data centre.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC
from types import TracebackType
from typing import Self

from tidemark import clock
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.errors import LockHeld, LockLost, TidemarkError
from tidemark.window import iso, to_millis

_TOGETHER = 32
"""Locks that are renewed at once."""
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _elapsed() -> float:
    """Seconds on a clock that goes on while the machine sleeps, as those of its locks' TTLs do."""
    return time.clock_gettime(_CLOCK)


class Locks:
    """All the locks that one run holds, renewed together by a thread.

    Use as a context manager; leaving it gives the locks back.
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
        """Prepare; nothing is taken before the block is entered.

        Args:
            control: the session to Cassandra.
            keyspace: Tidemark's own keyspace.
            resources: what to lock; taken in sorted order, so that two runs cannot deadlock.
            owner: who holds them; shown to others.
            run_id: the run, shown to others.
            ttl: seconds after which a lock that is not renewed expires.
            on_lost: called once, from the renewing thread, when a lock is lost.
        """
        lock = table(keyspace, "lock")
        self._control = control
        self._resources = sorted(set(resources))
        self._owner, self._run_id, self._ttl = owner, run_id, ttl
        self._on_lost = on_lost
        self._lost = ""
        self._renewed: dict[str, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="locks", daemon=True)
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
        """Prepare the locks of a run, which cancels its Spark jobs when it loses one of them."""
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
            LockHeld: somebody else holds one; says who, since when and for how long at most.
            LockLost: one was lost before the last was taken.
        """
        # Those that are taken are renewed while the others are: taking many takes its time.
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
        """Stop renewing and give back every lock that is still ours."""
        self._end()

    def check(self) -> None:
        """Call before each kind of write.

        Raises:
            LockLost: a lock ran out or was taken; the run must not write any more.
        """
        if self._lost or self._has_expired():
            raise LockLost(
                self._lost or "the locks could not be renewed before they expired",
                where=f"owner {self._owner}",
                do="nothing more was written; run again",
            )

    def _take(self, resource: str) -> None:
        started = _elapsed()
        values = (resource, self._owner, self._run_id, self._taken_at, self._ttl)
        [(applied, holder)] = self._control.applied_everywhere(self._take_cql, [values])
        if not applied and not self._is_this(holder):
            raise self._held({**holder, "resource": resource})
        self._renewed[resource] = started

    def _is_this(self, holder: Row) -> bool:
        """Whether it is our own row, of a statement that was sent twice."""
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
                raise self._held(other)

    def _held(self, holder: Row) -> LockHeld:
        since = iso(holder["taken_at"].replace(tzinfo=UTC)) if holder["taken_at"] else "?"
        return LockHeld(
            f"{holder['resource']} is held by {holder['owner']} since {since}",
            do=f"wait for it to end; if it died, its lock expires within {self._ttl} s",
        )

    def _has_expired(self) -> bool:
        # Cassandra counts a TTL from the whole second in which the row was written.
        oldest = min(list(self._renewed.values()), default=None)
        return oldest is not None and _elapsed() - oldest > self._ttl - 1

    def _keep(self) -> None:
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
                # One failed renewal is survived: `check` decides when the TTL has passed.
                if self._has_expired():
                    self._lose(f"could not renew the locks: {error}")
                    return
            pause = max(0.0, started + interval - _elapsed())

    def _renew(self, timeout: float) -> None:
        """Renew what is taken, the oldest first; each lock has a time of its own.

        Raises:
            LockLost: somebody else has one.
        """
        taken = sorted(self._renewed.copy(), key=self._renewed.__getitem__)
        for first in range(0, len(taken), _TOGETHER):
            part = taken[first : first + _TOGETHER]
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
            self._renewed.update(dict.fromkeys(part, started))

    def _lose(self, why: str) -> None:
        self._lost = why
        self._on_lost()

    def _end(self) -> None:
        self._stop.set()
        self._thread.join()
        # All of them: one that we did not hear of being taken may be ours as well.
        self._control.applied_everywhere(
            self._release_cql,
            [(resource, self._owner, self._taken_at) for resource in self._resources],
        )
