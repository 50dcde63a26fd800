"""Where topic partitions go on, and what a batch takes of each."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark import clock
from tidemark.replicate.folding import ActionBatch
from tidemark.replicate.kafka.topics import Offsets, TopicPartition
from tidemark.replicate.plan import PartitionPosition, Reached, cut, write_time_base
from tidemark.replicate.progress.pointers import after
from tidemark.replicate.ranges import NO_POINTER, Entry, Range, RangeState

ONE = TopicPartition("journal", 3)
BATCH = ActionBatch(datetime(2024, 3, 1, tzinfo=UTC), "UTC", 10)


def ranged(first: int, end: int, before: int | None = None, after: int | None = None) -> Range:
    pointers = (first - 1 if before is None else before, end - 1 if after is None else after)
    return Range(ONE, 1, first, end, BATCH, 0, *pointers, 1)


def position(
    pointer: int | None, first: int, end: int, begun: tuple[int, int] | None = None
) -> PartitionPosition:
    newest = None if begun is None else Entry(ranged(*begun), RangeState.RUNNING)
    known = NO_POINTER if pointer is None else pointer
    return PartitionPosition(ONE, Reached(known, newest), Offsets(first, end, end))


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
        (position(4, 6, 9, (5, 9)), "offsets 5 to 5 were not replicated"),
    ],
)
def test_what_does_not_go_on_is_refused_with_the_offsets(
    found: PartitionPosition, text: str
) -> None:
    problem = found.problem()
    assert problem is not None
    assert text in str(problem)
    assert "(journal/3)" in str(problem)


def test_without_a_pointer_a_partition_begins_anew_whatever_was_begun() -> None:
    found = position(None, 0, 9, (5, 9))
    assert (found.problem(), found.next) == (None, 0)
    assert found.reached.superseded == ranged(5, 9)


@pytest.mark.parametrize(
    ("pointer", "next_", "kind"),
    [(4, 5, "begun"), (8, 9, "unrecorded"), (6, 7, "superseded"), (3, 4, "superseded")],
)
def test_what_becomes_of_an_unfinished_range_follows_from_the_pointer(
    pointer: int, next_: int, kind: str
) -> None:
    found = position(pointer, 0, 9, (5, 9))
    assert (found.problem(), found.next) == (None, next_)
    kinds = {name: getattr(found.reached, name) for name in ("begun", "unrecorded", "superseded")}
    assert {name for name, value in kinds.items() if value} == {kind}


@pytest.mark.parametrize(
    ("state", "pointer", "next_"),
    [
        (RangeState.DONE, 2, 9),
        (RangeState.DONE, 3, 4),
        (RangeState.RUNNING, 2, 5),
        (RangeState.SUPERSEDED, 2, 3),
    ],
)
def test_a_pointer_below_what_is_held_is_no_reason_to_read_again(
    state: RangeState, pointer: int, next_: int
) -> None:
    entry = Entry(ranged(5, 9, 2, 2), state)
    assert Reached(pointer, entry).next == next_


def test_where_the_first_record_is_held_all_is_read_again() -> None:
    entry = Entry(ranged(0, 9, NO_POINTER, NO_POINTER), RangeState.DONE)
    found = Reached(NO_POINTER, entry)
    assert (found.next, found.end, found.was_emptied) == (None, 9, False)
    assert Reached(NO_POINTER, Entry(ranged(0, 9), RangeState.DONE)).was_emptied


@pytest.mark.parametrize(
    ("before", "state", "was_emptied"),
    [
        (NO_POINTER, RangeState.RUNNING, False),
        (NO_POINTER, RangeState.SUPERSEDED, False),
        (4, RangeState.RUNNING, True),
        (NO_POINTER, RangeState.DONE, True),
    ],
)
def test_a_keyspace_was_emptied_if_a_pointer_was_there(
    before: int, state: RangeState, was_emptied: bool
) -> None:
    """What a run holds that dies before its first pointer stays held."""
    assert Reached(NO_POINTER, Entry(ranged(5, 9, before), state)).was_emptied is was_emptied


def test_a_pointer_that_a_dead_run_has_not_raised_yet_is_its_own() -> None:
    being_raised = replace(ranged(5, 9, 2, 8), raised_from=3)
    for pointer in (3, 8):
        assert Reached(pointer, Entry(being_raised, RangeState.DONE)).next == 9
    assert Reached(2, Entry(being_raised, RangeState.DONE)).next == 3


def test_what_open_transactions_keep_back_is_no_other_topic() -> None:
    found = PartitionPosition(ONE, Reached(19, None), Offsets(0, 15, 20))
    assert (found.problem(), found.behind, found.is_open) == (None, 0, True)
    begun = Reached(4, Entry(ranged(5, 9), RangeState.RUNNING))
    assert PartitionPosition(ONE, begun, Offsets(0, 7, 9)).problem() is None
    assert PartitionPosition(ONE, begun, Offsets(0, 7, 7)).problem() is not None


@pytest.mark.parametrize(
    ("known", "end", "lowest", "then"),
    [(4, 9, None, 8), (4, 9, 7, 6), (4, 9, 2, 4), (-1, 9, 0, -1), (4, 9, 20, 8)],
)
def test_the_pointer_stays_below_what_is_held_and_never_goes_back(
    known: int, end: int, lowest: int | None, then: int
) -> None:
    assert after(known, end, lowest) == then


def test_write_times_are_behind_all_that_was_written_wherever_offsets_begin_anew() -> None:
    ahead = clock.now_micros() + 60_000_000
    last = Range(ONE, 1, 500, 600, BATCH, ahead, 499, 599, 1)
    for first in (0, 550, 600):
        assert write_time_base(first, last.last_write_time) + first > ahead + 599
        assert write_time_base(first, ahead) + first > ahead
    assert write_time_base(7) + 7 < ahead


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


@given(
    st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=12).map(sorted), max_size=4),
    st.integers(1, 12),
    st.sets(st.integers(0, 3)),
)
def test_no_partition_begins_before_all_that_is_older_in_the_others(
    times: list[list[int]], most: int, begun: set[int]
) -> None:
    partitions = [TopicPartition("journal", number) for number in range(len(times))]
    starts = {one: int(one.partition in begun) for one in partitions}
    ends = {one: len(times[one.partition]) for one in partitions}
    older = {
        one: {
            other: sum(at < times[one.partition][0] for at in times[other.partition])
            for other in partitions
            if other != one
        }
        for one in partitions
        if one.partition not in begun
    }
    while spans := cut(starts, ends, most, older):
        assert all(end > first for first, end in spans.values())
        starts |= {one: end for one, (_, end) in spans.items()}
        for one in spans.keys() & older.keys():
            assert all(starts[other] >= end for other, end in older[one].items())
    assert starts == ends
    # One that cannot go on holds up no other.
    starts = dict.fromkeys(partitions, 0)
    for stopped in partitions[:1]:
        del ends[stopped]
    while spans := cut(starts, ends, most, older):
        starts |= {one: end for one, (_, end) in spans.items()}
    assert all(starts[one] == end for one, end in ends.items())


def test_partitions_that_wait_for_each_other_go_on_nevertheless() -> None:
    first, second = (TopicPartition("journal", number) for number in range(2))
    starts, ends = {first: 0, second: 0}, {first: 9, second: 9}
    older = {first: {second: 3}, second: {first: 5}}
    while spans := cut(starts, ends, 4, older):
        starts |= {one: end for one, (_, end) in spans.items()}
    assert starts == ends
