"""Reads records of topics as frames, with Spark's Kafka source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession

from tidemark.journals.kafka.wire.shapes import RECORDS
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped

Spans = Mapping[TopicPartition, tuple[int, int]]
"""Offsets by topic partition: the first, and the one after the last."""

_OFFSETS_OF_A_TASK = 20_000
"""Fewer offsets are not worth a task, with its Python process, for each topic partition."""


@shaped(returns=RECORDS)
def records(spark: SparkSession, settings: Settings, spans: Spans) -> DataFrame:
    """Return the records of spans of offsets; each evaluation of the frame reads Kafka again.

    Raises (in the job): Kafka no longer has all of them.
    """
    options = {
        **_connection(settings),
        "assign": json.dumps(_by_topic((tp, tp.partition) for tp in spans)),
        "startingOffsets": _offsets((tp, first) for tp, (first, _) in spans.items()),
        "endingOffsets": _offsets((tp, end) for tp, (_, end) in spans.items()),
        "includeHeaders": "true",
        # Without records of aborted transactions, as for kafka-journal's consumers.
        "kafka.isolation.level": "read_committed",
        # All records to read exist. By default Kafka would let each consumer wait half a second,
        # since the consumer reads the end of its partition first.
        "kafka.fetch.max.wait.ms": "10",
        "failOnDataLoss": "true",
    }
    frame = spark.read.format("kafka").options(**options).load().select(*RECORDS)
    return frame.coalesce(tasks_of(spark, spans))


def tasks_of(spark: SparkSession, spans: Spans) -> int:
    """Return into how many tasks the work on spans of offsets is split."""
    offsets = sum(end - first for first, end in spans.values())
    return max(spark.sparkContext.defaultParallelism, offsets // _OFFSETS_OF_A_TASK)


def _by_topic(values: Iterable[tuple[TopicPartition, int]]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for tp, value in values:
        by_topic.setdefault(tp.topic, []).append(value)
    return by_topic


def _offsets(values: Iterable[tuple[TopicPartition, int]]) -> str:
    by_topic: dict[str, dict[str, int]] = {}
    for tp, offset in values:
        by_topic.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return json.dumps(by_topic)


def _connection(settings: Settings) -> dict[str, str]:
    options = {
        "kafka.bootstrap.servers": settings.kafka_bootstrap_servers,
        "kafka.security.protocol": settings.kafka_security_protocol,
    }
    if settings.kafka_ssl_ca:
        options |= {
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": settings.kafka_ssl_ca,
        }
    if settings.kafka_security_protocol.startswith("SASL"):
        login = {
            "username": settings.kafka_username,
            "password": settings.kafka_password.get_secret_value(),
        }
        is_plain = settings.kafka_sasl_mechanism == "PLAIN"
        module = "plain.PlainLoginModule" if is_plain else "scram.ScramLoginModule"
        quoted = " ".join(f"{name}={json.dumps(value)}" for name, value in login.items())
        jaas = f"org.apache.kafka.common.security.{module} required {quoted};"
        options |= {
            "kafka.sasl.mechanism": settings.kafka_sasl_mechanism,
            "kafka.sasl.jaas.config": jaas,
        }
    return options
