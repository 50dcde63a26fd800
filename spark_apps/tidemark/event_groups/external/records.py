"""The records of spans of offsets, by a client of Kafka's without a consumer group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as ClientPartition

from tidemark.replicate.kafka.topics import TopicPartition, client_settings, unavailable
from tidemark.settings import Settings

Spans = Mapping[TopicPartition, tuple[int, int]]
"""Offsets by topic partition: the first one, and the one behind the last."""
_TOGETHER = 200
"""The most records of a batch."""
_CONSUMER: Mapping[str, Any] = {
    # The client does not start without one; with assigned partitions no group is joined.
    "group.id": "tidemark",
    "enable.auto.commit": False,
    # A span may end in offsets without a record, such as those of a transaction's marks.
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}


@dataclass(frozen=True)
class TopicRecord:
    """A record as it stands in Kafka."""

    partition: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None

    def __str__(self) -> str:
        """Return `topic/partition@offset`."""
        return f"{self.partition}@{self.offset}"


@dataclass(frozen=True)
class RecordBatch:
    """Records, those of a partition in their order.

    Attributes:
        records: of all partitions.
        reached: the offset at which each partition that was read goes on.
    """

    records: Sequence[TopicRecord]
    reached: Mapping[TopicPartition, int]


def batches(settings: Settings, spans: Spans) -> Iterator[RecordBatch]:
    """Yield the records of spans, batch by batch.

    A span ends before its last offset if what stands there is of a transaction that is not over.

    Raises:
        KafkaUnavailable: Kafka does not answer, or does not hold all of them any more.
    """
    spans = {one: (first, end) for one, (first, end) in spans.items() if first < end}
    if not spans:
        return
    reader = _TopicReader(settings, spans)
    try:
        while batch := reader.batch():
            yield batch
    finally:
        reader.close()


class _TopicReader:
    """A consumer, and what is left of the spans."""

    def __init__(self, settings: Settings, spans: Spans) -> None:
        self._settings = settings
        self._left = {one: end for one, (_, end) in spans.items()}
        self._errors: list[KafkaError] = []
        own = {"error_cb": self._errors.append}
        self._consumer = Consumer({**client_settings(settings), **_CONSUMER, **own})
        self._consumer.assign(
            [ClientPartition(one.topic, one.partition, first) for one, (first, _) in spans.items()]
        )

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def batch(self) -> RecordBatch | None:
        """Return the next records; None behind the last."""
        records: list[TopicRecord] = []
        reached: dict[TopicPartition, int] = {}
        while self._left and len(records) < _TOGETHER:
            # It waits for the first record only: what has come by then makes a batch.
            message = self._consumer.poll(0 if reached else self._settings.kafka_timeout)
            if message is not None:
                self._take(message, records, reached)
            elif reached:
                break
            else:
                said = self._errors[-1].str() if self._errors else "no record has come"
                raise unavailable(self._settings, said)
        return RecordBatch(records, reached) if reached else None

    def _take(
        self, message: Message, records: list[TopicRecord], reached: dict[TopicPartition, int]
    ) -> None:
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise unavailable(self._settings, error.str())
        # The library's stubs leave open whether a message has them.
        one = TopicPartition(cast(str, message.topic()), cast(int, message.partition()))
        if one not in self._left:
            # It came after the run has begun.
            return
        offset, end = cast(int, message.offset()), self._left[one]
        if error is None and offset < end:
            records.append(TopicRecord(one, offset, message.key(), message.value()))
            offset += 1
        reached[one] = min(offset, end)
        if error is not None or offset >= end:
            del self._left[one]
            self._consumer.pause([ClientPartition(one.topic, one.partition)])
