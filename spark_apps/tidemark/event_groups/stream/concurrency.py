"""Which groups may run at the same time: in the order of the stream, if they do not collide.

Source: EventGroupGrouping of mklew/cassandra-transactions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic

from tidemark.event_groups.definition.row_keys import GroupFootprint, Item, RowKey


class Occupied(Generic[Item]):
    """Groups, and the rows by which others collide with them."""

    def __init__(self, footprints: Iterable[GroupFootprint[Item]] = ()) -> None:
        self._first: Item | None = None
        self._exclusive: Item | None = None
        self._written, self._read = _Keys[Item](), _Keys[Item]()
        self.is_empty = True
        for footprint in footprints:
            self.add(footprint)

    def add(self, footprint: GroupFootprint[Item]) -> None:
        """Add a group."""
        if self.is_empty:
            self._first, self.is_empty = footprint.item, False
        if footprint.rows is None:
            self._exclusive = footprint.item if self._exclusive is None else self._exclusive
            return
        self._written.add(footprint.rows, footprint.item)
        self._read.add(footprint.reads, footprint.item)

    def meeting(self, footprint: GroupFootprint[Item]) -> Item | None:
        """Return a group that collides with this one: one writes what the other reads or writes."""
        if self._exclusive is not None:
            return self._exclusive
        if footprint.rows is None:
            return self._first
        written = self._written.meeting((*footprint.rows, *footprint.reads))
        return written if written is not None else self._read.meeting(footprint.rows)


def collides(group: GroupFootprint[Item], other: GroupFootprint[Item]) -> bool:
    """Tell whether one of two groups may write a row that the other reads or writes."""
    return Occupied([group]).meeting(other) is not None


def chunks(
    groups: Iterable[GroupFootprint[Item]], most_events: int
) -> list[Sequence[GroupFootprint[Item]]]:
    """Split groups, in their order, into parts whose groups may run at the same time.

    A part ends before a group that collides with it, or that would bring it over `most_events`
    events; a group with more events than that runs alone.
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

    groups: list[GroupFootprint[Item]] = field(default_factory=list)
    events: int = 0
    occupied: Occupied[Item] = field(default_factory=Occupied)

    def append(self, group: GroupFootprint[Item]) -> None:
        self.groups.append(group)
        self.events += group.events
        self.occupied.add(group)


class _Keys(Generic[Item]):
    """Keys of rows, with the first group of each, by their table and columns.

    Two keys may name the same row if no column has two values. Keys with other columns are
    compared by the columns that both have.
    """

    def __init__(self) -> None:
        self._shapes_by_table: dict[str, dict[tuple[str, ...], _Shape[Item]]] = {}

    def add(self, keys: Collection[RowKey], item: Item) -> None:
        for name, values in keys:
            shapes = self._shapes_by_table.setdefault(name, {})
            columns = tuple(column for column, _ in values)
            shapes.setdefault(columns, _Shape(columns)).add(dict(values), item)

    def meeting(self, keys: Iterable[RowKey]) -> Item | None:
        """Return a group with a key that may name the same row as one of `keys`."""
        for name, values in keys:
            for shape in self._shapes_by_table.get(name, {}).values():
                item = shape.meeting(dict(values))
                if item is not None:
                    return item
        return None


class _Shape(Generic[Item]):
    """Keys of one table with the same columns."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._keys: dict[tuple[str, ...], Item] = {}
        self._by_shared_columns: dict[tuple[str, ...], dict[tuple[str, ...], Item]] = {}

    def add(self, values: Mapping[str, str], item: Item) -> None:
        self._keys.setdefault(tuple(values.values()), item)
        for shared, items in self._by_shared_columns.items():
            items.setdefault(tuple(values[column] for column in shared), item)

    def meeting(self, values: Mapping[str, str]) -> Item | None:
        shared = tuple(column for column in self._columns if column in values)
        if shared not in self._by_shared_columns:
            positions = [self._columns.index(column) for column in shared]
            items: dict[tuple[str, ...], Item] = {}
            for key, item in self._keys.items():
                items.setdefault(tuple(key[position] for position in positions), item)
            self._by_shared_columns[shared] = items
        return self._by_shared_columns[shared].get(tuple(values[column] for column in shared))
