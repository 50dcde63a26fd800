"""The records of Kafka that are not replicated yet: a journal with any of them is kept.

The head of such a journal is outdated. Its next records may move `expire_on`, or be those of its
next life after a Purge record of an earlier run. Therefore a second run before the replication of
the first one is harmless, and no run has to remember what it has sent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.kafka.tables import JOURNAL_KEY
from tidemark.replicate.kafka.failures import kafka_in_one_line
from tidemark.replicate.kafka.records import Spans, records
from tidemark.replicate.kafka.topics import TopicPartition, Topics
from tidemark.replicate.plan import PartitionPosition, reached
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import ddl, shaped


@dataclass(frozen=True)
class Places:
    """How far topic partitions are replicated.

    Attributes:
        rejected: the reason to keep all journals of a topic partition, by topic partition.
        spans: the offsets of the others that are not replicated.
        partitions: all of the topics.
    """

    rejected: Mapping[TopicPartition, str]
    spans: Spans
    partitions: Sequence[TopicPartition]


def places(run: RunContext, wanted: Collection[TopicPartition]) -> Places:
    """Compare how far topics are replicated with the offsets that Kafka holds now.

    All partitions of the topics are, since a key may have moved to another one.

    Args:
        run: the context of the run.
        wanted: the topic partitions of the journals in question.

    Raises:
        KafkaUnavailable: Kafka does not answer.
    """
    settings, kafka = run.settings, Topics(run.settings)
    topics = {one.topic for one in wanted}
    there = [one for one in kafka.partitions() if one.topic in topics]
    far, held = reached(run.control, settings, there), kafka.offsets(there)
    rejected = dict.fromkeys(
        wanted,
        f"Kafka has no such topic with the prefix {settings.kafka_topic_prefix}, or its user may"
        " not describe it",
    )
    spans = {}
    for one in there:
        rejected.pop(one, None)
        position = PartitionPosition(one, far[one], held[one])
        if far[one].next is None and position.behind:
            rejected[one] = "its records are not replicated yet"
        elif problem := position.problem():
            rejected[one] = problem.what
        elif position.behind > settings.replicate_max_records:
            rejected[one] = (
                f"more than {settings.replicate_max_records:,} records of its topic partition are"
                " not replicated yet"
            )
        elif position.behind:
            spans[one] = (position.next, held[one].end)
    return Places(rejected, spans, there)


@shaped(returns=JOURNAL_KEY)
def unreplicated(run: RunContext, spans: Spans) -> DataFrame:
    """Return the keys of the records of spans; kept, since Kafka is asked once.

    Raises:
        KafkaUnavailable: Kafka fails the job.
        TopicMoved: it does not hold all of the records any more.
    """
    if not spans:
        return local_rows(run.spark, [], ddl(JOURNAL_KEY))
    found = records(run.spark, run.settings, spans)
    keys = found.select("topic", F.col("key").cast("string").alias("id"))
    with kafka_in_one_line(run.settings, spans):
        return keys.where(F.col("id").isNotNull()).distinct().localCheckpoint()
