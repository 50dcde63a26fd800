"""The grid and what an order touches, by rows and spans alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from tidemark.ledger.frontier.spans import Span
from tidemark.ledger.frontier.state import LedgerState
from tidemark.ledger.piece import PieceRow, State
from tidemark.ledger.reading.pieces import BoundedStanding, LedgerName
from tidemark.partitioning.keys import BucketSize
from tidemark.status.answers import grid
from tidemark.window import Window, from_millis

HOUR = 3_600_000
FIRST = 1_704_067_200_000
DAY = Window(datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC))


def row(hour: int, state: State = State.DONE) -> PieceRow:
    return PieceRow(FIRST + hour * HOUR, state, 1)


def span(first: int, before: int) -> Span:
    return Span(FIRST + first * HOUR, FIRST + before * HOUR, "", 1, FIRST, FIRST)


def columns(limit: int, **hours: Sequence[int]) -> tuple[list[tuple[int, set[str]]], int]:
    """Return the hours of the page with the names of their cells, and the first hour."""
    found = {name: [row(hour) for hour in of_row] for name, of_row in hours.items()}
    items, first = grid._columns(found, HOUR, limit)
    starts = {from_millis(FIRST + hour * HOUR): hour for hour in range(-50, 50)}
    return [(starts[item.bucket], set(item.cells)) for item in items], (first - FIRST) // HOUR


def test_a_page_goes_back_from_the_newest_time_bucket_of_all_rows() -> None:
    assert columns(3, a=[9, 8, 7, 6], b=[8]) == ([(9, {"a"}), (8, {"a", "b"}), (7, {"a"})], 7)


def test_a_page_ends_with_the_oldest_time_bucket_that_was_begun() -> None:
    assert columns(5, a=[9], b=[7], c=[]) == ([(9, {"a"}), (8, set()), (7, {"b"})], 7)
    assert columns(5, a=[], b=[])[0] == []


def touched(read_to: int | None = None) -> grid.Touched:
    rows = [row(-1, State.FAILED), row(0, State.FAILED), row(5), row(23, State.HELD), row(24)]
    standing = LedgerState([span(-9, -1), span(20, 23), span(30, 40)], rows, HOUR)
    bounded = BoundedStanding(standing, None if read_to is None else FIRST + read_to * HOUR)
    return grid.in_window("a", bounded, DAY)


def test_an_order_touches_the_time_buckets_of_its_window_alone() -> None:
    assert touched() == grid.Touched("a", {"done": 4, "failed": 1, "held": 1}, 18, True)


def test_what_was_not_read_is_not_counted_as_never_begun() -> None:
    assert (touched(24).not_begun, touched(24).is_complete) == (18, True)
    assert (touched(23).not_begun, touched(23).is_complete) == (None, False)


def test_rows_have_the_names_that_users_type() -> None:
    journal = LedgerName("tag-write", "pekko", BucketSize.HOUR)
    assert grid.row_name(journal) == "tag-write"
    assert grid.row_name(journal._replace(application="project", subject="pekko/a/b")) == (
        "project/a/b"
    )
