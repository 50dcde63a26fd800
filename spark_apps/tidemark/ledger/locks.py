"""Locks with an owner and an expiry, kept in Cassandra.

A lock is a row taken with a lightweight transaction and a TTL, renewed while its owner works.
When the owner dies, the row expires. Source: promise 2 of docs/guarantees.md.

Resources are paths: `a/b` excludes `a/b/c` and the other way round, so that work on a whole
journal and work on one of its days exclude each other. Both take their own row first and look
for the other's afterwards; so at least one of the two sees the other.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC
from types import TracebackType
from typing import Self

from tidemark import clock
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.errors import LockHeld, LockLost, TidemarkError
from tidemark.window import iso


def default_owner(run_id: str) -> str:
    """`host:pid:run id`: enough for an operator to find the process."""
    return f"{socket.gethostname()}:{os.getpid()}:{run_id}"


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
        self._renewed = 0.0
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
        self._release_cql = f"DELETE FROM {lock} WHERE resource = ? IF owner = ?"
        self._taken_at = clock.now()

    def __enter__(self) -> Self:
        """Take every lock, or none.

        Raises:
            LockHeld: somebody else holds one; says who, since when and for how long at most.
        """
        taken: list[str] = []
        self._renewed = time.monotonic()
        try:
            for resource in self._resources:
                self._take(resource)
                taken.append(resource)
            self._require_no_overlap()
        except BaseException:
            self._release(taken)
            raise
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop renewing and give back every lock that is still ours."""
        self._stop.set()
        self._thread.join()
        self._release(self._resources)

    def check(self) -> None:
        """Call before each kind of write.

        Raises:
            LockLost: a lock ran out or was taken; the run must not write any more.
        """
        expired = time.monotonic() - self._renewed > self._ttl
        if self._lost or expired:
            raise LockLost(
                self._lost or "the locks could not be renewed before they expired",
                where=f"owner {self._owner}",
                do="nothing more was written; run again",
            )

    def _take(self, resource: str) -> None:
        values = (resource, self._owner, self._run_id, self._taken_at, self._ttl)
        applied, holder = self._control.applied(self._take_cql, values)
        if not applied:
            raise self._held({**holder, "resource": resource})

    def _require_no_overlap(self) -> None:
        for other in self._control.execute(self._all_cql):
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

    def _keep(self) -> None:
        while not self._stop.wait(self._ttl / 4):
            started = time.monotonic()
            try:
                for resource in self._resources:
                    values = (
                        self._ttl,
                        self._owner,
                        self._run_id,
                        self._taken_at,
                        resource,
                        self._owner,
                    )
                    applied, holder = self._control.applied(self._renew_cql, values)
                    if not applied:
                        self._lose(f"lost the lock of {resource} to {holder.get('owner')}")
                        return
                self._renewed = started
            except TidemarkError as error:
                # One failed renewal is survived: `check` decides when the TTL has passed.
                if time.monotonic() - self._renewed > self._ttl:
                    self._lose(f"could not renew the locks: {error}")
                    return

    def _lose(self, why: str) -> None:
        self._lost = why
        self._on_lost()

    def _release(self, resources: Iterable[str]) -> None:
        for resource in resources:
            self._control.applied(self._release_cql, (resource, self._owner))
