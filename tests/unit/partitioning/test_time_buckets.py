"""Sets of time buckets as ranges beside the sets of Python."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidemark.partitioning.time_buckets import TimeBuckets

SIZE = 10
SETS = st.sets(st.integers(-3, 25).map(lambda number: number * SIZE))
BOUNDS = st.integers(-4, 26).map(lambda number: number * SIZE)


def of(buckets: set[int]) -> TimeBuckets:
    return TimeBuckets.of(buckets, SIZE)


@given(SETS, SETS)
def test_operators_are_those_of_sets(left: set[int], right: set[int]) -> None:
    for other in (of(right), right):
        assert set(of(left) | other) == left | right
        assert set(of(left) & other) == left & right
        assert set(of(left) - other) == left - right
        assert (of(left) == other) == (left == right)
    assert set(left | of(right)) == left | right
    assert set(left & of(right)) == left & right
    assert set(left - of(right)) == left - right


@given(SETS, BOUNDS, BOUNDS)
def test_a_set_is_its_time_buckets_ascending(buckets: set[int], first: int, before: int) -> None:
    ranges = of(buckets)
    assert list(ranges) == sorted(buckets)
    assert (len(ranges), bool(ranges)) == (len(buckets), bool(buckets))
    assert [bucket in ranges for bucket in range(-50, 300, SIZE)] == [
        bucket in buckets for bucket in range(-50, 300, SIZE)
    ]
    assert (ranges.first, ranges.last) == (min(buckets, default=None), max(buckets, default=None))
    assert TimeBuckets.ends_of(ranges) == TimeBuckets.ends_of(buckets)
    assert set(ranges.within(first, before)) == {b for b in buckets if first <= b < before}
    holes = TimeBuckets(ranges.holes(first, before), SIZE)
    assert set(holes) == set(range(first, before, SIZE)) - buckets
    assert all(end < start for (_, end), (start, _) in pairwise(ranges.ranges))
