"""Which groups may run together: in the order of the stream, as long as they do not collide.

Source: EventGroupGrouping of mklew/cassandra-transactions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tidemark.event_groups.definition.row_keys import RowKey

Item = TypeVar("Item")


@dataclass(frozen=True)
class Extent(Generic[Item]):
    """A group, and what is known of its size and rows.

    Attributes:
        item: the group.
        events: the number of its events.
        rows: all rows that it writes; None if it collides with every other group.
        reads: further rows, which it only reads.
    """

    item: Item
    events: int
    rows: frozenset[RowKey] | None
    reads: frozenset[RowKey] = frozenset()


class Occupied(Generic[Item]):
    """Groups, and the rows by which others collide with them."""

    def __init__(self, extents: Iterable[Extent[Item]] = ()) -> None:
        """Begin with groups."""
        self._first: Item | None = None
        self._of_all: Item | None = None
        self._written, self._read = _Keys[Item](), _Keys[Item]()
        self.is_empty = True
        for extent in extents:
            self.add(extent)

    @property
    def is_everything(self) -> bool:
        """Return whether every other group collides with one of these."""
        return self._of_all is not None

    def add(self, extent: Extent[Item]) -> None:
        """Add a group."""
        if self.is_empty:
            self._first, self.is_empty = extent.item, False
        if extent.rows is None:
            self._of_all = extent.item if self._of_all is None else self._of_all
            return
        self._written.add(extent.rows, extent.item)
        self._read.add(extent.reads, extent.item)

    def meeting(self, extent: Extent[Item]) -> Item | None:
        """Return a group that collides with this one: one writes what the other reads or writes."""
        if self._of_all is not None:
            return self._of_all
        if extent.rows is None:
            return self._first
        written = self._written.meeting((*extent.rows, *extent.reads))
        return written if written is not None else self._read.meeting(extent.rows)


def collides(one: Extent[Item], other: Extent[Item]) -> bool:
    """Tell whether one of two groups may write a row that the other reads or writes."""
    return Occupied([one]).meeting(other) is not None


def chunks(groups: Iterable[Extent[Item]], most_events: int) -> list[Sequence[Extent[Item]]]:
    """Cut groups, in their order, into parts whose groups may run at the same time.

    A part ends before the first group that collides with one in it, or with which it would have
    more than `most_events` events; a group that has more than that runs alone.
    """
    parts: list[_Part[Item]] = []
    for group in groups:
        part = parts[-1] if parts else None
        if (
            part is None
            or part.events + group.events > most_events
            or part.occupied.meeting(group) is not None
        ):
            part = _Part()
            parts.append(part)
        part.append(group)
    return [part.groups for part in parts]


@dataclass
class _Part(Generic[Item]):
    """Groups that may run at the same time."""

    groups: list[Extent[Item]] = field(default_factory=list)
    events: int = 0
    occupied: Occupied[Item] = field(default_factory=Occupied)

    def append(self, group: Extent[Item]) -> None:
        self.groups.append(group)
        self.events += group.events
        self.occupied.add(group)


class _Keys(Generic[Item]):
    """Keys of rows by their table and columns, with the first group of each."""

    def __init__(self) -> None:
        self._of_table: dict[str, dict[tuple[str, ...], dict[RowKey, Item]]] = {}

    def add(self, keys: Collection[RowKey], item: Item) -> None:
        for key in keys:
            of_columns = self._of_table.setdefault(key[0], {})
            of_columns.setdefault(_columns(key), {}).setdefault(key, item)

    def meeting(self, keys: Iterable[RowKey]) -> Item | None:
        """Return a group that has a key of the same row as one of these."""
        return next((item for key in keys for item in self._items(key)), None)

    def _items(self, key: RowKey) -> Iterator[Item]:
        for columns, known in self._of_table.get(key[0], {}).items():
            if columns == _columns(key):
                # Of keys of the same columns only equal ones are of one row.
                yield from [known[key]] if key in known else []
            else:
                yield from (item for one, item in known.items() if _meet(one, key))


def _columns(key: RowKey) -> tuple[str, ...]:
    return tuple(name for name, _ in key[1])


def _meet(one: RowKey, other: RowKey) -> bool:
    """Tell whether two keys of a table may be of one row: no column has two values."""
    mine, its = dict(one[1]), dict(other[1])
    return all(mine[name] == its[name] for name in mine.keys() & its.keys())
