"""Ranges of slices, for scheduling: the done and the missing slices of each time bucket.

Pure arithmetic on ranges, both ends inclusive. Source: Pekko's and Akka's slices (1024, by Java's
string hash of the persistence id), whose ranges may change at any time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidemark.errors import InvalidInput
from tidemark.partitioning.keys import NUMBER_OF_SLICES, SliceRange

ALL = SliceRange(0, NUMBER_OF_SLICES - 1)
BLOCK = 32
"""Number of slices that share a lock: the range of a run consists of whole blocks."""


@dataclass(frozen=True)
class Slicing:
    """The restriction of a run to a range of slices.

    Attributes:
        slices: the slices that the run processes.
        force: also process slices that are done.
    """

    slices: SliceRange = ALL
    force: bool = False


@dataclass(frozen=True)
class Portion:
    """A range of slices that have the same time buckets left to do."""

    slices: SliceRange
    time_buckets: frozenset[int]


def text(slices: SliceRange) -> str:
    """Format a range as the option `--slices` takes it, such as `0-255`."""
    return f"{slices.first}-{slices.last}"


def parse(written: str) -> SliceRange:
    """Parse the value of `--slices`.

    Raises:
        InvalidInput: it is not a range of whole blocks.
    """
    match = re.fullmatch(r"(\d{1,4})-(\d{1,4})", written.strip())
    if match is not None:
        slices = SliceRange(int(match[1]), int(match[2]))
        is_whole = slices.first % BLOCK == 0 and (slices.last + 1) % BLOCK == 0
        if is_whole and slices.first < slices.last <= ALL.last:
            return slices
    raise InvalidInput(
        f"{written!r} is not a range of whole blocks of {BLOCK} slices",
        where="--slices",
        do=f"write FIRST-LAST, both inclusive, such as 0-255; FIRST and LAST + 1 are multiples of"
        f" {BLOCK} up to {NUMBER_OF_SLICES}",
    )


def locked(slices: SliceRange, resource: str) -> list[str]:
    """Return the locks of a range under `resource`; all slices have the resource as one lock."""
    if slices == ALL:
        return [resource]
    return [
        f"{resource}/{first:04}-{first + BLOCK - 1:04}"
        for first in range(slices.first // BLOCK * BLOCK, slices.last + 1, BLOCK)
    ]


def missing(slices: SliceRange, done: Iterable[SliceRange]) -> list[SliceRange]:
    """Return the parts of `slices` that are in none of the done ranges, ascending."""
    left, first = [], slices.first
    for done_range in sorted(done):
        if done_range.first > slices.last:
            break
        if done_range.first > first:
            left.append(SliceRange(first, done_range.first - 1))
        first = max(first, done_range.last + 1)
    if first <= slices.last:
        left.append(SliceRange(first, slices.last))
    return left


def portions(
    ranges: Iterable[SliceRange], done: Mapping[int, Sequence[SliceRange]]
) -> list[Portion]:
    """Return the portions left to do in the ranges; each slice of each time bucket occurs once.

    Args:
        ranges: disjoint ranges, ascending.
        done: done ranges by time bucket (epoch ms).
    """
    left: list[Portion] = []
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
            buckets = _left(SliceRange(first, last), done)
            if first > slices.first and left and _goes_on(left[-1], first, buckets):
                first = left.pop().slices.first
            if buckets:
                left.append(Portion(SliceRange(first, last), buckets))
    return left


def _goes_on(portion: Portion, first: int, time_buckets: frozenset[int]) -> bool:
    return portion.slices.last == first - 1 and portion.time_buckets == time_buckets


def _inside(slices: SliceRange) -> range:
    return range(slices.first, slices.last + 1)


def _left(slices: SliceRange, done: Mapping[int, Sequence[SliceRange]]) -> frozenset[int]:
    return frozenset(bucket for bucket, ranges in done.items() if missing(slices, ranges))


def cut(events: Mapping[int, int], slices: SliceRange, ranges: int) -> list[SliceRange]:
    """Return at most `ranges` contiguous ranges whose largest has as few events as possible.

    No block is split. The largest range has at most as many events as the mean range and the
    largest block together.

    Args:
        events: number of events by slice; a slice without events may be left out.
        slices: slices to divide, in whole blocks; the result covers all of them.
        ranges: highest number of ranges, 1 or more.
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
    return [SliceRange(*both) for both in zip(starts, ends, strict=True)]


def _filled(numbers: Sequence[int], capacity: int) -> list[int]:
    """Return the start positions of ranges that are filled to `capacity` one after the other."""
    starts, filled = [0], 0
    for position, number in enumerate(numbers):
        if filled + number > capacity:
            starts.append(position)
            filled = 0
        filled += number
    return starts
