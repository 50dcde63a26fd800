"""Finds by key the rows that `reconcile delete` deletes, without reading an event's payload.

The rows of a persistence id are found in two ways. Its events in messages give the keys of its
rows: tag, time bucket and timestamp. Rows to which no event leads (of events deleted from messages,
in a wrong bucket, or under a tag that the event does not carry) are searched for in the tags'
partitions, by a filter that the server applies to the clustering key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.journals.pekko import tag_views
from tidemark.journals.pekko.ids_by_key import Entity
from tidemark.settings import Settings

KEYS_PER_QUERY = 100
SEARCHES_IN_FLIGHT = 4
"""Each makes the server read a whole partition, and must end before the server's timeout."""


class ViewRow(NamedTuple):
    """The key of a row of the tag views."""

    tag: str
    time_bucket: int
    timestamp: UUID
    persistence_id: str
    number: int


def rows_of_events(
    control: Control, settings: Settings, entities: Iterable[Entity], tags: Collection[str] | None
) -> Iterator[ViewRow]:
    """Read the rows under the keys of events, with any number, of all tags or of some."""
    queries = [
        (tag, bucket, timestamps[start : start + KEYS_PER_QUERY], entity.persistence_id)
        for entity in entities
        for (tag, bucket), timestamps in entity.timestamps.items()
        if tags is None or tag in tags
        for start in range(0, len(timestamps), KEYS_PER_QUERY)
    ]
    rows_by_event = control.execute_many(
        "SELECT timestamp, tag_pid_sequence_nr FROM"
        f" {table(settings.journal_keyspace, settings.events_by_tag_table)}"
        " WHERE tag_name = ? AND timebucket = ? AND timestamp IN ? AND persistence_id = ?",
        queries,
    )
    for (tag, bucket, _, persistence_id), rows in zip(queries, rows_by_event, strict=True):
        for row in rows:
            number = row["tag_pid_sequence_nr"]
            yield ViewRow(tag, bucket, row["timestamp"], persistence_id, number)


def rows_in_partitions(
    control: Control,
    settings: Settings,
    partitions: Iterable[tuple[str, int]],
    persistence_ids: Iterable[str],
) -> Iterator[ViewRow]:
    """Read all rows of persistence ids in partitions; the server reads each completely."""
    ids = sorted(persistence_ids)
    queries = [
        (*partition, ids[start : start + KEYS_PER_QUERY])
        for partition in partitions
        for start in range(0, len(ids), KEYS_PER_QUERY)
    ]
    rows_by_partition = control.execute_many(
        "SELECT timestamp, persistence_id, tag_pid_sequence_nr FROM"
        f" {table(settings.journal_keyspace, settings.events_by_tag_table)}"
        " WHERE tag_name = ? AND timebucket = ? AND persistence_id IN ? ALLOW FILTERING",
        queries,
        concurrency=SEARCHES_IN_FLIGHT,
    )
    for (tag, bucket, _), rows in zip(queries, rows_by_partition, strict=True):
        for row in rows:
            number = row["tag_pid_sequence_nr"]
            yield ViewRow(tag, bucket, row["timestamp"], row["persistence_id"], number)


def partitions_of(
    control: Control, settings: Settings, tags: Collection[str] | None
) -> list[tuple[str, int]]:
    """Return the partitions (tag, time bucket) that have rows, of all tags or of some, in order."""
    partitions = tag_views.partitions(control, settings)
    return sorted(partition for partition in partitions if tags is None or partition[0] in tags)
