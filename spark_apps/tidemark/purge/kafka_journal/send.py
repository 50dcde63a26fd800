"""Sends Purge records for expired journals, as kafka-journal's PurgeExpired does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from pyspark.sql import DataFrame, Row

from tidemark import clock
from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.errors import KafkaUnavailable
from tidemark.journals.kafka.wire import action
from tidemark.purge.kafka_journal.shapes import EXPIRED
from tidemark.replicate.kafka.topics import client_settings
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped
from tidemark.text import counted
from tidemark.window import to_millis

_AT_ONCE = 1_000
"""Records between two checks of the lock."""
_WAITING = 10_000
"""Unsent records that the producer may buffer."""


@shaped(journals=EXPIRED)
def send_purges(run: RunContext, journals: DataFrame, ensure_locked: EnsureLocked) -> int:
    """Append a Purge record for each journal to its topic partition.

    The journals are streamed through this process, a partition of the frame at a time. If a topic
    rejects a record, its other journals are left out; those of the other topics are purged.

    Returns:
        The number of records that all in-sync replicas have acknowledged.

    Raises:
        KafkaUnavailable: a topic has not accepted all its records.
        LockLost: another run may purge the journals.
    """
    rows = journals.select("topic", "partition", "id").orderBy("topic", "partition", "id")
    results = [
        _send(run, topic, journal_rows, ensure_locked)
        for topic, journal_rows in groupby(rows.toLocalIterator(), lambda row: str(row["topic"]))
    ]
    acknowledged = sum(result.acknowledged for result in results)
    if failed := [result for result in results if result.errors]:
        first = failed[0]
        topics = counted(len(failed), "topic")
        raise KafkaUnavailable(
            f"{topics} of {len(results)} did not take all Purge records, such as {first.topic}:"
            f" {first.errors[0].str()}; {_are_purged(acknowledged)}",
            where=run.settings.kafka_bootstrap_servers,
            do=first.remedy(run.settings),
        )
    return acknowledged


def _are_purged(number: int) -> str:
    return f"{counted(number, 'journal')} {'is' if number == 1 else 'are'} purged"


@dataclass
class _Sent:
    """Kafka's answers to the records of a topic."""

    topic: str
    acknowledged: int = 0
    errors: list[KafkaError] = field(default_factory=list)

    def delivered(self, error: KafkaError | None, _: Any) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.errors.append(error)

    def remedy(self, settings: Settings) -> str:
        if self.errors[0].code() in (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        ):
            user = settings.kafka_username or "the user of this run"
            return f"let {user} write the topic (Write, and IdempotentWrite of old brokers)"
        return "the next run sends the others"


def _send(
    run: RunContext, topic: str, journals: Iterable[Row], ensure_locked: EnsureLocked
) -> _Sent:
    """Send the Purge records of a topic with a producer of its own, until the first error."""
    settings, sent = run.settings, _Sent(topic)
    limits = {
        "acks": "all",
        "enable.idempotence": True,
        "message.timeout.ms": round(settings.kafka_timeout * 1000),
    }
    producer = Producer({**client_settings(settings), **limits})
    header = (action.HEADER, action.purge_header(run.owner))
    try:
        for number, journal in enumerate(journals):
            if number % _AT_ONCE == 0:
                ensure_locked()
            producer.produce(
                topic,
                key=journal["id"].encode(),
                partition=journal["partition"],
                timestamp=to_millis(clock.now()),
                headers=[header],
                on_delivery=sent.delivered,
            )
            producer.poll(1.0 if len(producer) > _WAITING else 0)
            if sent.errors:
                break
    except KafkaException as error:
        sent.errors.append(error.args[0])
    # By its timeout each record is acknowledged or has failed.
    producer.flush()
    return sent
