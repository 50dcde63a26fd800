"""The pieces that a run takes up, also from the ledger of another bucket size."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from tidemark.ledger.piece import Piece, PieceRow, Reason, State
from tidemark.ledger.rebucketed import with_other_sizes
from tidemark.ledger.schedule import Schedule, left_for_later, scheduled
from tidemark.partitioning.keys import BucketSize

HOUR = BucketSize.HOUR.milliseconds
DAY = BucketSize.DAY.milliseconds
T0 = datetime(2026, 11, 1)


def entry(
    bucket: int, state: State = State.DONE, *, at: int = 0, version: str = "", attempt: int = 1
) -> PieceRow:
    """Return a row of the ledger that was last touched `at` hours after T0."""
    moment = T0 + timedelta(hours=at)
    error = "2 findings" if state is State.FAILED else None
    return PieceRow(bucket, state, attempt, {}, error, version, moment, touched_at=moment)


def of_hours(
    window: range,
    entries: list[PieceRow],
    *,
    most: int = 100,
    force: bool = False,
    history: Sequence[int] = (),
    changed: Sequence[int] = (),
) -> Schedule:
    return scheduled(
        [hour * HOUR for hour in window],
        entries,
        "",
        bucket_ms=HOUR,
        most=most,
        force=force,
        history=[hour * HOUR for hour in history],
        changed=[hour * HOUR for hour in changed],
    )


def reasons(schedule: Schedule) -> dict[int, Reason]:
    return {piece.time_bucket // HOUR: piece.reason for piece in schedule.pieces}


def test_of_its_window_a_run_takes_what_its_version_has_not_done() -> None:
    late = PieceRow(4 * HOUR, State.PLANNED, 1, reason="late")
    entries = [
        entry(0, version="2"),
        entry(HOUR, version="1"),
        entry(2 * HOUR, version="3"),
        entry(3 * HOUR, State.FAILED, version="2", attempt=3),
        late,
        PieceRow(6 * HOUR, State.DONE, 1),
    ]
    window = [hour * HOUR for hour in range(7)]
    due = [
        Piece(HOUR, Reason.CHANGED, 1),
        Piece(2 * HOUR, Reason.CHANGED, 1),
        Piece(3 * HOUR, Reason.UNFINISHED, 3),
        Piece(4 * HOUR, Reason.LATE, 1),
        Piece(5 * HOUR, Reason.NEW),
        Piece(6 * HOUR, Reason.CHANGED, 1),
    ]
    planned = scheduled(window, entries, "2", bucket_ms=HOUR, most=100)
    assert planned == Schedule(due)
    forced = scheduled(window, entries, "2", bucket_ms=HOUR, most=100, force=True)
    assert forced == Schedule([Piece(0, Reason.FORCED, 1), *due])


@pytest.mark.parametrize(
    ("state", "error", "reason", "why"),
    [
        (State.HELD, "gap: 2 events", None, Reason.GAP),
        (State.HELD, "gap: 2 events", "late", Reason.GAP),
        (State.HELD, "2 findings", None, Reason.UNFINISHED),
        (State.HELD, None, None, Reason.UNFINISHED),
        (State.FAILED, "gap: 2 events", None, Reason.UNFINISHED),
        (State.FAILED, None, "late", Reason.UNFINISHED),
        (State.RUNNING, None, "late", Reason.UNFINISHED),
        (State.PLANNED, None, "late", Reason.LATE),
        (State.PLANNED, None, "new", Reason.UNFINISHED),
        (State.PLANNED, None, None, Reason.UNFINISHED),
        (State.FAILED, None, "other bucket size", Reason.REBUCKETED),
    ],
)
def test_why_an_open_piece_is_due(
    state: State, error: str | None, reason: str | None, why: Reason
) -> None:
    assert PieceRow(0, state, 1, error=error, reason=reason).reason_if_open == why


def test_a_piece_is_done_by_the_version_that_has_done_it() -> None:
    assert entry(0, version="2").is_done("2")
    assert not entry(0, version="2").is_done("1")
    assert not entry(0, version="2").is_done("3")
    assert not entry(0, State.FAILED, version="2").is_done("2")


def test_what_no_run_has_begun_is_missed_from_the_first_entry_on() -> None:
    planned = of_hours(range(6, 8), [entry(2 * HOUR), entry(4 * HOUR, State.FAILED)])
    assert reasons(planned) == {
        3: Reason.MISSED,
        4: Reason.UNFINISHED,
        5: Reason.MISSED,
        6: Reason.NEW,
        7: Reason.NEW,
    }
    assert planned.lines() == ["2 time buckets missed: no run had begun them"]


def test_nothing_is_missed_before_the_first_entry_or_behind_the_window() -> None:
    assert reasons(of_hours(range(6, 7), [])) == {6: Reason.NEW}
    earlier = of_hours(range(2, 3), [])
    assert reasons(earlier) == {2: Reason.NEW}


def test_history_comes_before_the_window_and_is_not_missed() -> None:
    planned = of_hours(range(6, 7), [], history=(2, 4, 5))
    assert reasons(planned) == {
        2: Reason.HISTORY,
        # Nobody knew of it before: it is due as any other that no run has begun.
        3: Reason.MISSED,
        4: Reason.HISTORY,
        5: Reason.HISTORY,
        6: Reason.NEW,
    }
    planned = of_hours(range(6, 7), [], history=(2, 4, 5), most=2)
    assert reasons(planned) == {2: Reason.HISTORY, 3: Reason.MISSED}
    forced = of_hours(range(6, 7), [], history=(2, 3, 4, 5), most=2, force=True)
    assert sorted(reasons(forced)) == [2, 3, 6]


def test_the_oldest_come_first_and_the_rest_is_left() -> None:
    planned = of_hours(range(6, 8), [entry(0)], most=3)
    assert reasons(planned) == {1: Reason.MISSED, 2: Reason.MISSED, 3: Reason.MISSED}
    assert [piece.time_bucket // HOUR for piece in planned.postponed] == [4, 5, 6, 7]
    assert planned.lines()[1] == (
        "4 time buckets more left for the next run: one takes up TIDEMARK_CATCH_UP_BUCKETS at most"
    )


def test_force_does_its_window_whatever_is_owed() -> None:
    planned = of_hours(range(6, 8), [entry(0)], most=2, force=True)
    assert sorted(reasons(planned)) == [1, 2, 6, 7]


def test_a_run_tells_people_and_programs_what_it_has_left() -> None:
    planned = of_hours(range(6, 8), [entry(0)], most=3)
    waiting = [Piece(hour * HOUR, Reason.NEW) for hour in (8, 9)]
    assert planned.details(waiting) == {"missed": 3, "postponed": 4, "left_for_later": 2}
    assert planned.details() == {"missed": 3, "postponed": 4, "left_for_later": 0}
    assert left_for_later(waiting, "no events") == [
        "2 time buckets from 1970-01-01T08:00:00Z on left for later: no events"
    ]
    assert left_for_later([], "no events") == []


def test_what_fails_again_and_again_keeps_no_run_from_what_is_new() -> None:
    failing = [entry(hour * HOUR, State.FAILED, attempt=7) for hour in range(5)]
    planned = of_hours(range(5, 7), failing, most=3)
    assert sorted(reasons(planned)) == [0, 5, 6]


def test_a_hundred_thousand_entries_are_planned() -> None:
    """With a loop over the window's buckets for each entry, ten years took a minute."""
    many = 100_000
    entries = [entry(hour * HOUR, State.FAILED) for hour in range(many)]
    planned = of_hours(range(many, 2 * many), entries, most=3 * many)
    assert len(planned.pieces) == 2 * many


