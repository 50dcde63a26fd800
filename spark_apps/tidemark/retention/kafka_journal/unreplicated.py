"""The records of Kafka that are not replicated yet: a journal with any of them is kept.

The head of such a journal is outdated. Its next records may move `expire_on`, or be those of its
next life after a Purge record of an earlier run. Therefore a second run before the replication of
the first one is harmless, and no run has to remember what it has sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.errors import KafkaUnavailable, TidemarkError, root_cause
from tidemark.kafka_journal.tables import JOURNAL_KEY
from tidemark.replication.kafka.records import Spans, records
from tidemark.replication.kafka.topics import TopicPartition, Topics
from tidemark.replication.plan import Position
from tidemark.replication.ranges import Ranges
from tidemark.replication.tables.pointers import Pointers
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import ddl, shaped


@dataclass(frozen=True)
class Places:
    """How far topic partitions are replicated.

    Attributes:
        rejected: the reason to keep all journals of a topic partition, by topic partition.
        spans: the offsets after the pointers of the others.
    """

    rejected: Mapping[TopicPartition, str]
    spans: Spans


def places(run: RunContext, known: Pointers, wanted: Collection[TopicPartition]) -> Places:
    """Compare the pointers of topic partitions with the offsets that Kafka holds now.

    Args:
        run: the context of the run.
        known: the pointers, read before any head.
        wanted: the topic partitions of the journals in question.

    Raises:
        KafkaUnavailable: Kafka does not answer.
    """
    settings, kafka = run.settings, Topics(run.settings)
    there = set(kafka.partitions())
    both = [one for one in wanted if one in known and one in there]
    held, newest = kafka.offsets(both), Ranges(run).newest(both)
    rejected = dict.fromkeys(
        wanted,
        f"Kafka has no such topic with the prefix {settings.kafka_topic_prefix}, or its user may"
        " not describe it",
    )
    rejected |= {one: "its records are not replicated yet" for one in wanted if one not in known}
    spans = {}
    for one in both:
        del rejected[one]
        position = Position(one, known[one], held[one], newest.get(one))
        if problem := position.problem():
            rejected[one] = problem.what
        elif position.behind > settings.replicate_max_records:
            rejected[one] = (
                f"more than {settings.replicate_max_records:,} records of its topic partition are"
                " not replicated yet"
            )
        elif position.behind:
            spans[one] = (position.next, held[one].end)
    return Places(rejected, spans)


@shaped(returns=JOURNAL_KEY)
def unreplicated(run: RunContext, spans: Spans) -> DataFrame:
    """Return the keys of the records of spans; kept, since Kafka is asked once.

    Raises:
        KafkaUnavailable: Kafka fails the job, or does not hold all of the records any more.
    """
    if not spans:
        return local_rows(run.spark, [], ddl(JOURNAL_KEY))
    found = records(run.spark, run.settings, spans)
    keys = found.select("topic", F.col("key").cast("string").alias("id"))
    with _in_one_line(run):
        return keys.where(F.col("id").isNotNull()).distinct().localCheckpoint()


@contextmanager
def _in_one_line(run: RunContext) -> Iterator[None]:
    try:
        yield
    except TidemarkError:
        raise
    except Exception as error:
        said = str(error)
        if "org.apache.kafka." not in said and "data may have been lost" not in said.lower():
            raise
        raise KafkaUnavailable(
            f"Kafka failed a Spark job: {root_cause(error)}",
            where=run.settings.kafka_bootstrap_servers,
            do="nothing was purged; check that it is up, and run again",
        ) from None
