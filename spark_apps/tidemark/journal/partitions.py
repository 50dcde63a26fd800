"""Where the messages of a persistence id begin and end, partition by partition.

A message lies in the partition of its sequence nr or in the next one (docs/real-systems.md,
"Partitions"), so that a partition may be empty although messages follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tidemark.cassandra.control import Row
from tidemark.partitioning import keys

EMPTY_AT_END = 2
"""Partitions in a row that are empty behind the last message."""


def first_partition(deleted_to: int, target_partition_size: int) -> int:
    """Return the first partition that may hold a message that is not deleted.

    Args:
        deleted_to: the highest sequence nr that was deleted; 0 for none.
        target_partition_size: of the journal.
    """
    return keys.partition_nr(deleted_to + 1, target_partition_size)


def rows_from(
    first: int, read: Callable[[int], Iterable[Row]], *, last: int | None = None
) -> Iterator[Row]:
    """Read partitions of one persistence id in their order, up to the end of its messages.

    Args:
        first: the partition to begin with; none before it holds anything that is wanted.
        read: reads a partition.
        last: the last partition to read; None for all.
    """
    partition, empty = first, 0
    while empty < EMPTY_AT_END and (last is None or partition <= last):
        empty += 1
        for row in read(partition):
            empty = 0
            yield row
        partition += 1
