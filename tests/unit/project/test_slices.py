"""Ranges of slices, which may change without a slice lost or done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.errors import InvalidInput
from tidemark.partitioning import keys, slice_ranges
from tidemark.partitioning.keys import SliceRange
from tidemark.partitioning.slice_ranges import ALL, BLOCK, Portion

BUCKETS = (1, 2, 3)

some_ranges = st.lists(
    st.tuples(st.integers(0, 1023), st.integers(0, 1023)).map(
        lambda ends: SliceRange(*sorted(ends))
    ),
    max_size=6,
)
some_events = st.dictionaries(st.integers(0, 1023), st.integers(0, 50), max_size=60)


def inside(ranges: Sequence[SliceRange]) -> Counter[int]:
    return Counter(number for part in ranges for number in range(part.first, part.last + 1))


@given(some_ranges, some_ranges)
def test_missing_is_what_no_range_has(scopes: list[SliceRange], done: list[SliceRange]) -> None:
    for scope in [*scopes, ALL]:
        left = inside(slice_ranges.missing(scope, done))
        assert set(left) == set(inside([scope])) - set(inside(done))
        assert set(left.values()) <= {1}


@given(some_events, st.integers(1, 64), st.tuples(some_ranges, some_ranges, some_ranges))
def test_portions_are_exactly_what_is_left(
    events: dict[int, int], number: int, done: tuple[list[SliceRange], ...]
) -> None:
    by_bucket = dict(zip(BUCKETS, done, strict=True))
    ranges = slice_ranges.cut(events, ALL, number)
    left = slice_ranges.portions(ranges, by_bucket)
    for bucket, settled in by_bucket.items():
        worked = inside([portion.slices for portion in left if bucket in portion.time_buckets])
        assert set(worked) == set(inside([ALL])) - set(inside(settled))
        assert set(worked.values()) <= {1}
    for portion in left:
        assert any(
            r.first <= portion.slices.first and portion.slices.last <= r.last for r in ranges
        )


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 4, 8, 16, 32]), st.integers(0, 31), st.integers(0, 3)),
        max_size=12,
    )
)
def test_every_slice_is_done_once_over_changing_ranges_with_interruptions(
    runs: list[tuple[int, int, int]],
) -> None:
    """Each run takes one of some ranges and stops after some portions; the last does the rest."""
    done: dict[int, list[SliceRange]] = {bucket: [] for bucket in BUCKETS}
    worked: Counter[tuple[int, int]] = Counter()

    def work(left: Sequence[Portion]) -> None:
        for portion in left:
            for bucket in portion.time_buckets:
                done[bucket].append(portion.slices)
                worked.update((bucket, number) for number in inside([portion.slices]))

    for position, (ranges, index, stops_after) in enumerate(runs):
        scope = keys.slice_ranges(ranges)[index % ranges]
        # The newest time bucket appears in the middle.
        buckets = BUCKETS[: 2 if position < 4 else 3]
        work(
            slice_ranges.portions([scope], {bucket_ms: done[bucket_ms] for bucket_ms in buckets})[
                :stops_after
            ]
        )
    work(slice_ranges.portions([ALL], done))
    assert worked == Counter((bucket, number) for bucket in BUCKETS for number in range(1024))
    assert slice_ranges.portions(keys.slice_ranges(4), done) == []


@given(some_events, st.integers(1, 200), st.sampled_from([ALL, SliceRange(32, 95)]))
def test_cut_covers_its_slices_within_the_bound(
    events: dict[int, int], number: int, scope: SliceRange
) -> None:
    ranges = slice_ranges.cut(events, scope, number)
    assert ranges[0].first == scope.first
    assert ranges[-1].last == scope.last
    assert all(part.last + 1 == other.first for part, other in pairwise(ranges))
    assert len(ranges) <= number
    blocks = range(scope.first, scope.last + 1, BLOCK)
    counts = [sum(events.get(slice_nr, 0) for slice_nr in range(b, b + BLOCK)) for b in blocks]
    assert all(part.first % BLOCK == 0 for part in ranges)
    largest = max(sum(events.get(slice_nr, 0) for slice_nr in inside([part])) for part in ranges)
    assert largest <= -(-sum(counts) // number) + max(counts)


@given(st.lists(st.integers(0, 9), min_size=7, max_size=7), st.integers(1, 4))
def test_no_cut_has_a_smaller_largest_range(numbers: list[int], ranges: int) -> None:
    """The second to the sixth block are cut in each way that there is; the others do not count."""
    events = {place * BLOCK + place: number for place, number in enumerate(numbers)}
    inner = numbers[1:6]
    best = min(
        max(sum(inner[begin:end]) for begin, end in pairwise((0, *places, 5)))
        for cuts in range(ranges)
        for places in combinations(range(1, 5), cuts)
    )
    parts = slice_ranges.cut(events, SliceRange(BLOCK, 6 * BLOCK - 1), ranges)
    assert max(sum(events.get(number, 0) for number in inside([part])) for part in parts) == best
    assert (parts[0].first, parts[-1].last) == (BLOCK, 6 * BLOCK - 1)


def test_decimal_ids_are_cut_evenly_although_their_slices_are_not() -> None:
    """A million ids entity|p0 .. entity|p999999: 255 to 1753 of them in a slice."""
    events: Counter[int] = Counter()
    prefix = keys.java_hash("entity|p")
    hashes = [(31 * prefix + ord(digit), digit) for digit in "0123456789"]
    for _ in range(6):
        events.update(abs(signed(hashed)) % 1024 for hashed, _ in hashes)
        hashes = [
            (31 * hashed + ord(digit), first)
            for hashed, first in hashes
            if first != "0"
            for digit in "0123456789"
        ]
    assert events.total() == 1_000_000
    assert (min(events.values()), max(events.values())) == (255, 1753)
    for number in (2, 4, 8):
        assert unevenness(events, slice_ranges.cut(events, ALL, number)) <= 1.2, number


def signed(number: int) -> int:
    low = number % 2**32
    return low - 2**32 if low >= 2**31 else low


def unevenness(events: Counter[int], ranges: Sequence[SliceRange]) -> float:
    """Return the number of events of the largest range in units of the mean."""
    largest = max(sum(events[number] for number in inside([part])) for part in ranges)
    return largest * len(ranges) / events.total()


def test_one_block_is_not_cut() -> None:
    assert slice_ranges.cut({5: 9, 30: 100, 900: 1}, ALL, 8) == [
        SliceRange(0, 895),
        SliceRange(896, 1023),
    ]
    assert slice_ranges.cut({}, ALL, 8) == [ALL]


def test_portions_leave_out_what_is_done_and_keep_the_ranges() -> None:
    done = {1: [SliceRange(0, 255)], 2: []}
    assert slice_ranges.portions(keys.slice_ranges(2), done) == [
        Portion(SliceRange(0, 255), frozenset({2})),
        Portion(SliceRange(256, 511), frozenset({1, 2})),
        Portion(SliceRange(512, 1023), frozenset({1, 2})),
    ]


@pytest.mark.parametrize("written", ["0-255", " 256-511 ", "0-1023", "992-1023"])
def test_parse_takes_whole_blocks(written: str) -> None:
    assert slice_ranges.text(slice_ranges.parse(written)) == written.strip()


@pytest.mark.parametrize(
    "written", ["", "7", "0-254", "1-31", "32-31", "1024-1055", "0-2047", "-1-31"]
)
def test_parse_refuses_anything_else(written: str) -> None:
    with pytest.raises(InvalidInput, match="is not a range of whole blocks of 32 slices"):
        slice_ranges.parse(written)


def test_locks_of_disjoint_ranges_differ_and_those_of_all_slices_exclude_them() -> None:
    first = slice_ranges.locked(SliceRange(0, 511), "project/j/name")
    second = slice_ranges.locked(SliceRange(512, 1023), "project/j/name")
    assert len(first) == len(second) == 16
    assert not set(first) & set(second)
    assert slice_ranges.locked(SliceRange(480, 511), "project/j/name") == [first[-1]]
    assert first[-1] == "project/j/name/0480-0511"
    [of_all] = slice_ranges.locked(ALL, "project/j/name")
    assert all(lock.startswith(f"{of_all}/") for lock in first + second)
