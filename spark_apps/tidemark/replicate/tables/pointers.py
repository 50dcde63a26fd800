"""How far each topic partition is replicated: `pointer2`.

Source: com.evolution.kafka.journal.eventual.cassandra.Pointer2Statements (11.0.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.settings import Settings

Pointers = Mapping[TopicPartition, int]
"""The offset of the last replicated record, by topic partition."""


def read(control: Control, settings: Settings, partitions: Iterable[TopicPartition]) -> Pointers:
    """Read the pointers of partitions; one of which nothing is replicated has none."""
    wanted = list(partitions)
    found = control.execute_many(
        f"SELECT offset FROM {_table(settings)} WHERE topic = ? AND partition = ?",
        [(one.topic, one.partition) for one in wanted],
    )
    return {one: rows[0]["offset"] for one, rows in zip(wanted, found, strict=True) if rows}


def write(
    control: Control, settings: Settings, pointers: Pointers, at: datetime, known: Pointers
) -> None:
    """Write pointers, which must be higher than the known ones; `at` is the time of the run."""
    new = [one for one in pointers if one not in known]
    control.execute_many(
        f"INSERT INTO {_table(settings)} (topic, partition, offset, created, updated)"
        " VALUES (?, ?, ?, ?, ?)",
        [(one.topic, one.partition, pointers[one], at, at) for one in new],
    )
    control.execute_many(
        f"UPDATE {_table(settings)} SET offset = ?, updated = ? WHERE topic = ? AND partition = ?",
        [(pointers[one], at, one.topic, one.partition) for one in pointers if one in known],
    )


def _table(settings: Settings) -> str:
    return table(settings.kafka_journal_keyspace, settings.kafka_pointer_table)
