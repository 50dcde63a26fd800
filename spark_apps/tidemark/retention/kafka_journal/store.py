"""The writes of a purge of kafka-journal, in their order.

`begin`, `mark_deleted`, `delete_segments`, `delete_heads`, `end`: the head is marked, then the
events go, then the head, as in kafka-journal's own purge (docs/real-systems.md, "Order of writes").
Every delete carries the write time of the newest thing that was read, so that what is written later
is never touched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC

from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.kafka_journal import segment_size
from tidemark.retention.kafka_journal.journals import Head, Journal
from tidemark.settings import Settings
from tidemark.window import to_millis

BEGUN = "kafka_journal_purge"
_WRITTEN = (
    "partition",
    "offset",
    "segment_size",
    "seq_nr",
    "delete_to",
    "created",
    "created_date",
    "updated",
    "expire_after",
    "expire_on",
    "record_id",
    "origin",
)
"""The columns of a head that its replicator may write."""
_HEAD = "topic = ? AND segment = ? AND id = ?"


@dataclass(frozen=True)
class Begun:
    """A journal that a purge has begun to delete."""

    topic: str
    id: str
    first_segment: int
    last_segment: int
    deleted_to: int
    write_time: int


@dataclass(frozen=True)
class Doomed:
    """A journal that goes now; its deletes carry `write_time`, in microseconds."""

    journal: Journal
    write_time: int


def begun(control: Control, settings: Settings, topics: Collection[str]) -> list[Begun]:
    """Read the journals of some topics that a killed run may have left half-deleted."""
    rows_by_topic = control.execute_many(
        "SELECT topic, id, first_segment, last_segment, deleted_to, write_time"
        f" FROM {table(settings.keyspace, BEGUN)} WHERE journal_keyspace = ? AND topic = ?",
        [(settings.kafka_journal_keyspace, topic) for topic in sorted(topics)],
    )
    return [Begun(**row) for rows in rows_by_topic for row in rows]


def heads(
    control: Control, settings: Settings, keys: Sequence[tuple[str, int, str]]
) -> list[tuple[Head, int] | None]:
    """Read heads by (topic, segment, id), each with its newest write time; None without a row."""
    times = ", ".join(f"WRITETIME({name}) AS {name}_at" for name in _WRITTEN)
    rows = control.execute_many(
        "SELECT topic, segment, id, partition, offset, segment_size, seq_nr, delete_to, expire_on,"
        f" updated, {times} FROM {_metajournal(settings)} WHERE {_HEAD}",
        keys,
    )
    return [_head(found[0]) if found else None for found in rows]


def begin(control: Control, settings: Settings, doomed: Sequence[Doomed], run_id: str) -> None:
    """Note what is about to go: a head that is marked says no more which segments there were."""
    control.execute_many(
        f"INSERT INTO {table(settings.keyspace, BEGUN)} (journal_keyspace, topic, id,"
        " first_segment, last_segment, deleted_to, write_time, run_id)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                settings.kafka_journal_keyspace,
                one.journal.head.topic,
                one.journal.head.id,
                one.journal.first_segment,
                one.journal.last_segment,
                one.journal.head.deletes_to,
                one.write_time,
                run_id,
            )
            for one in doomed
        ],
    )


def mark_deleted(control: Control, settings: Settings, doomed: Sequence[Doomed]) -> None:
    """Write heads as deleted up to their end: no reader sees an event from now on."""
    control.execute_many(
        f"UPDATE {_metajournal(settings)} USING TIMESTAMP ? SET delete_to = ?, seq_nr = ?"
        f" WHERE {_HEAD}",
        [
            (one.write_time, head.deletes_to, head.deletes_to, head.topic, head.segment, head.id)
            for one in doomed
            if (head := one.journal.head)
        ],
    )


def delete_segments(
    control: Control, settings: Settings, places: Sequence[tuple[str, str, int, int, int]]
) -> None:
    """Delete whole partitions of journal, given as (id, topic, first and last segment, time)."""
    journal = table(settings.kafka_journal_keyspace, settings.kafka_journal_table)
    control.execute_many(
        f"DELETE FROM {journal} USING TIMESTAMP ? WHERE id = ? AND topic = ? AND segment = ?",
        [
            (write_time, journal_id, topic, segment)
            for journal_id, topic, first, last, write_time in places
            for segment in range(first, last + 1)
        ],
    )


def survivors(control: Control, settings: Settings, doomed: Sequence[Doomed]) -> set[int]:
    """Return the places in `doomed` of journals that still have rows: newer than was read."""
    journal = table(settings.kafka_journal_keyspace, settings.kafka_journal_table)
    keys = list(_segments(doomed))
    rows = control.execute_many(
        f"SELECT seq_nr FROM {journal} WHERE id = ? AND topic = ? AND segment = ? LIMIT 1",
        [key[1:] for key in keys],
    )
    return {key[0] for key, found in zip(keys, rows, strict=True) if found}


def delete_heads(control: Control, settings: Settings, doomed: Sequence[Doomed]) -> None:
    """Delete the heads, which is the end of the journals."""
    control.execute_many(
        f"DELETE FROM {_metajournal(settings)} USING TIMESTAMP ? WHERE {_HEAD}",
        [
            (one.write_time, head.topic, head.segment, head.id)
            for one in doomed
            if (head := one.journal.head)
        ],
    )


def end(control: Control, settings: Settings, journals: Sequence[tuple[str, str]]) -> None:
    """Forget journals, by (topic, id), of which nothing is half-deleted any more."""
    control.execute_many(
        f"DELETE FROM {table(settings.keyspace, BEGUN)}"
        " WHERE journal_keyspace = ? AND topic = ? AND id = ?",
        [(settings.kafka_journal_keyspace, *journal) for journal in journals],
    )


def _segments(doomed: Sequence[Doomed]) -> Iterator[tuple[int, str, str, int]]:
    for place, one in enumerate(doomed):
        for segment in range(one.journal.first_segment, one.journal.last_segment + 1):
            yield place, one.journal.head.id, one.journal.head.topic, segment


def _head(row: Row) -> tuple[Head, int]:
    head = Head(
        row["topic"],
        row["id"],
        row["segment"],
        segment_size.of_value(row["segment_size"]),
        row["partition"],
        row["offset"],
        row["seq_nr"] or 0,
        row["delete_to"],
        str(row["expire_on"]),
        to_millis(row["updated"].replace(tzinfo=UTC)) if row["updated"] else 0,
    )
    return head, max((at for name in _WRITTEN if (at := row[f"{name}_at"])), default=0)


def _metajournal(settings: Settings) -> str:
    return table(settings.kafka_journal_keyspace, settings.kafka_metajournal_table)
