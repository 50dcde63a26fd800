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
    found: list[list[Extent[Item]]] = []
    for group in groups:
        part = found[-1] if found else None
        if (
            part is not None
            and sum(one.events for one in part) + group.events <= most_events
            and not any(collides(one, group) for one in part)
        ):
            part.append(group)
        else:
            found.append([group])
    return list(found)
