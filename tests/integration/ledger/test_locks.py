"""Locks and fencing in a real Cassandra, with two runs, of which one is dead, late or robbed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, Self

import pytest
from cassandra import ConsistencyLevel
from cassandra.connection import ConnectionShutdown
from cassandra.policies import RetryPolicy

from tests.integration.proxies import far_from
from tests.integration.support import Journal, wait_until
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import create_own_tables
from tidemark.context import RunContext
from tidemark.errors import InvalidInput, LockHeld, LockLost
from tidemark.ledger.claim import claim
from tidemark.ledger.locks import Locks
from tidemark.ledger.piece import Piece, Reason, State
from tidemark.ledger.pieces import Pieces
from tidemark.partitioning.keys import BucketSize

DAY = 86_400_000
HOUR = 3_600_000


@pytest.fixture
def ledger(journal: Journal) -> Journal:
    create_own_tables(journal.control, journal.settings())
    return journal


def locks(journal: Journal, owner: str, *resources: str, ttl: int = 60) -> Locks:
    return Locks(journal.control, journal.own_keyspace, resources, owner=owner, run_id="r", ttl=ttl)


def pieces(journal: Journal) -> Pieces:
    return Pieces(
        journal.control, journal.own_keyspace, "tag-write", journal.keyspace, BucketSize.HOUR
    )


def test_a_machine_whose_clock_is_off_takes_no_lock(
    ledger: Journal, shift_clock: Callable[[float], None]
) -> None:
    shift_clock(20)
    refused = r"the clock of 127.0.0.1:\d+ is 20 s behind this machine's: locks of 60 s bear 15 s"
    with pytest.raises(InvalidInput, match=refused), locks(ledger, "me", "a"):
        pass
    assert ledger.own_rows("lock") == []


class Requests:
    """The requests that the driver sends: their consistency levels, and how many at once."""

    def __init__(self, control: Control) -> None:
        self.levels: list[int] = []
        self.in_flight = self.most = 0
        self.futures: list[Any] = []
        self._session: Any = control._session

    def __enter__(self) -> Self:
        self._session.add_request_init_listener(self._sent)
        return self

    def __exit__(self, *_: object) -> None:
        self._session.remove_request_init_listener(self._sent)

    def _sent(self, future: Any) -> None:
        self.futures.append(future)
        self.levels.append(future.message.consistency_level)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        future.add_callbacks(self._answered, self._answered)

    def _answered(self, _: object) -> None:
        self.in_flight -= 1


def test_locks_are_seen_from_every_data_centre(ledger: Journal) -> None:
    """With LOCAL_QUORUM two runs in two data centres would both find nobody else."""
    local = ledger.settings().model_copy(update={"cassandra_consistency": "LOCAL_QUORUM"})
    with Control(local) as control, Requests(control) as sent:
        with Locks(control, ledger.own_keyspace, ["a"], owner="o", run_id="r", ttl=60):
            assert control.execute(f"SELECT owner FROM {ledger.own_keyspace}.lock") != []
        _clocks, *of_locks, plain, release = sent.levels
    assert plain == ConsistencyLevel.LOCAL_QUORUM
    assert {*of_locks, release} == {ConsistencyLevel.QUORUM}
    assert len(of_locks) == 2


def test_a_year_of_pieces_is_started_one_transaction_after_the_other(ledger: Journal) -> None:
    """All pieces share a partition: at once they contend until the server gives up after 1.8 s."""
    with Requests(ledger.control) as sent:
        started = pieces(ledger).start(
            [Piece(n * HOUR, Reason.NEW) for n in range(8760)], owner="o", run_id="1"
        )
        assert (len(started), sent.most) == (8760, 1)
        pieces(ledger).note(Piece(n * HOUR, Reason.LATE) for n in range(8700, 8800))
    assert sent.most == 1
    assert len(pieces(ledger).entries()) == 8800


@pytest.mark.long
def test_the_locks_of_a_year_are_renewed_in_time_at_60_ms_a_round_trip(ledger: Journal) -> None:
    """Taking them one after the other takes longer than they live."""
    days = [f"tag_views/{n:03}" for n in range(365)]
    settings = ledger.settings()
    [target] = settings.contact_points
    with (
        far_from(target, 0.06) as (host, port),
        Control(settings.model_copy(update={"cassandra_hosts": f"{host}:{port}"})) as distant,
    ):
        begun = time.monotonic()
        distant.execute("SELECT release_version FROM system.local")
        assert time.monotonic() - begun >= 0.06
        keyspace = ledger.own_keyspace
        with Locks(distant, keyspace, days, owner="me", run_id="r", ttl=20) as held:
            taken = time.monotonic()

            def has_outlived_its_locks() -> bool:
                held.check()
                return time.monotonic() - taken > 25

            wait_until("the locks to be older than they live", has_outlived_its_locks)
            assert len(ledger.own_rows("lock")) == 365
    assert ledger.own_rows("lock") == []


def is_read(request: Any) -> bool:
    statement = request.query
    prepared = getattr(statement, "prepared_statement", statement)
    return getattr(prepared, "query_string", "").startswith("SELECT")


def test_a_transaction_is_not_sent_again_when_its_connection_breaks(ledger: Journal) -> None:
    """The transaction may be done, and would then be refused because of its own row."""
    with Requests(ledger.control) as sent:
        pieces(ledger).start([Piece(0, Reason.NEW)], owner="o", run_id="1")
    lost = ConnectionShutdown("broken")

    def decisions(*, of_reads: bool) -> set[int]:
        futures = [f for f in sent.futures if of_reads == is_read(f)]
        return {
            int(f._retry_policy.on_request_error(f.query, None, error=lost, retry_num=0)[0])
            for f in futures
        }

    assert decisions(of_reads=False) == {RetryPolicy.RETHROW}
    assert decisions(of_reads=True) == {RetryPolicy.RETRY_NEXT_HOST}


def test_lock_is_held_by_one_and_given_back(ledger: Journal) -> None:
    with locks(ledger, "first", "a", "b"):
        with pytest.raises(LockHeld, match="b is held by first since "), locks(ledger, "x", "b"):
            pass
        with locks(ledger, "other", "c"):
            pass
    with locks(ledger, "second", "a", "b"):
        pass
    assert ledger.own_rows("lock") == []


def test_all_locks_are_taken_or_none(ledger: Journal) -> None:
    with locks(ledger, "first", "b"):
        with pytest.raises(LockHeld), locks(ledger, "second", "a", "b"):
            pass
        assert {row["resource"] for row in ledger.own_rows("lock")} == {"b"}


def test_lock_outlives_its_ttl_while_its_owner_works(ledger: Journal) -> None:
    """A thread renews the lock, so that its remaining time goes up again."""
    remaining = f"SELECT TTL(owner) AS left FROM {ledger.own_keyspace}.lock WHERE resource = 'a'"

    def left() -> int:
        return int(ledger.control.execute(remaining)[0]["left"])

    with locks(ledger, "owner", "a", ttl=8) as held:
        wait_until("the TTL to run down", lambda: left() <= 6)
        wait_until("the TTL to be renewed", lambda: left() > 6)
        held.check()


def test_run_that_lost_its_lock_may_not_write(ledger: Journal) -> None:
    lost = []
    with Locks(
        ledger.control,
        ledger.own_keyspace,
        ["a"],
        owner="robbed",
        run_id="r",
        ttl=5,
        on_lost=lambda: lost.append(True),
    ) as held:
        ledger.control.execute(
            f"UPDATE {ledger.own_keyspace}.lock SET owner = 'thief' WHERE resource = 'a'"
        )
        wait_until("the loss to be noticed", lambda: bool(lost))
        with pytest.raises(LockLost, match="lost the lock of a to thief"):
            held.check()
    assert [row["owner"] for row in ledger.own_rows("lock")] == ["thief"]


def test_only_the_last_attempt_can_end_a_piece(ledger: Journal) -> None:
    """The attempt is the fencing number: a run thought dead cannot overwrite its successor."""
    planned = pieces(ledger).plan([0])
    assert planned == [Piece(0, Reason.NEW, 0)]
    first = pieces(ledger).start(planned, owner="first", run_id="1")
    heir = pieces(ledger).plan([0])
    assert heir == [Piece(0, Reason.UNFINISHED, 1)]
    second = pieces(ledger).start(heir, owner="second", run_id="2")
    with pytest.raises(LockLost):
        pieces(ledger).finish(first, State.DONE, owner="first")
    pieces(ledger).finish(second, State.DONE, owner="second", counts={0: {"rows": 3}})
    [entry] = pieces(ledger).entries()
    assert (entry.state, entry.attempt, entry.counts) == (State.DONE, 2, {"rows": 3})


def test_hundreds_of_pieces_are_written_together_but_for_those_that_others_took(
    ledger: Journal,
) -> None:
    """A year of Hour buckets costs a hundredth of the transactions; each tells its lost pieces."""
    counts = {n * HOUR: {f"count_{i}": n for i in range(20)} for n in range(250)}
    started = pieces(ledger).start(
        [Piece(n * HOUR, Reason.NEW) for n in range(250)], owner="first", run_id="1"
    )
    [heirs] = pieces(ledger).start(started[130:131], owner="second", run_id="2")
    with pytest.raises(LockLost, match=re.escape("the piece 1970-01-06 10:00:00")):
        pieces(ledger).finish(started, State.DONE, owner="first", counts=counts)
    states = {entry.time_bucket // HOUR: entry.state for entry in pieces(ledger).entries()}
    assert [n for n in range(250) if states[n] is State.RUNNING] == list(range(100, 200))
    others = [*started[:130], heirs, *started[131:]]
    pieces(ledger).finish(others, State.DONE, owner="second", error="e" * 5000, counts=counts)
    entries = pieces(ledger).entries()
    assert {entry.state for entry in entries} == {State.DONE}
    assert [entry.counts["count_7"] for entry in entries] == list(range(250))


def test_pieces_noted_again_stay_as_they_are_and_the_new_ones_are_added(ledger: Journal) -> None:
    [first] = pieces(ledger).start([Piece(0, Reason.NEW)], owner="first", run_id="1")
    pieces(ledger).note(Piece(n * HOUR, Reason.LATE) for n in range(3))
    assert [(entry.state, entry.reason, entry.attempt) for entry in pieces(ledger).entries()] == [
        (State.RUNNING, Reason.NEW, first.attempt),
        (State.PLANNED, Reason.LATE, 0),
        (State.PLANNED, Reason.LATE, 0),
    ]


def test_a_piece_whose_row_is_gone_is_not_started(ledger: Journal) -> None:
    with pytest.raises(LockLost, match="another run has taken the piece 1970-01-01"):
        pieces(ledger).start([Piece(0, Reason.UNFINISHED, 3)], owner="first", run_id="1")
    assert pieces(ledger).entries() == []
    started = pieces(ledger).start([Piece(HOUR, Reason.NEW)], owner="first", run_id="1")
    with pytest.raises(LockLost, match="another run has taken the piece 1970-01-01 00:00:00"):
        pieces(ledger).start([Piece(0, Reason.UNFINISHED), *started], owner="first", run_id="1")


def test_failed_piece_says_why_and_is_planned_again(ledger: Journal) -> None:
    planned = pieces(ledger).plan([0, DAY])
    with (
        pytest.raises(RuntimeError),
        claim(
            RunContext("test", ledger.settings(), ledger.control, "1"),
            pieces(ledger),
            planned,
            resource="r",
        ),
    ):
        raise RuntimeError("disk on fire")
    assert [(entry.state, entry.error) for entry in pieces(ledger).entries()] == [
        (State.FAILED, "RuntimeError: disk on fire")
    ] * 2
    assert ledger.own_rows("lock") == []
    later = pieces(ledger).plan([2 * DAY])
    assert [(piece.time_bucket, piece.reason) for piece in later] == [
        (0, Reason.UNFINISHED),
        (DAY, Reason.UNFINISHED),
        (2 * DAY, Reason.NEW),
    ]
    assert pieces(ledger).plan([]) == []
