"""Where topic partitions go on, and what a batch takes of each."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark import clock
from tidemark.replication.fold import Batch
from tidemark.replication.kafka.topics import Offsets, TopicPartition
from tidemark.replication.plan import Position, cut, write_time_base
from tidemark.replication.ranges import Entry, Range

ONE = TopicPartition("journal", 3)
BATCH = Batch(datetime(2024, 3, 1, tzinfo=UTC), "UTC", 10)


def position(
    pointer: int | None, first: int, end: int, begun: tuple[int, int] | None = None
) -> Position:
    newest = None if begun is None else Entry(Range(ONE, 1, *begun, BATCH, 0, 1), False)
    return Position(ONE, pointer, Offsets(first, end), newest)


@pytest.mark.parametrize(
    ("pointer", "first", "end", "then", "behind"),
    [(None, 0, 0, 0, 0), (None, 7, 9, 7, 2), (8, 0, 9, 9, 0), (4, 5, 9, 5, 4)],
)
def test_a_partition_goes_on_behind_its_pointer_or_where_kafka_begins(
    pointer: int | None, first: int, end: int, then: int, behind: int
) -> None:
    found = position(pointer, first, end)
    assert (found.next, found.behind, found.problem()) == (then, behind, None)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (position(4, 6, 9), "offsets 5 to 5 were not replicated"),
        (position(9, 0, 9), "the topic ends before offset 9"),
        (position(6, 0, 9, (5, 9)), "another replicator has written it"),
    ],
)
def test_what_does_not_go_on_is_refused_with_the_offsets(found: Position, text: str) -> None:
    problem = found.problem()
    assert problem is not None
    assert text in str(problem)
    assert "(journal/3)" in str(problem)


def test_without_a_pointer_a_partition_begins_anew_whatever_was_begun() -> None:
    found = position(None, 0, 9, (5, 9))
    assert (found.problem(), found.next) == (None, 0)


@pytest.mark.parametrize("pointer", [4, 8])
def test_a_range_that_was_begun_is_done_again_or_only_lacks_its_end(pointer: int) -> None:
    assert position(pointer, 0, 9, (5, 9)).problem() is None


def test_write_times_are_behind_all_that_was_written_wherever_offsets_begin_anew() -> None:
    ahead = clock.now_micros() + 60_000_000
    last = Range(ONE, 1, 500, 600, BATCH, ahead, 1)
    for first in (0, 550, 600):
        assert write_time_base(first, last.last_write_time, None) + first > ahead + 599
        assert write_time_base(first, None, ahead) + first > ahead
    assert write_time_base(7, None, None) + 7 < ahead


@given(
    behind=st.dictionaries(st.integers(0, 9), st.integers(0, 50), max_size=8),
    most=st.integers(1, 60),
)
def test_batches_reach_every_end_and_are_no_larger_than_they_may_be(
    behind: dict[int, int], most: int
) -> None:
    starts = {TopicPartition("t", number): 5 for number in behind}
    ends = {TopicPartition("t", number): 5 + count for number, count in behind.items()}
    while spans := cut(starts, ends, most):
        taken = sum(end - first for first, end in spans.values())
        # Each partition that is behind moves on, however small a batch is.
        assert set(spans) == {one for one in ends if ends[one] > starts[one]}
        assert all(end > first == starts[one] for one, (first, end) in spans.items())
        assert taken <= max(most, len(spans))
        assert taken == min(most, sum(ends[one] - starts[one] for one in spans)) or taken == len(
            spans
        )
        starts |= {one: end for one, (_, end) in spans.items()}
    assert starts == ends
