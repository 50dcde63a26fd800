"""Reads and deletes of whole partitions of tag_views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.settings import Settings

_KEYS = 5000
"""Partition keys in a page."""


def partitions(control: Control, settings: Settings) -> Iterator[tuple[str, int]]:
    """Yield every (tag_name, timebucket) with rows in tag_views; reads only partition keys."""
    rows = control.stream(
        "SELECT DISTINCT tag_name, timebucket FROM "
        + table(settings.journal_keyspace, settings.events_by_tag_table),
        page=_KEYS,
    )
    return ((row["tag_name"], row["timebucket"]) for row in rows)


def delete_partitions(
    control: Control, settings: Settings, keys: Iterable[tuple[str, int]]
) -> None:
    """Delete whole partitions of tag_views: one statement and one tombstone each."""
    control.execute_many(
        f"DELETE FROM {table(settings.journal_keyspace, settings.events_by_tag_table)}"
        " WHERE tag_name = ? AND timebucket = ?",
        keys,
    )
