"""Up to when a topic is replicated, for readers of its events.

A time bucket that has ended by then is complete, except for records that their producer had
stamped and not sent yet. It is unknown for a topic that kafka-journal's own replicator writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from tidemark import clock
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.replicate.plan import Reached, reached
from tidemark.window import EPOCH, Window, from_millis, to_millis

_TABLE = "replicated_topic"


class UpTo(NamedTuple):
    """How far a topic partition is replicated.

    Attributes:
        at: all records before this time are replicated, except those of held keys.
        end: all records before this offset are, too.
    """

    at: datetime
    end: int


def write(run: RunContext, reached_by: Mapping[TopicPartition, UpTo]) -> None:
    """Record how far partitions are replicated.

    It never decreases, whichever run writes last.
    """
    _write(run, reached_by, {tp: _write_time(up_to) for tp, up_to in reached_by.items()})


def begin_anew(run: RunContext, partitions: Sequence[TopicPartition]) -> None:
    """Record that nothing of partitions is replicated: somebody has emptied their keyspace."""
    before = _stored(run, {tp.topic for tp in partitions})
    emptied = [tp for tp in partitions if tp in before]
    write_times = {tp: _write_time(before[tp]) + 1 for tp in emptied}
    _write(run, dict.fromkeys(emptied, UpTo(EPOCH, 0)), write_times)


def keep_only(run: RunContext, partitions: Sequence[TopicPartition]) -> None:
    """Delete partitions of the same topics that Kafka no longer has: a topic was recreated."""
    stored = _stored(run, {partition.topic for partition in partitions})
    absent = stored.keys() - {*partitions}
    run.control.execute_many(
        f"DELETE FROM {table(run.settings.keyspace, _TABLE)}"
        " WHERE journal_keyspace = ? AND topic = ? AND partition = ?",
        [(run.settings.kafka_journal_keyspace, tp.topic, tp.partition) for tp in absent],
    )


def _write(
    run: RunContext,
    reached_by: Mapping[TopicPartition, UpTo],
    write_times: Mapping[TopicPartition, int],
) -> None:
    run.control.execute_many(
        f"INSERT INTO {table(run.settings.keyspace, _TABLE)}"
        " (journal_keyspace, topic, partition, replicated_to, end_offset, run_id)"
        " VALUES (?, ?, ?, ?, ?, ?) USING TIMESTAMP ?",
        [
            (
                *(run.settings.kafka_journal_keyspace, tp.topic, tp.partition),
                *(up_to.at, up_to.end, run.run_id, write_times[tp]),
            )
            for tp, up_to in reached_by.items()
        ],
    )


def _write_time(up_to: UpTo) -> int:
    """Return the write time of a row, by which a later row wins, in microseconds."""
    return to_millis(up_to.at) * 1000


def read(run: RunContext, topic: str) -> datetime | None:
    """Return up to when a topic is replicated; None if `replicate` is not its replicator.

    It is not if it never replicated the topic, or if a pointer is beyond all its ranges.
    """
    if run.control.table_columns(run.settings.keyspace, _TABLE) is None:
        return None
    stored = _stored(run, [topic])
    positions = reached(run.control, run.settings, list(stored))
    if not stored or any(_is_foreign(positions[tp], up_to) for tp, up_to in stored.items()):
        return None
    return min(up_to.at for up_to in stored.values())


def _is_foreign(position: Reached, up_to: UpTo) -> bool:
    """Return whether a pointer is beyond all that `replicate` has done or found."""
    done = position.newest.range.end if position.newest else 0
    return position.pointer >= max(up_to.end, done)


def complete(run: RunContext, begins: Mapping[TopicPartition, datetime]) -> dict[str, Window]:
    """Return the time buckets of each topic, from its first record on, that are replicated.

    Topics without a complete time bucket are left out. `begins` has the time of the first record
    of each partition.
    """
    size = run.settings.bucket_size.milliseconds
    spans: dict[str, Window] = {}
    stored = _stored(run, {tp.topic for tp in begins})
    for topic in {tp.topic for tp in stored}:
        until = min(up_to.at for tp, up_to in stored.items() if tp.topic == topic)
        # A first record from the future has a wrong time. Buckets that have ended are complete.
        begin_times = [at for tp, at in begins.items() if tp.topic == topic and at <= clock.now()]
        begin = min(begin_times, default=max(EPOCH, until - timedelta(milliseconds=size)))
        first, end = (to_millis(at) // size * size for at in (begin, until))
        if first < end:
            spans[topic] = Window(from_millis(first), from_millis(end))
    return spans


def _stored(run: RunContext, topics: Iterable[str]) -> dict[TopicPartition, UpTo]:
    """Return how far each partition of topics is replicated."""
    rows = run.control.execute_many(
        "SELECT topic, partition, replicated_to, end_offset"
        f" FROM {table(run.settings.keyspace, _TABLE)} WHERE journal_keyspace = ? AND topic = ?",
        [(run.settings.kafka_journal_keyspace, topic) for topic in topics],
    )
    return {
        TopicPartition(row["topic"], row["partition"]): UpTo(
            row["replicated_to"].replace(tzinfo=UTC), row["end_offset"] or 0
        )
        for topic_rows in rows
        for row in topic_rows
    }
