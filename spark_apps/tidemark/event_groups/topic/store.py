"""The offsets that streams have reached in topics, and the records that were rejected."""

from __future__ import annotations

from collections.abc import Mapping

from tidemark import clock
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.event_groups.external.records import TopicRecord
from tidemark.replicate.kafka.topics import TopicPartition

SOURCE = "event_group_source"
QUARANTINE = "quarantined_group"


class TopicSource:
    """The offsets of a stream in topics, and its rejected records."""

    def __init__(self, run: RunContext, stream: str) -> None:
        self._run, self._stream = run, stream
        self._source, self._quarantine = (
            table(run.settings.keyspace, name) for name in (SOURCE, QUARANTINE)
        )

    def offsets(self, topic: str) -> dict[TopicPartition, int]:
        """Return the next offset of each partition that was read before."""
        rows = self._run.control.execute(
            f"SELECT partition, next_offset FROM {self._source} WHERE stream = ? AND topic = ?",
            (self._stream, topic),
        )
        return {TopicPartition(topic, row["partition"]): row["next_offset"] for row in rows}

    def move(self, reached: Mapping[TopicPartition, int]) -> None:
        """Store the next offsets of partitions."""
        now = clock.now()
        self._run.control.execute_many(
            f"INSERT INTO {self._source}"
            " (stream, topic, partition, next_offset, run_id, updated_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            [
                (self._stream, partition.topic, partition.partition, offset, self._run.run_id, now)
                for partition, offset in reached.items()
            ],
        )

    def quarantine(self, record: TopicRecord, cause: str) -> None:
        """Upsert the row of a rejected record, with its evidence."""
        row = {
            "stream": self._stream,
            "topic": record.partition.topic,
            "partition": record.partition.partition,
            "offset": record.offset,
            "cause": cause,
            "key": record.key,
            "value": record.value,
            "run_id": self._run.run_id,
            "found_at": clock.now(),
        }
        self._run.control.execute(
            f"INSERT INTO {self._quarantine} ({', '.join(row)})"
            f" VALUES ({', '.join('?' * len(row))}) USING TTL ?",
            [*row.values(), self._run.settings.keep_reports_seconds],
        )