def hours_done(*hours: int, at: int = 0) -> list[PieceRow]:
    return [entry(hour * HOUR, at=at) for hour in hours]


def days_by_hours(
    own: list[PieceRow], hours: list[PieceRow]
) -> dict[int, tuple[State, str | None]]:
    pieces = with_other_sizes(own, {BucketSize.HOUR: hours}, BucketSize.DAY)
    return {piece.time_bucket // DAY: (piece.state, piece.reason) for piece in pieces}


def test_a_day_of_hours_that_are_done_is_done() -> None:
    assert days_by_hours([], hours_done(*range(24))) == {0: (State.DONE, None)}


def test_a_day_of_which_one_hour_is_done_or_one_failed_is_not() -> None:
    rebucketed = {0: (State.FAILED, Reason.REBUCKETED)}
    assert days_by_hours([], hours_done(0)) == rebucketed
    failed = [entry(5 * HOUR, State.FAILED)]
    assert days_by_hours([], [*hours_done(*range(5), *range(6, 24)), *failed]) == rebucketed


def test_hours_of_a_day_that_failed_are_all_to_do() -> None:
    pieces = with_other_sizes(
        [], {BucketSize.DAY: [entry(0, State.FAILED), entry(DAY)]}, BucketSize.HOUR
    )
    assert [(piece.state, piece.reason) for piece in pieces] == [
        *[(State.FAILED, Reason.REBUCKETED)] * 24,
        *[(State.DONE, None)] * 24,
    ]


def test_what_was_done_under_the_present_size_settles_what_was_open_before() -> None:
    failed = [entry(5 * HOUR, State.FAILED, at=1)]
    assert days_by_hours([entry(0, at=2)], failed) == {0: (State.DONE, None)}


def test_there_and_back_what_was_opened_meanwhile_is_not_done() -> None:
    failed = [entry(5 * HOUR, State.FAILED, at=2)]
    assert days_by_hours([entry(0, at=1)], failed) == {0: (State.FAILED, Reason.REBUCKETED)}


def test_of_two_other_sizes_the_last_one_counts() -> None:
    others = {
        BucketSize.HOUR: [entry(0, State.FAILED, at=1)],
        BucketSize.DAY: [entry(0, State.DONE, at=2)],
    }
    pieces = with_other_sizes([], others, BucketSize.MINUTE)
    assert {piece.state for piece in pieces} == {State.DONE}
    assert len(pieces) == 24 * 60


def test_hours_done_by_several_versions_are_done_by_none() -> None:
    old = [entry(hour * HOUR, version="1") for hour in range(12)]
    new = [entry(hour * HOUR, version="2") for hour in range(12, 24)]
    [day] = with_other_sizes([], {BucketSize.HOUR: [*old, *new]}, BucketSize.DAY)
    assert not day.is_done("1")
    assert not day.is_done("2")
    [day] = with_other_sizes([], {BucketSize.HOUR: hours_done(*range(24))}, BucketSize.DAY)
    assert day.is_done("")


def test_days_between_the_old_ledger_and_the_first_window_of_the_new_size_are_missed() -> None:
    pieces = with_other_sizes([], {BucketSize.HOUR: hours_done(*range(30))}, BucketSize.DAY)
    planned = scheduled([4 * DAY], pieces, "", bucket_ms=DAY, most=100)
    assert planned.pieces == [
        Piece(DAY, Reason.REBUCKETED),
        Piece(2 * DAY, Reason.MISSED),
        Piece(3 * DAY, Reason.MISSED),
        Piece(4 * DAY, Reason.NEW),
    ]


def test_what_another_version_has_done_is_done_again_behind_what_no_run_has_begun() -> None:
    entries = [entry(hour * HOUR) for hour in range(4)]
    planned = of_hours(range(4, 6), entries, changed=(0, 1, 2), most=4)
    assert reasons(planned) == {
        0: Reason.CHANGED,
        1: Reason.CHANGED,
        4: Reason.NEW,
        5: Reason.NEW,
    }
    assert planned.postponed == [Piece(2 * HOUR, Reason.CHANGED, 1)]
