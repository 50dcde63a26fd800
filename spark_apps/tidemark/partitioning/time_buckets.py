"""Sets of time buckets, kept as ranges: ten years of Minute buckets are as quick as a day."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Set
from itertools import chain
from typing import Self, cast

Range = tuple[int, int]
"""The first time bucket and the exclusive end; epoch ms, both multiples of the bucket size."""


class TimeBuckets(Set[int]):
    """A set of time buckets (epoch ms) of one size.

    The operators of sets work on ranges; their other operand may be any set of time buckets. The
    named methods of a built-in set, such as `union`, go through every element instead.
    """

    def __init__(self, ranges: Iterable[Range], bucket_ms: int) -> None:
        """Join ranges, which may overlap and be empty, in any order."""
        self._size = bucket_ms
        joined: list[Range] = []
        for first, before in sorted(part for part in ranges if part[0] < part[1]):
            if joined and first <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], before))
            else:
                joined.append((first, before))
        self._ranges = joined

    @classmethod
    def of(cls, time_buckets: Iterable[int], bucket_ms: int) -> Self:
        """Return the set of single time buckets."""
        if isinstance(time_buckets, cls):
            return time_buckets
        return cls(((bucket, bucket + bucket_ms) for bucket in time_buckets), bucket_ms)

    @property
    def ranges(self) -> list[Range]:
        """The ranges, ascending, with gaps between them."""
        return self._ranges

    @property
    def first(self) -> int | None:
        """The first time bucket; None for an empty set."""
        return self._ranges[0][0] if self._ranges else None

    @property
    def last(self) -> int | None:
        """The last time bucket; None for an empty set."""
        return self._ranges[-1][1] - self._size if self._ranges else None

    def within(self, first: int, before: int) -> TimeBuckets:
        """Return the time buckets from `first` to `before`, exclusive."""
        cut = ((max(start, first), min(end, before)) for start, end in self._ranges)
        return TimeBuckets(cut, self._size)

    def holes(self, first: int, before: int) -> list[Range]:
        """Return the ranges from `first` to `before`, exclusive, that are not in the set."""
        holes, position = [], first
        for start, end in self._ranges:
            if end <= position:
                continue
            if start >= before:
                break
            if position < start:
                holes.append((position, start))
            position = end
        if position < before:
            holes.append((position, before))
        return holes

    @staticmethod
    def ends_of(time_buckets: Set[int]) -> Range | None:
        """Return the first and the last of a set of time buckets; None for an empty set."""
        if not time_buckets:
            return None
        if isinstance(time_buckets, TimeBuckets):
            return time_buckets._ranges[0][0], time_buckets._ranges[-1][1] - time_buckets._size
        return min(time_buckets), max(time_buckets)

    def __contains__(self, bucket: object) -> bool:
        index = bisect_right(self._ranges, (cast(int, bucket), 2**63))
        return index > 0 and cast(int, bucket) < self._ranges[index - 1][1]

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(
            range(first, before, self._size) for first, before in self._ranges
        )

    def __len__(self) -> int:
        return sum((before - first) // self._size for first, before in self._ranges)

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Set):
            return NotImplemented
        return self._ranges == TimeBuckets.of(other, self._size)._ranges

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TimeBuckets({self._ranges}, {self._size})"

    def __or__(self, other: Iterable[int]) -> TimeBuckets:  # type: ignore[override]
        return TimeBuckets([*self._ranges, *TimeBuckets.of(other, self._size)._ranges], self._size)

    def __and__(self, other: Iterable[int]) -> TimeBuckets:
        others = TimeBuckets.of(other, self._size)._ranges
        common, mine, theirs = [], 0, 0
        while mine < len(self._ranges) and theirs < len(others):
            (first, before), (start, end) = self._ranges[mine], others[theirs]
            common.append((max(first, start), min(before, end)))
            mine, theirs = (mine + 1, theirs) if before <= end else (mine, theirs + 1)
        return TimeBuckets(common, self._size)

    def __sub__(self, other: Iterable[int]) -> TimeBuckets:
        if not self._ranges:
            return self
        holes = TimeBuckets.of(other, self._size).holes(self._ranges[0][0], self._ranges[-1][1])
        return self & TimeBuckets(holes, self._size)

    def __ror__(self, other: Iterable[int]) -> TimeBuckets:
        return self | other

    def __rand__(self, other: Iterable[int]) -> TimeBuckets:
        return self & other

    def __rsub__(self, other: Iterable[int]) -> TimeBuckets:
        return TimeBuckets.of(other, self._size) - self
