"""Which groups may run together: in the order of the stream, as long as they do not collide.

Source: EventGroupGrouping of mklew/cassandra-transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")
RowKey = tuple[str, tuple[tuple[str, str], ...]]
"""A table and columns of its key with their values, sorted: a row, or all rows of a partition."""


@dataclass(frozen=True)
class Extent(Generic[Item]):
    """A group, and what is known of its size and rows.

    Attributes:
        item: the group.
        events: the number of its events.
        rows: all rows that it writes; None if nobody has declared them.
    """

    item: Item
    events: int
    rows: frozenset[RowKey] | None


def collides(one: Extent[Item], other: Extent[Item]) -> bool:
    """Tell whether two groups may write the same row."""
    if one.rows is None or other.rows is None:
        return True
    return any(_meet(mine, its) for mine in one.rows for its in other.rows)


def _meet(one: RowKey, other: RowKey) -> bool:
    """Tell whether two keys may be of one row: no column has two values."""
    mine, its = dict(one[1]), dict(other[1])
    return one[0] == other[0] and all(mine[name] == its[name] for name in mine.keys() & its.keys())


def chunks(groups: Iterable[Extent[Item]], most_events: int) -> list[Sequence[Extent[Item]]]:
    """Cut groups, in their order, into parts whose groups may run at the same time.

    A part ends before the first group that collides with one in it, or with which it would have
    more than `most_events` events; a group that has more than that runs alone.
    """
    parts: list[_Part[Item]] = []
    for group in groups:
        part = parts[-1] if parts else None
        if part is None or part.events + group.events > most_events or part.collides(group):
            part = _Part()
            parts.append(part)
        part.append(group)
    return [part.groups for part in parts]


class _Part(Generic[Item]):
    """Groups that may run at the same time, with their keys by table and columns."""

    def __init__(self) -> None:
        self.groups: list[Extent[Item]] = []
        self.events = 0
        self._keys: dict[tuple[str, tuple[str, ...]], set[RowKey]] = {}

    def append(self, group: Extent[Item]) -> None:
        self.groups.append(group)
        self.events += group.events
        for row in group.rows or ():
            self._keys.setdefault(_shape(row), set()).add(row)

    def collides(self, group: Extent[Item]) -> bool:
        """Tell whether a group collides with one of these."""
        if group.rows is None or self.groups[0].rows is None:
            return True
        return any(self._meets(row) for row in group.rows)

    def _meets(self, row: RowKey) -> bool:
        shape = _shape(row)
        # Of keys of the same columns only equal ones are of one row.
        return row in self._keys.get(shape, ()) or any(
            _meet(one, row)
            for other, keys in self._keys.items()
            if other != shape and other[0] == shape[0]
            for one in keys
        )


def _shape(row: RowKey) -> tuple[str, tuple[str, ...]]:
    return row[0], tuple(name for name, _ in row[1])
