"""Up to when a topic is replicated, for those who read its events.

A time bucket that has ended by then is complete, but for records that their producer had stamped
and not sent yet. Of a topic that kafka-journal's own replicator writes, nothing is known.
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
        at: all records before this time are, but for those of held keys.
        end: so are all before this offset.
    """

    at: datetime
    end: int


def write(run: RunContext, reached_by: Mapping[TopicPartition, UpTo]) -> None:
    """Record how far partitions are replicated.

    It never goes back, whichever run is the last to write.
    """
    _write(run, reached_by, {one: _write_time(up_to) for one, up_to in reached_by.items()})


def begin_anew(run: RunContext, partitions: Sequence[TopicPartition]) -> None:
    """Record that nothing of partitions is replicated: somebody has emptied their keyspace."""
    before = _stored(run, {one.topic for one in partitions})
    emptied = [one for one in partitions if one in before]
    write_times = {one: _write_time(before[one]) + 1 for one in emptied}
    _write(run, dict.fromkeys(emptied, UpTo(EPOCH, 0)), write_times)


def keep_only(run: RunContext, partitions: Sequence[TopicPartition]) -> None:
    """Forget the partitions of the same topics that Kafka has no more: a topic was made anew."""
    stored = _stored(run, {partition.topic for partition in partitions})
    absent = stored.keys() - {*partitions}
    run.control.execute_many(
        f"DELETE FROM {table(run.settings.keyspace, _TABLE)}"
        " WHERE journal_keyspace = ? AND topic = ? AND partition = ?",
        [(run.settings.kafka_journal_keyspace, one.topic, one.partition) for one in absent],
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
                *(run.settings.kafka_journal_keyspace, one.topic, one.partition),
                *(up_to.at, up_to.end, run.run_id, write_times[one]),
            )
            for one, up_to in reached_by.items()
        ],
    )


def _write_time(up_to: UpTo) -> int:
    """Return the write time of a row, by which a later one wins, in microseconds."""
    return to_millis(up_to.at) * 1000


def read(run: RunContext, topic: str) -> datetime | None:
    """Return up to when a topic is replicated; None if `replicate` is not its replicator.

    It is not where it never was, nor where a pointer is beyond all that it has done.
    """
    if run.control.table_columns(run.settings.keyspace, _TABLE) is None:
        return None
    stored = _stored(run, [topic])
    known = reached(run.control, run.settings, list(stored))
    if not stored or any(_is_foreign(known[one], up_to) for one, up_to in stored.items()):
        return None
    return min(up_to.at for up_to in stored.values())


def _is_foreign(known: Reached, up_to: UpTo) -> bool:
    """Return whether a pointer is beyond all that `replicate` has done, or has found there."""
    done = known.newest.range.end if known.newest else 0
    return known.pointer >= max(up_to.end, done)


def complete(run: RunContext, begins: Mapping[TopicPartition, datetime]) -> dict[str, Window]:
    """Return the time buckets of each topic, from its first record on, that are replicated.

    A topic none of whose time buckets is complete is left out.

    Args:
        run: the context of the run that has replicated them.
        begins: the time of the first record of each partition.
    """
    size = run.settings.bucket_size.milliseconds
    spans: dict[str, Window] = {}
    stored = _stored(run, {one.topic for one in begins})
    for topic in {one.topic for one in stored}:
        until = min(up_to.at for one, up_to in stored.items() if one.topic == topic)
        # A clock was wrong if the first record is of the future. What ends by now is complete.
        known = [at for one, at in begins.items() if one.topic == topic and at <= clock.now()]
        begin = min(known, default=max(EPOCH, until - timedelta(milliseconds=size)))
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
        for of_topic in rows
        for row in of_topic
    }
