"""Converts Kafka's failures in Spark's tasks to errors for people."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidemark.errors import KafkaUnavailable, TidemarkError, TopicMoved, root_cause
from tidemark.replicate.kafka.records import Spans
from tidemark.settings import Settings


@contextmanager
def kafka_in_one_line(settings: Settings, spans: Spans) -> Iterator[None]:
    """Raise Kafka's failures in Spark jobs that read spans as errors of one line.

    Raises:
        KafkaUnavailable: Kafka has failed a job.
        TopicMoved: Kafka has dropped records while they were read.
    """
    try:
        yield
    except TidemarkError:
        raise
    except Exception as error:
        if "data may have been lost" in str(error).lower():
            raise TopicMoved(
                "Kafka has dropped records while they were read",
                where=", ".join(f"{tp} {first}-{end - 1}" for tp, (first, end) in spans.items()),
                do="run again; the partition then says which offsets are lost",
            ) from None
        if "org.apache.kafka." in str(error):
            raise KafkaUnavailable(
                f"Kafka failed a Spark job: {root_cause(error)}",
                where=settings.kafka_bootstrap_servers,
                do="check that it is up, and run again",
            ) from None
        raise
