"""The comparison of topics with tables: records with the rows of their journals.

The first comparison covers the requested scope. The second one reads the journals with differences
again by key, since a replicator may work meanwhile, and since records after a range may have
changed its journals. Only differences that both comparisons show are findings. Kafka and the tables
are scanned only if everything is judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.context import RunContext
from tidemark.journals.kafka import expired
from tidemark.journals.kafka.tables import (
    JOURNAL_KEY,
    JOURNAL_WRITES,
    METAJOURNAL_WRITES,
    require_kafka_journal,
)
from tidemark.replicate.events import journal_rows
from tidemark.replicate.fold import folded
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.replicate.plan import batch_now
from tidemark.replicate.shapes import HEADS
from tidemark.replicate.tables.heads import heads_of
from tidemark.spark import gateway
from tidemark.spark.local_rows import local_rows
from tidemark.spark.python_workers import prepare_python_workers
from tidemark.spark.shapes import ddl, shaped
from tidemark.validate.layers.kafka_topic import events, heads, records
from tidemark.validate.layers.kafka_topic.events import Verdict
from tidemark.validate.layers.kafka_topic.reading import (
    Suspects,
    among,
    as_stored,
    records_of,
    rows_of,
    scanned,
)
from tidemark.validate.layers.kafka_topic.records import Expiry
from tidemark.validate.layers.kafka_topic.shapes import BOUNDS, READ
from tidemark.validate.layers.kafka_topic.topic_scope import (
    JudgedPartitions,
    OffsetBounds,
    TopicScope,
    judged_partitions,
)
from tidemark.validate.reading.inspection import Keep

_JOURNAL = tuple(JOURNAL_KEY)
_SAME = ("check_name", "persistence_id", "tag", "number")


@dataclass(frozen=True)
class TopicComparison:
    """The result of a comparison.

    Attributes:
        bounds: the judged offsets.
        findings: of shape FINDINGS.
        events: the number of events of the judged records, without deleted ones.
        left: the number of events not judged, since Kafka does not hold their records.
        rows: the rows of journal that follow from the judged records, with the segment sizes and
            record ids of the stored heads; each use reads Kafka.
        stored: rows of journal, of shape EVENTS.
        verdicts: the events on which records and rows disagree, of shape VERDICTS.
        journals: the state of the journals by their records, of shape JOURNALS.
        heads: their stored heads, of shape HEADS.
    """

    bounds: Mapping[TopicPartition, OffsetBounds]
    findings: DataFrame
    events: int
    left: int
    rows: DataFrame
    stored: DataFrame
    verdicts: DataFrame
    journals: DataFrame
    heads: DataFrame


def first_comparison(
    run: RunContext, keep: Keep, topic_scope: TopicScope, judged: JudgedPartitions
) -> TopicComparison:
    """Compare the requested scope; its findings may be due to records that were not read."""
    bounds = judged.bounds
    if topic_scope.is_range:
        bounds = {partition: offsets.alone() for partition, offsets in bounds.items()}
    return _compared(run, keep, topic_scope, bounds, None)


def second_comparison(
    run: RunContext,
    keep: Keep,
    topic_scope: TopicScope,
    judged: JudgedPartitions,
    first: TopicComparison,
) -> TopicComparison:
    """Compare the journals with findings again, and return the findings that persist."""
    bounds = {
        partition: offsets
        for partition, offsets in judged.bounds.items()
        if partition in first.bounds
    }
    if not bounds:
        return replace(first, findings=first.findings.limit(0))
    second = _compared(run, keep, topic_scope, bounds, _suspects(first, keep))
    confirmed = second.findings.select(*_SAME).distinct()
    return replace(
        second,
        findings=gateway.leaf(keep(first.findings.join(confirmed, list(_SAME), "left_semi"))),
        events=first.events,
        left=first.left,
    )


def compare_twice(
    run: RunContext, keep: Keep, topic_scope: TopicScope, judged: JudgedPartitions
) -> TopicComparison:
    """Compare the requested scope, and the journals with findings once more."""
    first = first_comparison(run, keep, topic_scope, judged)
    if first.findings.isEmpty():
        return first
    return second_comparison(run, keep, topic_scope, judged_partitions(run, topic_scope), first)


def _suspects(first: TopicComparison, keep: Keep) -> Suspects:
    keys = first.findings.select(F.col("tag").alias("topic"), F.col("persistence_id").alias("id"))
    journals = gateway.leaf(keep(keys.distinct()))
    number = journals.count()
    rows = among(first.stored, journals, number).select("id", "topic", "segment")
    complete = frozenset(
        partition for partition, offsets in first.bounds.items() if offsets.is_complete
    )
    return Suspects(journals, number, gateway.leaf(keep(rows.distinct())), complete)


def _compared(
    run: RunContext,
    keep: Keep,
    topic_scope: TopicScope,
    bounds: Mapping[TopicPartition, OffsetBounds],
    suspects: Suspects | None,
) -> TopicComparison:
    settings, spark = run.settings, run.spark
    require_kafka_journal(run.control, settings, JOURNAL_WRITES, METAJOURNAL_WRITES)
    prepare_python_workers(spark)

    def kept(frame: DataFrame) -> DataFrame:
        return gateway.leaf(keep(frame))

    offsets = sum(limit.end - limit.first + 1 for limit in bounds.values())
    run.say(f"reading {offsets:,} offsets of {len(bounds)} topic partitions")
    # The plan that decodes is long, and many frames are derived from it.
    record_rows = gateway.leaf(records_of(run, topic_scope, bounds, suspects))
    read = kept(records.read(record_rows))
    bounds = _with_complete(bounds, read, topic_scope, suspects)
    limits = _limits(spark, bounds)
    actions = records.actions(read)
    batch = batch_now(settings)
    after = kept(folded(_replicated(actions, limits), local_rows(spark, [], ddl(HEADS)), batch))
    journals = kept(records.journals(after, actions, limits))
    run.say("reading kafka-journal's tables")
    stored_heads = kept(heads_of(journals.select(*_JOURNAL), settings))
    rows = as_stored(
        journal_rows(_replicated(record_rows, limits), after), stored_heads, batch.segment_size
    )
    by_value = suspects is not None
    record_events = kept(events.judged(events.briefly(rows, by_value=by_value), limits))
    if topic_scope.is_everything and suspects is None:
        table_rows = scanned(run, bounds)
    else:
        table_rows = rows_of(run, actions, stored_heads, batch.segment_size, suspects)
    table_events = kept(events.briefly(table_rows, by_value=by_value))
    # Records after a range may have changed the expiry.
    today = expired.day_of(clock.now(), settings)
    has_all_records = not topic_scope.is_range or suspects is not None
    expiry = Expiry(today, settings.kafka_journal_zone) if has_all_records else None
    verdicts = kept(
        events.verdicts(record_events, table_events, read, journals, stored_heads, limits, expiry)
    )
    findings = events.event_findings(verdicts, record_events).unionByName(
        heads.head_findings(journals, stored_heads, read, verdicts, expiry)
    )
    not_judged = verdicts.where(F.col("verdict") == Verdict.LEFT.value)
    return TopicComparison(
        bounds,
        kept(findings),
        record_events.count(),
        not_judged.select(*_JOURNAL, "seq_nr").distinct().count(),
        rows,
        table_events,
        verdicts,
        journals,
        stored_heads,
    )


@shaped(read=READ)
def _with_complete(
    bounds: Mapping[TopicPartition, OffsetBounds],
    read: DataFrame,
    topic_scope: TopicScope,
    suspects: Suspects | None,
) -> Mapping[TopicPartition, OffsetBounds]:
    """Mark the partitions whose records were all read since offset 0: compaction leaves gaps."""
    if suspects is not None:
        return {
            partition: replace(offsets, is_complete=partition in suspects.complete)
            for partition, offsets in bounds.items()
        }
    if not topic_scope.is_everything:
        return bounds
    records_read = {
        TopicPartition(row["topic"], row["partition"]): row["count"]
        for row in read.groupBy("topic", "partition").count().collect()
    }
    return {
        partition: replace(
            offsets,
            is_complete=offsets.first == 0 and records_read.get(partition) == offsets.end + 1,
        )
        for partition, offsets in bounds.items()
    }


def _limits(spark: SparkSession, bounds: Mapping[TopicPartition, OffsetBounds]) -> DataFrame:
    return local_rows(
        spark,
        [
            (
                partition.topic,
                partition.partition,
                *(getattr(offsets, name) for name in (*BOUNDS,)[2:]),
            )
            for partition, offsets in bounds.items()
        ],
        ddl(BOUNDS),
    )


def _replicated(rows: DataFrame, limits: DataFrame) -> DataFrame:
    """Return the rows of records up to the pointers."""
    pointers = F.broadcast(limits.select("topic", "partition", "pointer"))
    with_pointer = rows.join(pointers, ["topic", "partition"])
    return with_pointer.where(F.col("offset") <= F.col("pointer")).drop("pointer")
