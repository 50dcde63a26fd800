"""The records of Kafka that are not replicated yet: journals with such records are kept.

The head of such a journal is outdated. Its next records may move `expire_on`, or begin a new
journal after a Purge record of an earlier run. A second run before the first is replicated is
therefore harmless, and no run has to remember which records it has sent.
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
class TopicProgress:
    """How far topic partitions are replicated.

    Attributes:
        rejected: the reason to keep all journals of a topic partition, by topic partition.
        spans: the offsets of the other topic partitions that are not replicated.
        partitions: all topic partitions of the topics.
    """

    rejected: Mapping[TopicPartition, str]
    spans: Spans
    partitions: Sequence[TopicPartition]


def topic_progress(run: RunContext, tps: Collection[TopicPartition]) -> TopicProgress:
    """Compare how far topics are replicated with the offsets that Kafka has now.

    `tps` are the topic partitions of the journals in question. All partitions of their topics
    are compared, since a key may have moved to another one.
    """
    settings, kafka = run.settings, Topics(run.settings)
    topics = {tp.topic for tp in tps}
    partitions = [tp for tp in kafka.partitions() if tp.topic in topics]
    pointers, offsets = reached(run.control, settings, partitions), kafka.offsets(partitions)
    rejected = dict.fromkeys(
        tps,
        f"Kafka has no such topic with the prefix {settings.kafka_topic_prefix}, or its user may"
        " not describe it",
    )
    spans = {}
    for tp in partitions:
        rejected.pop(tp, None)
        position = PartitionPosition(tp, pointers[tp], offsets[tp])
        if pointers[tp].next is None and position.behind:
            rejected[tp] = "its records are not replicated yet"
        elif problem := position.problem():
            rejected[tp] = problem.what
        elif position.behind > settings.replicate_max_records:
            rejected[tp] = (
                f"more than {settings.replicate_max_records:,} records of its topic partition are"
                " not replicated yet"
            )
        elif position.behind:
            spans[tp] = (position.next, offsets[tp].end)
    return TopicProgress(rejected, spans, partitions)


@shaped(returns=JOURNAL_KEY)
def unreplicated(run: RunContext, spans: Spans) -> DataFrame:
    """Return the keys of the records of spans; in memory, so that Kafka is read once."""
    if not spans:
        return local_rows(run.spark, [], ddl(JOURNAL_KEY))
    kafka_records = records(run.spark, run.settings, spans)
    keys = kafka_records.select("topic", F.col("key").cast("string").alias("id"))
    with kafka_in_one_line(run.settings, spans):
        return keys.where(F.col("id").isNotNull()).distinct().localCheckpoint()
