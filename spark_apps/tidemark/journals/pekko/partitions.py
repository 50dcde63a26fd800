"""The range of partitions with the messages of a persistence id.

A message is in the partition of its sequence nr or in the next one (docs/real-systems.md,
"Partitions"), so a partition may be empty although messages follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tidemark.cassandra.control import Row
from tidemark.partitioning import keys

EMPTY_AT_END = 2
"""Consecutive empty partitions that prove the end of the messages."""


def first_partition(deleted_to: int, target_partition_size: int) -> int:
    """Return the first partition that may have a message that is not deleted.

    `deleted_to` is the highest deleted sequence nr; 0 for none.
    """
    return keys.partition_nr(deleted_to + 1, target_partition_size)


def rows_from(
    first: int, read: Callable[[int], Iterable[Row]], *, last: int | None = None
) -> Iterator[Row]:
    """Read the partitions of one persistence id in order, up to the end of its messages or `last`.

    The caller needs no row of a partition before `first`; `read` reads a partition.
    """
    partition, empty = first, 0
    while empty < EMPTY_AT_END and (last is None or partition <= last):
        empty += 1
        for row in read(partition):
            empty = 0
            yield row
        partition += 1
