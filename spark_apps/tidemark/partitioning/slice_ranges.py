"""Ranges of slices, for scheduling: the done and the missing slices of each time bucket. No I/O.

Both ends of a range are inclusive. Source: Pekko's and Akka's slices (1024, by Java's string hash
of the persistence id), whose ranges may change at any time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidemark.errors import InvalidInput
from tidemark.partitioning.keys import NUMBER_OF_SLICES, SliceRange

ALL = SliceRange(0, NUMBER_OF_SLICES - 1)
BLOCK = 32
"""The number of slices that share a lock: the range of a run consists of complete blocks."""


@dataclass(frozen=True)
class Slicing:
    """The restriction of a run to a range of slices.

    Attributes:
        slices: the slices that the run processes.
        force: whether to process done slices again.
    """

    slices: SliceRange = ALL
    force: bool = False


@dataclass(frozen=True)
class Portion:
    """A range of slices with the same time buckets to do."""

    slices: SliceRange
    time_buckets: frozenset[int]


def text(slices: SliceRange) -> str:
    """Format a range for the option `--slices`, such as `0-255`."""
    return f"{slices.first}-{slices.last}"


def parse(written: str) -> SliceRange:
    """Parse the value of `--slices`.

    Raises:
        InvalidInput: it is not a range of complete blocks.
    """
    match = re.fullmatch(r"(\d{1,4})-(\d{1,4})", written.strip())
    if match is not None:
        slices = SliceRange(int(match[1]), int(match[2]))
        has_whole_blocks = slices.first % BLOCK == 0 and (slices.last + 1) % BLOCK == 0
        if has_whole_blocks and slices.first < slices.last <= ALL.last:
            return slices
    raise InvalidInput(
        f"{written!r} is not a range of whole blocks of {BLOCK} slices",
        where="--slices",
        do=f"write FIRST-LAST, both inclusive, such as 0-255; FIRST and LAST + 1 are multiples of"
        f" {BLOCK} up to {NUMBER_OF_SLICES}",
    )


def locked(slices: SliceRange, resource: str) -> list[str]:
    """Return the locks of a range under `resource`; the only lock of all slices is the resource."""
    if slices == ALL:
        return [resource]
    return [
        f"{resource}/{first:04}-{first + BLOCK - 1:04}"
        for first in range(slices.first // BLOCK * BLOCK, slices.last + 1, BLOCK)
    ]


def missing(slices: SliceRange, done: Iterable[SliceRange]) -> list[SliceRange]:
    """Return the parts of `slices` that are in none of the done ranges, ascending."""
    ranges, first = [], slices.first
    for done_range in sorted(done):
        if done_range.first > slices.last:
            break
        if done_range.first > first:
            ranges.append(SliceRange(first, done_range.first - 1))
        first = max(first, done_range.last + 1)
    if first <= slices.last:
        ranges.append(SliceRange(first, slices.last))
    return ranges


def portions(
    ranges: Iterable[SliceRange], done: Mapping[int, Sequence[SliceRange]]
) -> list[Portion]:
    """Return the portions to do in the ranges; each slice of each time bucket occurs once.

    `ranges` are disjoint and ascending; `done` has the done ranges by time bucket (epoch ms).
    """
    result: list[Portion] = []
    edges = {
        edge
        for done_ranges in done.values()
        for done_range in done_ranges
        for edge in (done_range.first, done_range.last + 1)
    }
    for slices in ranges:
        starts = sorted({slices.first, *(edge for edge in edges if edge in _inside(slices))})
        ends = [start - 1 for start in starts[1:]] + [slices.last]
        for first, last in zip(starts, ends, strict=True):
            buckets = _open_buckets(SliceRange(first, last), done)
            if first > slices.first and result and _continues(result[-1], first, buckets):
                first = result.pop().slices.first
            if buckets:
                result.append(Portion(SliceRange(first, last), buckets))
    return result


def _continues(portion: Portion, first: int, time_buckets: frozenset[int]) -> bool:
    return portion.slices.last == first - 1 and portion.time_buckets == time_buckets


def _inside(slices: SliceRange) -> range:
    return range(slices.first, slices.last + 1)


def _open_buckets(slices: SliceRange, done: Mapping[int, Sequence[SliceRange]]) -> frozenset[int]:
    return frozenset(bucket for bucket, ranges in done.items() if missing(slices, ranges))


def cut(events: Mapping[int, int], slices: SliceRange, ranges: int) -> list[SliceRange]:
    """Return at most `ranges` contiguous ranges whose largest has as few events as possible.

    No block is split, so `slices` must consist of complete blocks; the result covers all of them.
    The largest range has at most as many events as the mean range and the largest block together.
    `events` are the numbers of events by slice; slices without events may be left out.
    """
    blocks = range(slices.first, slices.last + 1, BLOCK)
    numbers = [sum(events.get(number, 0) for number in range(b, b + BLOCK)) for b in blocks]
    low, high = max(numbers), sum(numbers)
    while low < high:
        middle = (low + high) // 2
        if len(_filled(numbers, middle)) <= ranges:
            high = middle
        else:
            low = middle + 1
    starts = [blocks[start] for start in _filled(numbers, low)]
    ends = [start - 1 for start in starts[1:]] + [slices.last]
    return [SliceRange(*bounds) for bounds in zip(starts, ends, strict=True)]


def _filled(numbers: Sequence[int], capacity: int) -> list[int]:
    """Return the start positions of ranges, each filled up to `capacity`."""
    starts, filled = [0], 0
    for position, number in enumerate(numbers):
        if filled + number > capacity:
            starts.append(position)
            filled = 0
        filled += number
    return starts
