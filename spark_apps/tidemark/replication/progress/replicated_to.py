"""Up to when a topic is replicated, for those who read its events.

A time bucket that has ended by then is complete, but for records that their producer had stamped
and not sent yet. Of a topic that kafka-journal's own replicator writes, nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.replication.kafka.topics import TopicPartition
from tidemark.replication.plan import reached
from tidemark.window import Window, from_millis, to_millis

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
    if run.control.table_columns(run.settings.keyspace, _TABLE) is None:
        return None
    times = _times(run, [topic])
    known = reached(run.control, run.settings, list(times)).values()
    if not known or any(
        one.pointer >= (one.newest.range.end if one.newest else 0) for one in known
    ):
        return None
    return min(times.values())


def complete(run: RunContext, begins: Mapping[TopicPartition, datetime]) -> dict[str, Window]:
    """Return the time buckets of each topic, from its first record on, that are replicated.

    A topic none of whose time buckets is complete is left out.

    Args:
        run: the context of the run that has replicated them.
        begins: the time of the first record of each partition.
    """
    size = run.settings.bucket_size.milliseconds
    spans: dict[str, Window] = {}
    times = _times(run, {one.topic for one in begins})
    for topic in {one.topic for one in times}:
        begin = min(at for one, at in begins.items() if one.topic == topic)
        until = min(at for one, at in times.items() if one.topic == topic)
        first, end = (to_millis(at) // size * size for at in (begin, until))
        if first < end:
            spans[topic] = Window(from_millis(first), from_millis(end))
    return spans


def _times(run: RunContext, topics: Iterable[str]) -> dict[TopicPartition, datetime]:
    """Return up to when each partition of topics is replicated."""
    rows = run.control.execute_many(
        "SELECT topic, partition, replicated_to"
        f" FROM {table(run.settings.keyspace, _TABLE)} WHERE journal_keyspace = ? AND topic = ?",
        [(run.settings.kafka_journal_keyspace, topic) for topic in topics],
    )
    return {
        TopicPartition(row["topic"], row["partition"]): row["replicated_to"].replace(tzinfo=UTC)
        for of_topic in rows
        for row in of_topic
    }
