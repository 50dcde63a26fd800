"""The ledger with its frontier and without old rows, beside one that keeps and reads every row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.faults.seams import Seam
from tests.integration.support import Journal
from tidemark import clock
from tidemark.cassandra.schema import create_own_tables
from tidemark.context import RunContext
from tidemark.errors import CassandraUnavailable, InvalidInput, LockLost
from tidemark.ledger.frontier import partition as partitions
from tidemark.ledger.frontier import retention
from tidemark.ledger.frontier.partition import Partition
from tidemark.ledger.piece import Piece, PieceRow, Reason, State
from tidemark.ledger.pieces import Pieces
from tidemark.ledger.purged import emptied_buckets, purged_buckets
from tidemark.partitioning.keys import BucketSize
from tidemark.purge.own_tables.ledger import plan_ledger
from tidemark.window import Window, from_millis, to_millis

HOUR = 3_600_000
MOST = 10**6
VERSIONS = ("1-a", "2-b")
NOW = datetime(2026, 11, 1, tzinfo=UTC)
ENDS = (State.DONE, State.DONE, State.DONE, State.FAILED, State.HELD)


@pytest.fixture
def ledger(journal: Journal) -> Iterator[Journal]:
    """Return a journal whose ledgers take up every done piece at once."""
    create_own_tables(journal.control, journal.settings())
    with patch.object(partitions, "TAKEN_UP_FROM", 1), patch.object(partitions, "LEFT_OUT", 0):
        yield journal


def pieces(
    journal: Journal,
    subject: str = "",
    version: str = "",
    application: str = "project",
    size: BucketSize = BucketSize.HOUR,
) -> Pieces:
    return Pieces(
        journal.control,
        journal.own_keyspace,
        application,
        f"{journal.keyspace}/{subject}" if subject else journal.keyspace,
        size,
        version,
    )


def window(first: int, end: int) -> Window:
    return Window(from_millis(first * HOUR), from_millis(end * HOUR))


def do(ledger: Pieces, first: int, end: int, *, force: bool = False) -> None:
    """Do the pieces of some hours."""
    planned = ledger.plan(range(first * HOUR, end * HOUR, HOUR), force=force)
    ledger.finish(
        ledger.start(planned, owner="o", run_id="r"),
        State.DONE,
        owner="o",
        counts={piece.time_bucket: {"rows": 1} for piece in planned},
    )


def purge(journal: Journal, before: datetime | None = None) -> int:
    """Delete what rows of the ledger may go, and return their number."""
    ended_before = to_millis(before or clock.now()) + 1
    found = retention.old_rows(journal.control, journal.settings(), ended_before)
    for rows in found:
        if rows.ranges:
            rows.delete()
    return sum(rows.rows for rows in found)


def rows_of(journal: Journal, subject: str) -> dict[int, dict[str, Any]]:
    return {
        row["time_bucket"] // HOUR: row
        for row in journal.own_rows("piece")
        if row["subject"].endswith(f"/{subject}") and row["time_bucket"] is not None
    }


class Both:
    """Two ledgers to which the same happens; only the second has a frontier, and loses rows."""

    def __init__(self, journal: Journal, number: int) -> None:
        self.journal, self.number = journal, number
        self.zombies: list[tuple[list[Piece], list[Piece], str]] = []

    def of(self, version: str) -> tuple[Pieces, Pieces]:
        whole = pieces(self.journal, f"whole{self.number}", version)
        whole._partition.advance = lambda: None  # type: ignore[method-assign]
        return whole, pieces(self.journal, f"short{self.number}", version)

    def plans(
        self, version: str, first: int, end: int, *, force: bool
    ) -> tuple[list[Piece], list[Piece]]:
        known = {row.time_bucket for row in self.of(version)[0].entries()}
        history = {0} - known if first > 0 else set()
        plans = [
            ledger.schedule(
                window(first, end), most=MOST, force=force, since=[HOUR], history=history
            ).pieces
            for ledger in self.of(version)
        ]
        assert _reasons(plans[0]) == _reasons(plans[1])
        return plans[0], plans[1]

    def work(
        self, version: str, first: int, end: int, *, force: bool, state: State | None, crash: bool
    ) -> None:
        """Do a window; with no state the run dies, and may end its pieces later."""
        plans = self.plans(version, first, end, force=force)
        started = [
            ledger.start(plan, owner="o", run_id="r")
            for ledger, plan in zip(self.of(version), plans, strict=True)
        ]
        if state is None:
            self.zombies.append((started[0], started[1], version))
            return
        owner, name = Seam.FRONTIER_ADVANCED.place()
        dies = patch.object(owner, name, side_effect=CassandraUnavailable("gone"))
        for ledger, own in zip(self.of(version), started, strict=True):
            if crash:
                with dies:
                    ledger.finish(own, state, owner="o")
            else:
                ledger.finish(own, state, owner="o")

    def restate(self, version: str, chosen: set[int]) -> None:
        for ledger in self.of(version):
            done = [
                Piece(row.time_bucket, Reason.RESTATED, row.attempt)
                for row in ledger.entries_of(hour * HOUR for hour in chosen)
                if row.state is State.DONE
            ]
            ledger.restate(done, owner="o")

    def note(self, version: str, chosen: set[int]) -> None:
        for ledger in self.of(version):
            ledger.note(Piece(hour * HOUR, Reason.LATE) for hour in sorted(chosen))

    def awake(self, number: int, state: State) -> None:
        """Let a dead run end its pieces after all: both ledgers let it, or none."""
        if not self.zombies:
            return
        whole, short, version = self.zombies.pop(number % len(self.zombies))
        ended = []
        for ledger, own in zip(self.of(version), (whole, short), strict=True):
            with suppress(LockLost):
                ledger.finish(own, state, owner="zombie")
                ended.append(ledger)
        assert len(ended) != 1

    def compare(self) -> None:
        for version in VERSIONS:
            whole, short = self.of(version)
            entries = whole.entries()
            assert [_said(row) for row in entries] == [_said(row) for row in short.entries()]
            done = {row.time_bucket for row in entries if row.is_done(version)}
            assert short.done() == whole.done() == done
            standing = short.standing()
            assert standing.known == {row.time_bucket for row in entries}
            still_open = [row for row in entries if row.state is not State.DONE]
            assert [_said(row) for row in standing.open_rows] == [_said(r) for r in still_open]
        for first, end in ((0, 2), (5, 9), (12, 14)):
            for force in (False, True):
                self.plans(VERSIONS[1], first, end, force=force)


def _reasons(plan: list[Piece]) -> list[tuple[int, Reason]]:
    return [(piece.time_bucket, piece.reason) for piece in plan]


def _said(row: PieceRow) -> tuple[object, ...]:
    return row.time_bucket, row.state, row.definition_version, row.reason_if_open


HOURS = st.integers(0, 11)
SOME = st.sets(HOURS, max_size=4)
WINDOWS = st.tuples(HOURS, st.integers(1, 4)).map(lambda pair: (pair[0], sum(pair)))
STEPS = st.one_of(
    st.tuples(
        st.just("work"),
        st.sampled_from(VERSIONS),
        WINDOWS,
        st.booleans(),
        st.sampled_from([*ENDS, None]),
        st.booleans(),
    ),
    st.tuples(st.just("restate"), st.sampled_from(VERSIONS), SOME),
    st.tuples(st.just("note"), st.sampled_from(VERSIONS), SOME),
    st.tuples(st.just("awake"), st.integers(0, 3), st.sampled_from(ENDS)),
    st.just(("purge",)),
)


@pytest.mark.long
def test_histories_end_as_with_all_rows(ledger: Journal) -> None:
    """Runs, deaths, late ends of dead runs, restatements, new versions and purges in any order."""
    numbers = iter(range(10**6))
    purged: list[int] = []

    @settings(
        max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(st.lists(STEPS, min_size=4, max_size=12))
    @example(
        # What is noted is done already, and its row is gone.
        [
            *[("work", VERSIONS[0], (0, 1), False, State.DONE, False)] * 2,
            ("purge",),
            ("work", VERSIONS[0], (0, 1), False, State.DONE, False),
            ("note", VERSIONS[0], {0}),
        ]
    )
    def histories(steps: list[Any]) -> None:
        both = Both(ledger, next(numbers))
        for number, (kind, *step) in enumerate(steps):
            with patch("tidemark.clock.now", lambda number=number: NOW + timedelta(days=number)):
                if kind == "work":
                    version, (first, end), force, state, crash = step
                    both.work(version, first, end, force=force, state=state, crash=crash)
                elif kind == "purge":
                    purged.append(purge(ledger))
                else:
                    getattr(both, kind)(*step)
        both.compare()

    histories()
    assert sum(purged) > 0


def test_a_piece_whose_row_is_gone_is_begun_with_an_attempt_that_no_run_has(
    ledger: Journal,
) -> None:
    own = pieces(ledger, "gone")
    dead = own.start([Piece(0, Reason.NEW)], owner="dead", run_id="r")
    for _ in range(2):
        do(own, 0, 3, force=True)
    assert purge(ledger) == 3
    assert rows_of(ledger, "gone") == {}
    assert [row.attempt for row in own.entries()] == [3, 3, 3]

    stale = own.plan([0], force=True)
    begun = own.start(own.plan([0], force=True), owner="o", run_id="r")
    assert begun == [Piece(0, Reason.FORCED, 4)]
    for late in (dead, stale):
        with pytest.raises(LockLost, match="another run has taken the piece 1970-01-01 00:00"):
            own.finish(late, State.FAILED, owner="dead")
    with pytest.raises(LockLost):
        own.start(stale, owner="late", run_id="r")
    assert own.entries()[0].state is State.RUNNING
    own.finish(begun, State.DONE, owner="o")
    # In a span again, and its row deleted again: who planned before it was begun is still refused.
    assert purge(ledger) == 1
    with pytest.raises(LockLost):
        own.start(stale, owner="late", run_id="r")


def test_a_row_written_after_the_purge_is_seen(ledger: Journal) -> None:
    """Also a run whose clock is behind: the write time of the deletes is Cassandra's own."""
    own = pieces(ledger, "seen")
    do(own, 0, 4)
    with patch("tidemark.clock.now", lambda: NOW + timedelta(days=3650)):
        assert purge(ledger) == 4
    own.restate([Piece(HOUR, Reason.RESTATED, own.entries()[1].attempt)], owner="o")
    [row] = rows_of(ledger, "seen").values()
    assert (row["time_bucket"], row["state"], row["reason"]) == (HOUR, "planned", "restated")
    assert row["definition_version"] == ""
    assert [piece.reason for piece in own.schedule(window(5, 6), most=MOST).pieces] == [
        Reason.RESTATED,
        Reason.MISSED,
        Reason.NEW,
    ]


