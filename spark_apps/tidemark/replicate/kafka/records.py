"""Records of topics as frames, by Spark's Kafka source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession

from tidemark.journals.kafka.wire.shapes import RECORDS
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped

Spans = Mapping[TopicPartition, tuple[int, int]]
"""Offsets by topic partition: the first one, and the one behind the last."""

_OFFSETS_OF_A_TASK = 20_000
"""Fewer than these are not worth a task, with its Python process, for each topic partition."""


@shaped(returns=RECORDS)
def records(spark: SparkSession, settings: Settings, spans: Spans) -> DataFrame:
    """Return the records of spans of offsets; each reading of the frame asks Kafka again.

    Raises (in the job): Kafka does not hold all of them any more.
    """
    options = {
        **_connection(settings),
        "assign": json.dumps(_by_topic((one, one.partition) for one in spans)),
        "startingOffsets": _offsets((one, first) for one, (first, _) in spans.items()),
        "endingOffsets": _offsets((one, end) for one, (_, end) in spans.items()),
        "includeHeaders": "true",
        # Those of aborted transactions were never written, as for kafka-journal's consumers.
        "kafka.isolation.level": "read_committed",
        # All that is read is there. By default Kafka would let each consumer wait half a second,
        # since it looks at the end of its partition before it reads.
        "kafka.fetch.max.wait.ms": "10",
        "failOnDataLoss": "true",
    }
    found = spark.read.format("kafka").options(**options).load().select(*RECORDS)
    return found.coalesce(tasks_of(spark, spans))


def tasks_of(spark: SparkSession, spans: Spans) -> int:
    """Return into how many tasks the work on spans of offsets is cut."""
    offsets = sum(end - first for first, end in spans.values())
    return max(spark.sparkContext.defaultParallelism, offsets // _OFFSETS_OF_A_TASK)


def _by_topic(values: Iterable[tuple[TopicPartition, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for one, value in values:
        found.setdefault(one.topic, []).append(value)
    return found


def _offsets(values: Iterable[tuple[TopicPartition, int]]) -> str:
    found: dict[str, dict[str, int]] = {}
    for one, offset in values:
        found.setdefault(one.topic, {})[str(one.partition)] = offset
    return json.dumps(found)


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
