"""Reads the records of spans of offsets, with a Kafka client that has no consumer group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as ClientPartition

from tidemark.replicate.kafka.topics import TopicPartition, client_settings, unavailable
from tidemark.settings import Settings

Spans = Mapping[TopicPartition, tuple[int, int]]
"""Offsets by topic partition: the first one, and the one after the last."""
_TOGETHER = 200
"""The maximum number of records in a batch."""
_CONSUMER: Mapping[str, Any] = {
    # The client needs an id to start; with assigned partitions it joins no group.
    "group.id": "tidemark",
    "enable.auto.commit": False,
    # A span may end with offsets without a record, such as transaction markers.
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}


@dataclass(frozen=True)
class TopicRecord:
    """A record of Kafka."""

    partition: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None

    def __str__(self) -> str:
        """Return `topic/partition@offset`."""
        return f"{self.partition}@{self.offset}"


@dataclass(frozen=True)
class RecordBatch:
    """Records; those of a partition are in order.

    Attributes:
        records: of all partitions.
        reached: the next offset of each partition that was read.
    """

    records: Sequence[TopicRecord]
    reached: Mapping[TopicPartition, int]


def batches(settings: Settings, spans: Spans) -> Iterator[RecordBatch]:
    """Yield the records of spans, batch by batch.

    A span ends early if its last records belong to a transaction that is still open.

    Raises:
        KafkaUnavailable: Kafka does not answer, or some of the records do not exist any more.
    """
    spans = {partition: (first, end) for partition, (first, end) in spans.items() if first < end}
    if not spans:
        return
    reader = _TopicReader(settings, spans)
    try:
        while batch := reader.batch():
            yield batch
    finally:
        reader.close()


class _TopicReader:
    """A consumer, and the rest of the spans."""

    def __init__(self, settings: Settings, spans: Spans) -> None:
        self._settings = settings
        self._ends = {p: end for p, (_, end) in spans.items()}
        self._errors: list[KafkaError] = []
        error_callback = {"error_cb": self._errors.append}
        self._consumer = Consumer({**client_settings(settings), **_CONSUMER, **error_callback})
        self._consumer.assign(
            [ClientPartition(p.topic, p.partition, first) for p, (first, _) in spans.items()]
        )

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def batch(self) -> RecordBatch | None:
        """Return the next records; None after the last."""
        records: list[TopicRecord] = []
        reached: dict[TopicPartition, int] = {}
        while self._ends and len(records) < _TOGETHER:
            # Waits for the first record only: the records that have arrived by then are a batch.
            message = self._consumer.poll(0 if reached else self._settings.kafka_timeout)
            if message is not None:
                self._take(message, records, reached)
            elif reached:
                break
            else:
                reason = self._errors[-1].str() if self._errors else "no record has come"
                raise unavailable(self._settings, reason)
        return RecordBatch(records, reached) if reached else None

    def _take(
        self, message: Message, records: list[TopicRecord], reached: dict[TopicPartition, int]
    ) -> None:
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise unavailable(self._settings, error.str())
        # In the library's stubs these may be None.
        partition = TopicPartition(cast(str, message.topic()), cast(int, message.partition()))
        if partition not in self._ends:
            # The record arrived after the start of the run.
            return
        offset, end = cast(int, message.offset()), self._ends[partition]
        if error is None and offset < end:
            records.append(TopicRecord(partition, offset, message.key(), message.value()))
            offset += 1
        reached[partition] = min(offset, end)
        if error is not None or offset >= end:
            del self._ends[partition]
            self._consumer.pause([ClientPartition(partition.topic, partition.partition)])
