"""The state of a time bucket, rolled up from its parts."""

from __future__ import annotations

from datetime import datetime, timedelta

from tidemark.ledger.piece import Piece, PieceRow, Reason, State
from tidemark.ledger.rollup import PieceRollup
from tidemark.partitioning.keys import SliceRange
from tidemark.project.offset_store import slice_records
from tidemark.project.offset_store.slice_records import SlicePart

VERSION = "2-abc"
PIECE = Piece(7, Reason.NEW, 3)
NOON = datetime(2024, 3, 1, 12)
LOW, HIGH = SliceRange(0, 511), SliceRange(512, 1023)


def part(
    slices: SliceRange,
    state: State = State.DONE,
    *,
    attempt: int = 3,
    version: str = VERSION,
    minutes: int = 0,
) -> SlicePart:
    error = None if state is State.DONE else f"{state} then"
    finished = NOON + timedelta(minutes=minutes)
    return SlicePart(7, slices, attempt, version, state, {"accepted": 2}, error, finished)


def standing(*parts: SlicePart) -> PieceRollup:
    return slice_records.rolled_up_state(PIECE, parts)


def test_a_bucket_is_done_when_all_slices_are() -> None:
    assert standing() == PieceRollup(7, 3, State.PLANNED)
    assert standing(part(LOW)) == PieceRollup(7, 3, State.PLANNED, {"accepted": 2})
    assert standing(part(LOW), part(HIGH)) == PieceRollup(7, 3, State.DONE, {"accepted": 4})


def test_what_is_held_or_failed_shows_until_its_slices_are_done() -> None:
    held = part(HIGH, State.HELD, minutes=1)
    failed = part(SliceRange(0, 31), State.FAILED)
    shown = PieceRollup(7, 3, State.HELD, {"accepted": 4}, "slices 512-1023: held then")
    assert standing(held, failed) == shown
    again = standing(held, failed, part(HIGH, minutes=2))
    assert (again.state, again.error) == (State.FAILED, "slices 0-31: failed then")
    assert again.counts == {"accepted": 4}
    rollup = standing(held, failed, part(HIGH), part(LOW))
    assert rollup == PieceRollup(7, 3, State.DONE, {"accepted": 4})


def test_parts_count_for_one_attempt_and_one_version_until_the_bucket_is_done() -> None:
    parts = [part(LOW), part(HIGH, attempt=2), part(SliceRange(0, 31), version="1-old")]

    def counting(state: State, version: str = VERSION) -> list[SliceRange]:
        entries = {7: PieceRow(7, state, 3, definition_version=version)}
        counted = slice_records.counting(parts, entries, VERSION)
        return slice_records.done(counted).get(7, [])

    assert counting(State.RUNNING) == counting(State.PLANNED) == counting(State.HELD) == [LOW]
    assert counting(State.DONE) == counting(State.RUNNING, "1-old") == []
    assert slice_records.counting(parts, {}, VERSION) == {}
