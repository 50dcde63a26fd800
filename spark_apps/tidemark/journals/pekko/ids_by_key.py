"""Reads the journal's rows of single persistence ids, by key and without payloads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.journals.pekko import tables
from tidemark.journals.pekko.partitions import first_partition, rows_from
from tidemark.partitioning import keys
from tidemark.settings import Settings


@dataclass(frozen=True)
class Entity:
    """The traces of one persistence id in the journal.

    Attributes:
        persistence_id: the persistence id.
        timestamps: the timeuuids of its tagged events, by (tag, time bucket in epoch ms).
        lowest_sequence_nr: the lowest sequence nr among its remaining events; None without events.
        first_bucket: the time bucket (epoch ms) of the event with that sequence nr.
        progress_tags: the tags under which it has a row in tag_write_progress.
        is_scanned: whether it has a row in tag_scanning.
        is_known: whether messages, metadata, tag_write_progress or tag_scanning name it.
    """

    persistence_id: str
    timestamps: Mapping[tuple[str, int], Sequence[UUID]]
    lowest_sequence_nr: int | None
    first_bucket: int | None
    progress_tags: frozenset[str]
    is_scanned: bool
    is_known: bool

    @property
    def has_lost_its_front(self) -> bool:
        """Whether its first events are deleted, of which tag-view rows may remain."""
        return self.lowest_sequence_nr != 1


def read_entities(
    control: Control, settings: Settings, persistence_ids: Iterable[str]
) -> list[Entity]:
    """Read the traces of persistence ids in the journal; return them sorted by persistence id."""
    ids = sorted(persistence_ids)
    deleted = lookup(control, settings, settings.metadata_table, "deleted_to", ids)
    progress = lookup(control, settings, tables.TAG_WRITE_PROGRESS, "tag", ids)
    scanning = lookup(control, settings, tables.TAG_SCANNING, "sequence_nr", ids)
    events = {
        persistence_id: _events(
            control, settings, persistence_id, _first(deleted[persistence_id], "deleted_to")
        )
        for persistence_id in ids
    }
    if without_events := [persistence_id for persistence_id in ids if not events[persistence_id]]:
        events |= _events_anywhere(control, settings, without_events)
    return [
        _entity(
            settings,
            persistence_id,
            events[persistence_id],
            frozenset(row["tag"] for row in progress[persistence_id]),
            is_scanned=bool(scanning[persistence_id]),
            is_known=bool(
                events[persistence_id]
                or deleted[persistence_id]
                or progress[persistence_id]
                or scanning[persistence_id]
            ),
        )
        for persistence_id in ids
    ]


def lookup(
    control: Control, settings: Settings, name: str, column: str, ids: Sequence[str]
) -> dict[str, list[Row]]:
    """Read one column of a table whose partition key is the persistence id; return rows by id."""
    rows = control.execute_many(
        f"SELECT {column} FROM {table(settings.journal_keyspace, name)} WHERE persistence_id = ?",
        [(persistence_id,) for persistence_id in ids],
    )
    return dict(zip(ids, rows, strict=True))


def unknown_ids(control: Control, settings: Settings, ids: Iterable[str]) -> list[str]:
    """Return the persistence ids without rows in messages, metadata, progress and scanning."""
    messages = table(settings.journal_keyspace, settings.journal_table)
    names = (settings.metadata_table, tables.TAG_WRITE_PROGRESS, tables.TAG_SCANNING)
    sources = [
        # A single large write group may begin in the second partition.
        f"{messages} WHERE partition_nr = 0 AND {tables.OF_EVENTS} AND",
        f"{messages} WHERE partition_nr = 1 AND {tables.OF_EVENTS} AND",
        *(f"{table(settings.journal_keyspace, name)} WHERE" for name in names),
    ]
    unknown = sorted(ids)
    for source in sources:
        unknown = _absent(control, source, unknown)
    return unknown


def without_snapshots(control: Control, settings: Settings, ids: Sequence[str]) -> list[str]:
    """Return the persistence ids without a snapshot; the snapshot table must exist."""
    source = f"{table(settings.snapshot_keyspace, settings.snapshot_table)} WHERE"
    return _absent(control, source, ids)


def _absent(control: Control, source: str, ids: Sequence[str]) -> list[str]:
    """Return the persistence ids without a row in a table, by key."""
    rows_by_id = control.execute_many(
        f"SELECT persistence_id FROM {source} persistence_id = ? LIMIT 1",
        [(name,) for name in ids],
    )
    return [name for name, rows in zip(ids, rows_by_id, strict=True) if not rows]


def _first(rows: Sequence[Row], column: str) -> int:
    return (rows[0][column] if rows else None) or 0


def _events(
    control: Control, settings: Settings, persistence_id: str, deleted_to: int
) -> list[Row]:
    """Read the events of a persistence id, with any that deletion should have removed."""

    def read(partition: int) -> list[Row]:
        [rows] = _partitions(control, settings, [(persistence_id, partition)])
        return rows

    first = first_partition(deleted_to, settings.target_partition_size)
    earlier = _partitions(control, settings, [(persistence_id, nr) for nr in range(first)])
    return [*(row for part in earlier for row in part), *rows_from(first, read)]


def _events_anywhere(
    control: Control, settings: Settings, persistence_ids: Sequence[str]
) -> dict[str, list[Row]]:
    """Read the events of persistence ids by a scan of all partition keys of messages.

    The scan finds a persistence id whose first events were deleted without a row in metadata, and
    works with a wrong target_partition_size.
    """
    id_set = set(persistence_ids)
    distinct = control.stream(
        "SELECT DISTINCT persistence_id, partition_nr FROM"
        f" {table(settings.journal_keyspace, settings.journal_table)}"
    )
    partition_keys = [
        (row["persistence_id"], row["partition_nr"])
        for row in distinct
        if row["persistence_id"] in id_set
    ]
    events: dict[str, list[Row]] = {persistence_id: [] for persistence_id in persistence_ids}
    for (persistence_id, _), rows in zip(
        partition_keys, _partitions(control, settings, partition_keys), strict=True
    ):
        events[persistence_id] += rows
    return events


def _partitions(
    control: Control, settings: Settings, partition_keys: Sequence[tuple[str, int]]
) -> list[list[Row]]:
    columns = control.table_columns(settings.journal_keyspace, settings.journal_table) or {}
    older = "".join(f", {name}" for name in tables.OLDER_TAGS if name in columns)
    return control.execute_many(
        f"SELECT sequence_nr, timestamp, tags{older} FROM"
        f" {table(settings.journal_keyspace, settings.journal_table)}"
        f" WHERE persistence_id = ? AND partition_nr = ? AND {tables.OF_EVENTS}",
        partition_keys,
    )


def _entity(
    settings: Settings,
    persistence_id: str,
    events: Sequence[Row],
    progress_tags: frozenset[str],
    *,
    is_scanned: bool,
    is_known: bool,
) -> Entity:
    timestamps: dict[tuple[str, int], list[UUID]] = defaultdict(list)
    for event in events:
        for tag in tables.tags_of(event):
            timestamps[tag, _bucket(event, settings)].append(event["timestamp"])
    first = min(events, key=lambda event: event["sequence_nr"], default=None)
    return Entity(
        persistence_id,
        timestamps,
        first["sequence_nr"] if first else None,
        _bucket(first, settings) if first else None,
        progress_tags,
        is_scanned,
        is_known,
    )


def _bucket(event: Row, settings: Settings) -> int:
    epoch_ms = (event["timestamp"].time - keys.UUID_EPOCH_TICKS) // keys.TICKS_PER_MS
    return keys.time_bucket(epoch_ms, settings.bucket_size)
