"""Appends records to topics of Kafka."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tidemark.event_groups.failure import EventFailed
from tidemark.replicate.kafka.topics import client_settings
from tidemark.settings import Settings


def append(settings: Settings, topic: str, key: str, value: str, timeout: float) -> None:
    """Append one record, and wait until Kafka has stored it.

    Raises:
        EventFailed: there is no such topic, or Kafka does not store it within `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    errors: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        errors.append(error)

    limits = {"message.timeout.ms": round(timeout * 1000), "enable.idempotence": True}
    try:
        producer = Producer({**client_settings(settings), **limits})
        if producer.list_topics(topic, timeout).topics[topic].error is not None:
            raise EventFailed(f"Kafka has no topic {topic}")
        producer.produce(topic, value.encode(), key.encode(), on_delivery=delivered)
        producer.flush(max(deadline - time.monotonic(), 0.0))
    except KafkaException as error:
        raise EventFailed(f"the topic {topic} has not taken it: {error.args[0].str()}") from None
    if not errors or errors[0] is not None:
        reason = errors[0].str() if errors and errors[0] else f"no answer within {timeout:g} s"
        raise EventFailed(f"the topic {topic} has not taken it: {reason}")
