"""The strategy of tag-write, and the time buckets that it leaves to live readers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tidemark.ledger.piece import Piece, Reason
from tidemark.partitioning.keys import BucketSize
from tidemark.tag_write.plan import Journal, Strategy, choose, in_reach, indexed_ranges
from tidemark.window import to_millis

KNOWN = Journal(
    known_ids=1000, events=500_000, unread_events=0, all_are_listed=True, has_index=False
)
NOW = datetime(2024, 3, 1, 12, 30, tzinfo=UTC)


def piece(time_bucket: int = 0, reason: Reason = Reason.NEW) -> Piece:
    return Piece(time_bucket, reason)


@pytest.mark.parametrize(
    ("requested", "changes", "expected"),
    [
        (None, {}, Strategy.TAILS),
        (None, {"known_ids": 0, "events": 0}, Strategy.SCAN),
        (None, {"all_are_listed": False}, Strategy.SCAN),
        (None, {"all_are_listed": False, "has_index": True}, Strategy.INDEX),
        (Strategy.TAILS, {"all_are_listed": False}, Strategy.SCAN),
        (Strategy.TAILS, {"all_are_listed": False, "has_index": True}, Strategy.INDEX),
        (Strategy.SCAN, {"all_are_listed": False, "has_index": True}, Strategy.SCAN),
        (None, {"unread_events": 50_000}, Strategy.TAILS),
        (None, {"unread_events": 50_001}, Strategy.SCAN),
        (None, {"unread_events": 50_001, "has_index": True}, Strategy.SCAN),
        (None, {"events": 20_000, "unread_events": 10_000}, Strategy.TAILS),
        (Strategy.TAILS, {"unread_events": 50_001}, Strategy.TAILS),
        (None, {"events": 19_999}, Strategy.SCAN),
        (None, {"events": 19_999, "has_index": True}, Strategy.INDEX),
        (None, {"has_index": True}, Strategy.TAILS),
        (
            None,
            {"has_index": True, "known_ids": 50_001, "events": 10**7},
            Strategy.INDEX,
        ),
        (Strategy.SCAN, {}, Strategy.SCAN),
        (Strategy.INDEX, {}, Strategy.TAILS),
        (Strategy.INDEX, {"has_index": True}, Strategy.INDEX),
        (Strategy.TAILS, {"known_ids": 0, "events": 0}, Strategy.SCAN),
    ],
)
def test_strategy(
    requested: Strategy | None, changes: dict[str, int | bool], expected: Strategy
) -> None:
    journal = Journal(**{**vars(KNOWN), **changes})
    strategy, why = choose(requested, journal, [piece()])
    assert strategy is expected
    assert why


@pytest.mark.parametrize("reason", [Reason.FORCED, Reason.CHANGED])
def test_pieces_that_are_written_again_are_scanned_for(reason: Reason) -> None:
    pieces = [piece(), piece(reason=reason)]
    assert choose(Strategy.TAILS, KNOWN, pieces)[0] is Strategy.SCAN


@pytest.mark.parametrize("size", list(BucketSize))
@pytest.mark.parametrize("look_back", [0, 1, 2])
def test_the_index_is_read_near_the_pieces_only(size: BucketSize, look_back: int) -> None:
    step = size.milliseconds
    seconds = look_back * step // 1000
    pieces = [piece(100 * step, Reason.NEW), piece(10 * step), piece(11 * step), piece(13 * step)]
    joined = [(10 - look_back, 14)] if look_back else [(10, 12), (13, 14)]
    assert indexed_ranges(pieces, size, seconds) == [
        (first * step, end * step) for first, end in [*joined, (100 - look_back, 101)]
    ]


@pytest.mark.parametrize("size", list(BucketSize))
def test_live_readers_look_back_to_the_previous_bucket(size: BucketSize) -> None:
    step = timedelta(milliseconds=size.milliseconds)
    pieces = [
        piece(to_millis(NOW - back * step) // size.milliseconds * size.milliseconds)
        for back in range(4)
    ]
    assert in_reach(pieces, size, NOW) == pieces[:2]
