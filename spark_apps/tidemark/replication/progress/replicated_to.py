"""Up to when a topic is replicated, for those who read its events.

A time bucket that has ended by then is complete, but for records that their producer had stamped
and not sent yet. Of a topic that kafka-journal's own replicator writes, nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.replication.kafka.topics import TopicPartition
from tidemark.replication.plan import reached
from tidemark.window import to_millis

_TABLE = "replicated_topic"


def write(run: RunContext, partitions: Iterable[TopicPartition], at: datetime) -> None:
    """Record that partitions are replicated up to where they ended at a time.

    It never goes back, whichever run is the last to write.
    """
    run.control.execute_many(
        f"INSERT INTO {table(run.settings.keyspace, _TABLE)}"
        " (journal_keyspace, topic, partition, replicated_to, run_id) VALUES (?, ?, ?, ?, ?)"
        " USING TIMESTAMP ?",
        [
            (
                *(run.settings.kafka_journal_keyspace, one.topic, one.partition),
                *(at, run.run_id, to_millis(at) * 1000),
            )
            for one in partitions
        ],
    )


def read(run: RunContext, topic: str) -> datetime | None:
    """Return up to when a topic is replicated; None if `replicate` is not its replicator.

    It is not where it never was, nor where a pointer is beyond all that it has done.
    """
    settings = run.settings
    if run.control.table_columns(settings.keyspace, _TABLE) is None:
        return None
    rows = run.control.execute(
        f"SELECT partition, replicated_to FROM {table(settings.keyspace, _TABLE)}"
        " WHERE journal_keyspace = ? AND topic = ?",
        (settings.kafka_journal_keyspace, topic),
    )
    partitions = [TopicPartition(topic, row["partition"]) for row in rows]
    known = reached(run.control, settings, partitions).values()
    if not rows or any(one.pointer >= (one.newest.range.end if one.newest else 0) for one in known):
        return None
    oldest: datetime = min(row["replicated_to"] for row in rows)
    return oldest.replace(tzinfo=UTC)
