"""The reads and the deletes of purge, one partition each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.settings import Settings

_KEYS = 5000
"""Keys in a page."""


def partitions(control: Control, settings: Settings) -> Iterator[tuple[str, int]]:
    """Every (tag_name, timebucket) that has rows in tag_views; partition keys only are read."""
    rows = control.stream(
        "SELECT DISTINCT tag_name, timebucket FROM "
        + table(settings.journal_keyspace, settings.events_by_tag_table),
        page=_KEYS,
    )
    return ((row["tag_name"], row["timebucket"]) for row in rows)


def delete_partitions(
    control: Control, settings: Settings, doomed: Iterable[tuple[str, int]]
) -> None:
    """Delete whole partitions of tag_views: one statement and one tombstone each."""
    control.execute_many(
        f"DELETE FROM {table(settings.journal_keyspace, settings.events_by_tag_table)}"
        " WHERE tag_name = ? AND timebucket = ?",
        doomed,
    )
