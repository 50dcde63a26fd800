"""The deletes of `reconcile delete`, one function for each kind, in the promised order.

Scanning, then progress, then data, the reverse of tag-write: a crash between any two leaves
progress that lags, and the remaining rows are found again from the messages and the tag views.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.journals.pekko import tables
from tidemark.reconcile.delete.find import ViewRow
from tidemark.settings import Settings

RowKey = tuple[UUID, str]
_BYTES_PER_DELETE = 200
"""Bytes of a delete without its texts; measured: below 150 as the server counts."""


def delete_scanning(control: Control, settings: Settings, persistence_ids: Iterable[str]) -> None:
    """Delete rows of tag_scanning: the first step."""
    control.execute_many(
        f"DELETE FROM {table(settings.journal_keyspace, tables.TAG_SCANNING)}"
        " WHERE persistence_id = ?",
        ((persistence_id,) for persistence_id in persistence_ids),
    )


def delete_progress(control: Control, settings: Settings, keys: Iterable[tuple[str, str]]) -> None:
    """Delete the rows of tag_write_progress of (persistence id, tag) pairs: the second step."""
    control.execute_many(
        f"DELETE FROM {table(settings.journal_keyspace, tables.TAG_WRITE_PROGRESS)}"
        " WHERE persistence_id = ? AND tag = ?",
        keys,
    )


def delete_rows(control: Control, settings: Settings, rows: Iterable[ViewRow]) -> None:
    """Delete rows of the tag views, in batches of one partition each: the third step.

    The key has no tag pid sequence nr: one tombstone covers an event's row and its duplicates.
    """
    partitions: dict[tuple[str, int], set[RowKey]] = defaultdict(set)
    for row in rows:
        partitions[row.tag, row.time_bucket].add((row.timestamp, row.persistence_id))
    control.execute_batches(
        f"DELETE FROM {table(settings.journal_keyspace, settings.events_by_tag_table)}"
        " WHERE tag_name = ? AND timebucket = ? AND timestamp = ? AND persistence_id = ?",
        (
            [(*partition, *key) for key in batch]
            for partition, keys in partitions.items()
            for batch in _batches(partition[0], sorted(keys), settings)
        ),
    )


def _batches(tag: str, keys: Sequence[RowKey], settings: Settings) -> Iterator[Sequence[RowKey]]:
    """Split keys into batches limited by statements and by bytes."""
    longest = max((len(persistence_id.encode()) for _, persistence_id in keys), default=0)
    bytes_each = longest + len(tag.encode()) + _BYTES_PER_DELETE
    size = min(
        settings.events_by_tag_max_message_batch_size,
        max(1, settings.cassandra_batch_size // bytes_each),
    )
    for start in range(0, len(keys), size):
        yield keys[start : start + size]
