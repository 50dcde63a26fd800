"""The reads of a comparison: records from Kafka, and rows from journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.journals.kafka import segment_size
from tidemark.journals.kafka.tables import JOURNAL_KEY
from tidemark.journals.kafka.wire.decode import decoded
from tidemark.journals.kafka.wire.shapes import DECODED, RECORDS
from tidemark.partitioning import columns
from tidemark.replicate import quarantine
from tidemark.replicate.kafka.records import records
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.replicate.shapes import HEADS, JOURNAL_ROWS
from tidemark.spark.shapes import shaped
from tidemark.validate.layers.kafka_topic.shapes import READ
from tidemark.validate.layers.kafka_topic.topic_scope import OffsetBounds, TopicScope

_JOURNAL = tuple(JOURNAL_KEY)
_FEW = 100_000
"""The largest number of journals sent to all tasks; more are joined by a shuffle."""


@dataclass(frozen=True)
class Suspects:
    """The journals that are compared a second time.

    Attributes:
        journals: their keys, of shape JOURNAL_KEY.
        number: the number of journals.
        partitions: the partitions of journal with rows of them, as the first comparison read.
        complete: the topic partitions that `OffsetBounds.is_complete`.
    """

    journals: DataFrame
    number: int
    partitions: DataFrame
    complete: frozenset[TopicPartition]


@shaped(returns=DECODED)
def records_of(
    run: RunContext,
    topic_scope: TopicScope,
    bounds: Mapping[TopicPartition, OffsetBounds],
    suspects: Suspects | None,
) -> DataFrame:
    """Read the records of the partitions, except those in quarantine."""
    spans = {partition: offsets.span for partition, offsets in bounds.items()}
    wanted = _with_key(records(run.spark, run.settings, spans), topic_scope, suspects)
    decoded_records = decoded(quarantine.corrected(run, wanted, list(bounds)))
    quarantined_keys = quarantine.held_keys(run, list(bounds))
    if quarantined_keys is not None:
        decoded_records = quarantine.replicable(decoded_records, quarantined_keys)
    return decoded_records


@shaped(record_rows=RECORDS, returns=RECORDS)
def _with_key(
    record_rows: DataFrame, topic_scope: TopicScope, suspects: Suspects | None
) -> DataFrame:
    """Return the records of the journals in scope, before they are decoded."""
    if topic_scope.keys:
        record_rows = record_rows.where(
            F.col("key").isin([key.encode() for key in topic_scope.keys])
        )
    if suspects is None:
        return record_rows
    keyed = record_rows.withColumn("id", F.col("key").cast("string"))
    return among(keyed, suspects.journals, suspects.number).select(*RECORDS)


def among(rows: DataFrame, journals: DataFrame, number: int) -> DataFrame:
    """Return the rows of `number` journals."""
    keys = F.broadcast(journals) if number <= _FEW else journals
    return rows.join(keys, list(_JOURNAL), "left_semi")


@shaped(rows=JOURNAL_ROWS, heads=HEADS, returns=JOURNAL_ROWS)
def as_stored(rows: DataFrame, heads: DataFrame, default_size: int) -> DataFrame:
    """Return rows with the segments and record ids of the stored heads."""
    sized = _with_size(rows, heads, default_size).withColumns(
        {
            "segment": columns.journal_segment(F.col("seq_nr"), F.col("size")),
            "meta_record_id": F.coalesce("record_id", "meta_record_id"),
        }
    )
    return sized.select(*JOURNAL_ROWS)


def _with_size(rows: DataFrame, heads: DataFrame, default_size: int) -> DataFrame:
    """Add the segment size of the head as `size`, and its `record_id`, null without a head."""
    sizes = heads.select(
        *_JOURNAL,
        segment_size.of_column(F.col("head")["segment_size"]).alias("size"),
        F.col("head")["record_id"].alias("record_id"),
    )
    sized = rows.join(sizes, list(_JOURNAL), "left")
    return sized.withColumn("size", F.coalesce("size", F.lit(default_size)))


@shaped(returns=JOURNAL_ROWS)
def scanned(run: RunContext, bounds: Mapping[TopicPartition, OffsetBounds]) -> DataFrame:
    """Read the rows of the topics by a scan of journal."""
    rows = connector.read(run.spark, *_journal(run), *JOURNAL_ROWS)
    return rows.where(F.col("topic").isin(sorted({partition.topic for partition in bounds})))


@shaped(actions=READ, heads=HEADS, returns=JOURNAL_ROWS)
def rows_of(
    run: RunContext,
    actions: DataFrame,
    heads: DataFrame,
    default_size: int,
    suspects: Suspects | None,
) -> DataFrame:
    """Read the rows of the segments of journal that records append to, by key."""
    appends = actions.where(F.col("first_nr").isNotNull())
    first, last = (
        columns.journal_segment(F.col(name), F.col("size")) for name in ("first_nr", "last_nr")
    )
    segments = _with_size(appends, heads, default_size).select(
        "id", "topic", F.explode(F.sequence(first, last)).alias("segment")
    )
    if suspects is not None:
        segments = segments.unionByName(suspects.partitions)
    return connector.read_partitions(segments.distinct(), *_journal(run), *JOURNAL_ROWS)


def _journal(run: RunContext) -> tuple[str, str]:
    return run.settings.kafka_journal_keyspace, run.settings.kafka_journal_table
