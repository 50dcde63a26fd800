"""Purge records that Kafka does not take, with a producer in place of Kafka's."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from pyspark.sql import SparkSession

from tidemark.errors import KafkaUnavailable
from tidemark.purge.kafka_journal import send
from tidemark.purge.kafka_journal.shapes import EXPIRED
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import ddl


class Broker:
    """Topics, of which some refuse all records: by their answer, or at once."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, int, bytes]] = []
        self.refusing: dict[str, int] = {}
        self.unknown: set[str] = set()
        self.configurations: list[dict[str, Any]] = []

    def producer(self, configuration: dict[str, Any]) -> Producer:
        self.configurations.append(configuration)
        return Producer(self)


class Producer:
    """A client of Kafka's, which answers when it is polled or flushed."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def produce(
        self, topic: str, *, key: bytes, partition: int, on_delivery: Any, **_: Any
    ) -> None:
        if topic in self._broker.unknown:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        code = self._broker.refusing.get(topic)
        if code is None:
            self._broker.taken.append((topic, partition, key))
        error = None if code is None else KafkaError(code)
        self._waiting.append(lambda: on_delivery(error, None))

    def poll(self, _: float) -> None:
        if self._waiting:
            self._waiting.pop(0)()

    def flush(self) -> None:
        while self._waiting:
            self._waiting.pop(0)()


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    one = Broker()
    monkeypatch.setattr(send, "Producer", one.producer)
    return one


def sent(spark: SparkSession, checks: list[None] | None = None) -> int:
    """Send a Purge record to each of the journals a/0 k, a/1 l, b/0 m."""
    rows = [("a", "k", 0), ("a", "l", 1), ("b", "m", 0)]
    frame = local_rows(spark, [(*row, 1, 1, 0, None, 0, 1) for row in rows], ddl(EXPIRED))
    settings = Settings(kafka_username="app", kafka_timeout=2)
    run: Any = SimpleNamespace(settings=settings, owner="here")
    return send.send_purges(run, frame, lambda: (checks if checks is not None else []).append(None))


def test_each_record_is_sent_to_the_partition_of_its_journal(
    spark: SparkSession, broker: Broker
) -> None:
    checks: list[None] = []
    assert sent(spark, checks) == 3
    assert broker.taken == [("a", 0, b"k"), ("a", 1, b"l"), ("b", 0, b"m")]
    assert len(checks) == 2
    for one in broker.configurations:
        assert (one["acks"], one["enable.idempotence"]) == ("all", True)
        assert one["message.timeout.ms"] == 2000


@pytest.mark.parametrize(
    "code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED]
)
def test_a_user_who_may_not_write_is_named(spark: SparkSession, broker: Broker, code: int) -> None:
    broker.refusing["a"] = code
    with pytest.raises(KafkaUnavailable) as refused:
        sent(spark)
    line = str(refused.value)
    assert "1 topic of 2 did not take all Purge records, such as a: " in line
    assert "1 journal is purged" in line
    assert "let app write the topic" in line
    assert broker.taken == [("b", 0, b"m")]


def test_a_partition_that_the_client_does_not_know_fails_its_topic_only(
    spark: SparkSession, broker: Broker
) -> None:
    broker.unknown.add("a")
    with pytest.raises(KafkaUnavailable, match=r"such as a: .*; 1 journal is purged"):
        sent(spark)
    assert broker.taken == [("b", 0, b"m")]