@pytest.mark.parametrize("is_begun_first", [True, False])
def test_a_frontier_takes_in_no_piece_that_is_begun_meanwhile(
    ledger: Journal, is_begun_first: bool
) -> None:
    """Two runs of one application at once: one begins a piece again, one advances the frontier."""
    own, other = pieces(ledger, "race"), pieces(ledger, "race")
    with patch.object(partitions, "TAKEN_UP_FROM", 99):
        do(own, 0, 3)
    assert own.standing().spans == []
    again = own.plan([HOUR], force=True)
    if is_begun_first:
        # The rows are read, then the piece is begun, then the spans are written.
        read = Partition._rows

        def then_begin(self: Partition, ranges: Any) -> list[PieceRow]:
            rows = read(self, ranges)
            with patch.object(Partition, "_rows", read):
                other.start(again, owner="other", run_id="r")
            return rows

        with patch.object(Partition, "_rows", then_begin):
            own._partition.advance()
    else:
        # The spans are read, then the frontier advances over the piece, then it is begun.
        frontier = Partition.frontier

        def then_advance(self: Partition) -> partitions.Frontier:
            found = frontier(self)
            with patch.object(Partition, "frontier", frontier):
                own._partition.advance()
            return found

        with patch.object(Partition, "frontier", then_advance):
            other.start(again, owner="other", run_id="r")
    states = {row.time_bucket // HOUR: row.state for row in own.entries()}
    assert states == {0: State.DONE, 1: State.RUNNING, 2: State.DONE}
    assert [row.time_bucket for row in own.standing().open_rows] == [HOUR]


def test_rows_of_pieces_that_are_begun_during_a_purge_stay(ledger: Journal) -> None:
    own = pieces(ledger, "during")
    do(own, 0, 4)
    [found] = retention.old_rows(ledger.control, ledger.settings(), 2**62)
    assert (found.rows, found.ranges) == (4, [(0, 4 * HOUR)])
    own.start(own.plan([HOUR], force=True), owner="o", run_id="r")
    frontier = Partition.frontier

    def then_begin(self: Partition) -> partitions.Frontier:
        read = frontier(self)
        with patch.object(Partition, "frontier", frontier):
            # Once: the second look finds it gone from the spans.
            if own.entries()[2].state is State.DONE:
                own.start(own.plan([2 * HOUR], force=True)[-1:], owner="o", run_id="r")
        return read

    with patch.object(Partition, "frontier", then_begin):
        assert found.delete() == 2
    assert {hour: row["state"] for hour, row in rows_of(ledger, "during").items()} == {
        1: "running",
        2: "running",
    }
    assert [row.state for row in own.entries()] == [
        State.DONE,
        State.RUNNING,
        State.RUNNING,
        State.DONE,
    ]


def test_what_purge_emptied_is_known_without_the_rows(ledger: Journal) -> None:
    """Also what tag-write has written again since; rows stay where the spans do not say it."""
    run = ledger.settings().model_copy(update={"bucket_size": BucketSize.HOUR})
    written = pieces(ledger, application="tag-write")
    purges = pieces(ledger, application="purge")
    day = timedelta(days=1)
    for number, (own, first, end) in enumerate(
        [(written, 0, 8), (purges, 0, 4), (written, 1, 2), (purges, 4, 6)]
    ):
        with patch("tidemark.clock.now", lambda number=number: NOW + 10 * number * day):
            do(own, first, end, force=True)

    def known() -> tuple[set[int], set[int]]:
        found = purged_buckets(ledger.control, run), emptied_buckets(ledger.control, run)
        return {bucket // HOUR for bucket in found[0]}, {bucket // HOUR for bucket in found[1]}

    assert known() == ({0, 1, 2, 3, 4, 5}, {0, 2, 3, 4, 5})
    with patch("tidemark.clock.now", lambda: NOW + 60 * day):
        assert purge(ledger) == 14
        assert {row["time_bucket"] for row in ledger.own_rows("piece")} == {None}
        assert known() == ({0, 1, 2, 3, 4, 5}, {0, 2, 3, 4, 5})
        # Written again and taken into a span: its neighbours do not count as written again.
        do(written, 4, 5, force=True)
        assert known() == ({0, 1, 2, 3, 4, 5}, {0, 2, 3, 5})
    # Written and purged within the same days, bucket by bucket: only the rows can say it.
    for hour in range(10, 13):
        with patch("tidemark.clock.now", lambda hour=hour: NOW + 70 * day + hour * day / 24):
            do(written, hour, hour + 1)
            do(purges, hour, hour + 1)
    with patch("tidemark.clock.now", lambda: NOW + 90 * day):
        assert purge(ledger) == 1
        assert known() == ({0, 1, 2, 3, 4, 5, 10, 11, 12}, {0, 2, 3, 5, 10, 11, 12})


def test_pieces_of_another_bucket_size_are_read_one_by_one_and_stay(ledger: Journal) -> None:
    by_minute = pieces(ledger, "sizes", size=BucketSize.MINUTE)
    planned = by_minute.schedule(window(0, 2), most=MOST).pieces
    by_minute.finish(by_minute.start(planned, owner="o", run_id="r"), State.DONE, owner="o")
    assert len(by_minute.standing().spans) == 1
    by_hour = pieces(ledger, "sizes")
    assert {row.time_bucket: row.state for row in by_hour.standing().rows} == {
        0: State.DONE,
        HOUR: State.DONE,
    }
    do(by_hour, 2, 3)
    assert by_hour.done() == {0, HOUR, 2 * HOUR}
    assert purge(ledger) == 0
    by_hour.forget()
    assert not by_hour.standing()
    assert not by_minute.standing()


def test_policy_says_what_goes_and_makes_range_deletes(
    ledger: Journal,
) -> None:
    own = pieces(ledger, "policy")
    with patch("tidemark.clock.now", lambda: NOW):
        do(own, 0, 6)
        failed = own.start(own.plan([2 * HOUR], force=True)[-1:], owner="o", run_id="r")
        own.finish(failed, State.FAILED, owner="o")
    run = RunContext("purge", ledger.settings(), ledger.control, "1")
    with pytest.raises(InvalidInput, match="cannot go after 0 days"):
        plan_ledger(run, 0)
    with patch("tidemark.clock.now", lambda: NOW + timedelta(days=2)):
        run.moment = NOW + timedelta(days=2)
        assert plan_ledger(run, 3).apply is None
        plan = plan_ledger(run, 1)
        assert plan.counts == {"ledger_rows_deleted": 5}
        assert plan.tombstones.counts() == {
            "partitions_deleted": 0,
            "ranges_deleted": 2,
            "rows_deleted": 0,
        }
        [line] = plan.lines
        assert line.endswith("Hour: 5 rows of done pieces go, in 2 ranges")
        assert plan.digest == plan_ledger(run, 1).digest
        assert plan.apply is not None
        checked: list[int] = []
        assert plan.apply(lambda: checked.append(1)) == {
            "ledger_rows_deleted": 5,
            "ranges_deleted": 2,
        }
        assert checked == [1]
        assert rows_of(ledger, "policy").keys() == {2}
        again = plan_ledger(run, 1)
        assert (again.counts["ledger_rows_deleted"], again.apply) == (0, None)
        assert again.digest != plan.digest
