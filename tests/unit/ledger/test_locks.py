"""Locks on a distant server, which must not be lost because calls take long."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import cast
from unittest.mock import Mock

import pytest

from tests.integration.support import wait_until
from tidemark import termination
from tidemark.cassandra.control import Control, Row
from tidemark.errors import CassandraUnavailable, InvalidInput, LockHeld, LockLost
from tidemark.ledger.claim import Claim
from tidemark.ledger.locks import Locks
from tidemark.ledger.piece import Piece, Reason
from tidemark.write_times import WriteTimes

LATENCY_S = 0.012
AT_ONCE = 32


class FarAway:
    """The table of locks behind a slow network, with 32 statements at once in each round."""

    def __init__(self, latency: float = LATENCY_S) -> None:
        self.latency = latency
        self.write_times = WriteTimes()
        self.offsets: dict[str, float] = {}
        self.holders: dict[str, Row] = {}
        self.renewals: dict[str, int] = {}

    def applied_everywhere(
        self, cql: str, values: Sequence[Sequence[object]], *, timeout: float | None = None
    ) -> list[tuple[bool, Row]]:
        time.sleep(self.latency * -(-len(values) // AT_ONCE))
        return [self._applied(cql, row) for row in values]

    def applied(self, cql: str, values: Sequence[object]) -> tuple[bool, Row]:
        time.sleep(self.latency)
        return self._applied(cql, values)

    def _applied(self, cql: str, values: Sequence[object]) -> tuple[bool, Row]:
        if cql.startswith("INSERT"):
            resource, owner, _, taken_at, _ = values
            holder = self.holders.get(str(resource))
            if holder is None:
                self.holders[str(resource)] = {"owner": owner, "taken_at": taken_at}
            return holder is None, dict(holder or {})
        if cql.startswith("UPDATE"):
            self.renewals[str(values[4])] = self.renewals.get(str(values[4]), 0) + 1
            return True, {}
        self.holders.pop(str(values[0]), None)
        return True, {}

    def read_everywhere(self, cql: str) -> list[Row]:
        return []

    def clock_offsets(self) -> dict[str, float]:
        return self.offsets

    execute = read_everywhere


def locks(server: FarAway, *resources: str, ttl: int = 4, owner: str = "me") -> Locks:
    return Locks(cast(Control, server), "own", resources, owner=owner, run_id="r", ttl=ttl)


def test_a_year_of_days_is_held_though_its_locks_take_longer_than_their_ttl() -> None:
    """One by one, 365 locks take 4.4 s here, more than their TTL; at 180 ms, over a minute."""
    days = [f"tag_views/{n:03}" for n in range(365)]
    server = FarAway()
    with locks(server, *days) as held:

        def is_renewed_thrice() -> bool:
            held.check()
            return all(server.renewals.get(day, 0) >= 3 for day in days)

        wait_until("each lock to be renewed three times", is_renewed_thrice)
    assert server.holders == {}


def test_lock_that_its_own_statement_took_before_it_was_sent_again_is_taken() -> None:
    """The driver repeats a statement whose connection broke."""
    server = FarAway(0)
    own = locks(server, "a")
    row = {"owner": "me", "taken_at": own._taken_at.replace(tzinfo=None)}
    server.holders["a"] = row
    with own:
        own.check()
    server.holders["a"] = {**row, "taken_at": datetime(2026, 1, 1)}
    with pytest.raises(LockHeld, match="a is held by me since 2026-01-01"), locks(server, "a"):
        pass


def test_lock_that_expired_while_the_machine_slept_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock's clock goes on during sleep, while `time.monotonic` stands still."""
    asleep = 0.0
    real = time.clock_gettime

    def boottime(clock: int) -> float:
        return real(clock) + (asleep if clock == time.CLOCK_BOOTTIME else 0.0)

    monkeypatch.setattr(time, "clock_gettime", boottime)
    with locks(FarAway(0), "a", ttl=60) as held:
        held.check()
        asleep = 61.0
        with pytest.raises(LockLost, match="could not be renewed before they expired"):
            held.check()


