"""The pointer of each topic partition, up to which it is replicated: `pointer2`.

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
    """Read the pointers of partitions; partitions without replicated records have none."""
    tps = list(partitions)
    rows_by_tp = control.execute_many(
        f"SELECT offset FROM {_table(settings)} WHERE topic = ? AND partition = ?",
        [(tp.topic, tp.partition) for tp in tps],
    )
    return {tp: rows[0]["offset"] for tp, rows in zip(tps, rows_by_tp, strict=True) if rows}


def write(
    control: Control, settings: Settings, pointers: Pointers, at: datetime, former: Pointers
) -> None:
    """Write pointers, which must be higher than the known ones; `at` is the time of the run."""
    new = [tp for tp in pointers if tp not in former]
    control.execute_many(
        f"INSERT INTO {_table(settings)} (topic, partition, offset, created, updated)"
        " VALUES (?, ?, ?, ?, ?)",
        [(tp.topic, tp.partition, pointers[tp], at, at) for tp in new],
    )
    control.execute_many(
        f"UPDATE {_table(settings)} SET offset = ?, updated = ? WHERE topic = ? AND partition = ?",
        [(pointers[tp], at, tp.topic, tp.partition) for tp in pointers if tp in former],
    )


def _table(settings: Settings) -> str:
    return table(settings.kafka_journal_keyspace, settings.kafka_pointer_table)
