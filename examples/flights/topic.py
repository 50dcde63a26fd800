"""The first days of the flights as kafka-journal's client would have appended them to a topic.

Each event is a separate record with the event's time as its timestamp. The records of a topic
partition always have the same order, so that a run after a crash continues after the last record.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from examples.flights import events, messages, source
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import KafkaUnavailable
from tidemark.journals.kafka.wire.action import HEADER
from tidemark.replicate.kafka.topics import Topics, client_settings
from tidemark.settings import Settings
from tidemark.window import to_millis

APPLICATION = "publish-flights"
PARTITIONS = 4
_BEGIN = datetime(2013, 1, 1, tzinfo=UTC)
_FLUSH_S = 60.0
_MAX_UNSENT = 10_000
"""The most records that the producer has accepted and not sent."""


def topic_of(settings: Settings) -> str:
    """Return the name of the topic."""
    return f"{settings.kafka_topic_prefix}-flights"


def publish_days(run: RunContext, days: int) -> Outcome:
    """Append the events of the first days of 2013 that the topic does not have yet.

    Raises:
        KafkaUnavailable: Kafka does not answer, or rejects a record.
    """
    settings, kafka = run.settings, Topics(run.settings)
    topic = topic_of(settings)
    existing = dict.fromkeys(range(PARTITIONS), 0)
    if partitions := [part for part in kafka.partitions() if part.topic == topic]:
        existing = {
            part.partition: offsets.end for part, offsets in kafka.offsets(partitions).items()
        }
    else:
        # The events are of 2013: a retention by time would delete them at once.
        kafka.create(topic, PARTITIONS, {"retention.ms": "-1"})
    end = _BEGIN + timedelta(days=days)
    flights = source.read_flights(run.spark, source.flights_file(), end + timedelta(days=1))
    numbered = events.number_events(events.to_events(flights))
    rows = records(numbered.where(F.col("event_ms") < to_millis(end)))
    run.say(f"appending the events of {days} days to {topic}")
    written = _append(client_settings(settings), topic, rows, existing)
    if not written:
        return Outcome(RunState.NOTHING, lines=[f"{topic} holds these events already"])
    return Outcome(RunState.DONE, PieceCounts(1, 1), {"records_written": written})


def records(numbered: DataFrame) -> DataFrame:
    """Return the records in their order.

    Columns in: those of `number_events`.
    Columns out: `partition`, `key`, `value`, `header` (bytes), `event_ms`.
    """
    event = F.struct(
        F.col("sequence_nr").alias("seqNr"),
        messages.tags().alias("tags"),
        F.lit("json").alias("payloadType"),
        messages.payload().alias("payload"),
    )
    value = F.struct(F.array(event).alias("events"), F.create_map().alias("metadata"))
    header = F.format_string(
        '{"append":{"range":{"from":%d,"to":%d},"origin":"flights","payloadType":"json",'
        '"metadata":{}}}',
        "sequence_nr",
        "sequence_nr",
    )
    return numbered.select(
        (F.crc32("persistence_id") % PARTITIONS).cast("int").alias("partition"),
        F.encode("persistence_id", "UTF-8").alias("key"),
        F.encode(F.to_json(value, {"ignoreNullFields": "true"}), "UTF-8").alias("value"),
        F.encode(header, "UTF-8").alias("header"),
        "event_ms",
    ).orderBy("event_ms", "rank_in_ms")


def _append(client: dict[str, Any], topic: str, rows: DataFrame, existing: dict[int, int]) -> int:
    """Append the records after the first `existing` of each partition; return their number."""
    errors: list[str] = []
    producer = Producer({**client, "enable.idempotence": True})
    seen = dict.fromkeys(existing, 0)
    written = 0
    for row in rows.toLocalIterator():
        seen[row["partition"]] += 1
        if seen[row["partition"]] <= existing[row["partition"]]:
            continue
        producer.produce(
            topic,
            key=bytes(row["key"]),
            value=bytes(row["value"]),
            partition=row["partition"],
            timestamp=row["event_ms"],
            headers=[(HEADER, bytes(row["header"]))],
            on_delivery=lambda error, _: errors.append(error.str()) if error else None,
        )
        written += 1
        if len(producer) > _MAX_UNSENT:
            producer.poll(1.0)
    if producer.flush(_FLUSH_S) or errors:
        raise KafkaUnavailable(
            f"Kafka did not take all records: {errors[0] if errors else 'no answer'}",
            where=client["bootstrap.servers"],
            do="run it again: it goes on behind the last one",
        )
    return written