def test_lock_is_relied_on_until_a_second_before_its_ttl_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cassandra counts a TTL from the start of the second in which the row was written."""
    now = 1000.0
    monkeypatch.setattr(time, "clock_gettime", lambda _: now)
    with locks(FarAway(0), "a", ttl=60) as held:
        now += 59
        held.check()
        now += 0.01
        with pytest.raises(LockLost, match="could not be renewed before they expired"):
            held.check()


def test_error_that_follows_a_signal_is_no_failure_of_a_piece() -> None:
    """A signal cancels Spark's jobs; the error of such a job must not hide it."""
    server, recorder = FarAway(0), Mock()

    def cancelled() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            raise RuntimeError("the job was cancelled")

    with termination.raised(), locks(server, "a") as held:
        claimed = Claim([Piece(0, Reason.NEW)], held, recorder)
        with pytest.raises(termination.Ended), claimed.failed_on_error():
            cancelled()
    recorder.finish.assert_not_called()
    assert server.holders == {}


def test_a_signal_while_locks_are_released_ends_the_run_after_they_are() -> None:
    """spark-submit's end fails Spark's work at once, and its signal comes half a second later."""

    class EndedWhileReleasing(FarAway):
        def _applied(self, cql: str, values: Sequence[object]) -> tuple[bool, Row]:
            if cql.startswith("DELETE"):
                signal.raise_signal(signal.SIGTERM)
            return super()._applied(cql, values)

    server = EndedWhileReleasing(0)
    with termination.raised(), pytest.raises(termination.Ended), locks(server, "a"):
        pass
    assert server.holders == {}
    # A second signal changes nothing, and the error that unwinds the stack is not replaced.
    with termination.raised():
        with suppress(ZeroDivisionError), locks(server, "a"):
            with suppress(termination.Ended):
                signal.raise_signal(signal.SIGINT)
            raise ZeroDivisionError
        assert termination.ended_by() is signal.SIGINT
    assert server.holders == {}


def test_locks_that_cannot_be_released_do_not_hide_how_the_work_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The locks expire; a report of what went wrong, or of work that is done, must not."""

    class Lost(FarAway):
        def _applied(self, cql: str, values: Sequence[object]) -> tuple[bool, Row]:
            if cql.startswith("DELETE"):
                raise CassandraUnavailable("lost", where="127.0.0.1", do="wait")
            return super()._applied(cql, values)

    with pytest.raises(LockLost, match="the work's own"), locks(Lost(0), "a"):
        raise LockLost("the work's own", where="here", do="again")
    with locks(Lost(0), "a", ttl=60):
        caplog.clear()
    assert "could not be released and expire within 60 s: lost" in caplog.text


@pytest.mark.parametrize(
    ("ahead", "words"), [(180.0, "180 s ahead of this"), (-16.0, "16 s behind this")]
)
def test_a_node_whose_clock_is_minutes_off_is_refused_before_a_lock_is_taken(
    ahead: float, words: str
) -> None:
    """Such a node counts a TTL by its own clock, and gives the lock to a second run."""
    server = FarAway(0)
    server.offsets = {"127.0.0.1:9042": 1.0, "127.0.0.2:9042": ahead}
    with pytest.raises(InvalidInput, match=rf"the clock of 127.0.0.2:9042 is {words}"):
        locks(server, "a", ttl=60).__enter__()
    assert server.holders == {}


def test_write_times_follow_each_other_and_stay_within_the_time_of_the_locks() -> None:
    server = FarAway(0)
    times = server.write_times
    begun = time.time_ns() // 1000
    with locks(server, "a", ttl=60) as held:
        first, second = times(), times()
        assert begun < first < second <= time.time_ns() // 1000
        times.bound(held, 0)
        bound = time.time_ns() // 1000
        wait_until("time to pass", lambda: time.time_ns() // 1000 > bound + 1000)
        late = [times(), times()]
        assert second < late[0] < late[1] <= bound + 2
    assert times() > bound + 2
