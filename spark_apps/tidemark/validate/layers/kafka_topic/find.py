"""The comparison of topics with tables: records, and the rows of their journals.

A first reading is of the asked scope. The journals in question are read once more by key, since a
replicator may work meanwhile, and since later records may have changed what a range says: only what
both readings find is a finding. Kafka and the tables are scanned only where everything is judged.
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
from tidemark.validate.layers.kafka_topic.asked import OffsetBounds, TopicScope, Within, within
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
from tidemark.validate.reading.inspection import Keep

_JOURNAL = tuple(JOURNAL_KEY)
_SAME = ("check_name", "persistence_id", "tag", "number")


@dataclass(frozen=True)
class TopicComparison:
    """A comparison.

    Attributes:
        bounds: what is judged.
        findings: of shape FINDINGS.
        events: the number of events that the judged records ask for.
        left: the number of events that are not judged, since Kafka does not hold their records.
        rows: the rows of journal that the judged records ask for, with the segment sizes and
            record ids that the stored heads have; each use reads Kafka.
        stored: rows of journal, of shape EVENTS.
        verdicts: the events that records and rows do not agree on, of shape VERDICTS.
        journals: what the records say of the journals, of shape JOURNALS.
        heads: the stored heads of these, of shape HEADS.
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


def first_look(run: RunContext, keep: Keep, asked: TopicScope, of: Within) -> TopicComparison:
    """Compare the asked scope; what is found may be due to records that were not read.

    Raises:
        SchemaMismatch: kafka-journal's tables are missing or of another shape.
    """
    bounds = of.bounds
    if asked.is_range:
        bounds = {one: found.alone() for one, found in bounds.items()}
    return _compared(run, keep, asked, bounds, None)


def second_look(
    run: RunContext, keep: Keep, asked: TopicScope, of: Within, first: TopicComparison
) -> TopicComparison:
    """Compare the journals of the findings of a first look; only those that are still found count.

    Raises:
        SchemaMismatch: kafka-journal's tables are missing or of another shape.
    """
    bounds = {one: found for one, found in of.bounds.items() if one in first.bounds}
    if not bounds:
        return replace(first, findings=first.findings.limit(0))
    again = _compared(run, keep, asked, bounds, _suspects(first, keep))
    same = again.findings.select(*_SAME).distinct()
    return replace(
        again,
        findings=gateway.leaf(keep(first.findings.join(same, list(_SAME), "left_semi"))),
        events=first.events,
        left=first.left,
    )


def looked_twice(run: RunContext, keep: Keep, asked: TopicScope, of: Within) -> TopicComparison:
    """Compare the asked scope, and once more where something is found.

    Raises:
        InvalidInput: a topic or partition is unknown.
        KafkaUnavailable: Kafka does not answer.
        SchemaMismatch: kafka-journal's tables are missing or of another shape.
    """
    first = first_look(run, keep, asked, of)
    if first.findings.isEmpty():
        return first
    return second_look(run, keep, asked, within(run, asked), first)


def _suspects(first: TopicComparison, keep: Keep) -> Suspects:
    found = first.findings.select(F.col("tag").alias("topic"), F.col("persistence_id").alias("id"))
    journals = gateway.leaf(keep(found.distinct()))
    number = journals.count()
    rows = among(first.stored, journals, number).select("id", "topic", "segment")
    complete = frozenset(one for one, found in first.bounds.items() if found.is_complete)
    return Suspects(journals, number, gateway.leaf(keep(rows.distinct())), complete)


def _compared(
    run: RunContext,
    keep: Keep,
    asked: TopicScope,
    bounds: Mapping[TopicPartition, OffsetBounds],
    only: Suspects | None,
) -> TopicComparison:
    settings, spark = run.settings, run.spark
    require_kafka_journal(run.control, settings, JOURNAL_WRITES, METAJOURNAL_WRITES)
    prepare_python_workers(spark)

    def kept(frame: DataFrame) -> DataFrame:
        return gateway.leaf(keep(frame))

    offsets = sum(one.end - one.first + 1 for one in bounds.values())
    run.say(f"reading {offsets:,} offsets of {len(bounds)} topic partitions")
    # Its plan, which decodes, is long, and much is made of it.
    found = gateway.leaf(records_of(run, asked, bounds, only))
    read = kept(records.read(found))
    bounds = _with_complete(bounds, read, asked, only)
    limits = _limits(spark, bounds)
    actions = records.actions(read)
    batch = batch_now(settings)
    after = kept(folded(_replicated(actions, limits), local_rows(spark, [], ddl(HEADS)), batch))
    journals = kept(records.journals(after, actions, limits))
    run.say("reading kafka-journal's tables")
    stored_heads = kept(heads_of(journals.select(*_JOURNAL), settings))
    rows = as_stored(
        journal_rows(_replicated(found, limits), after), stored_heads, batch.segment_size
    )
    by_value = only is not None
    said = kept(events.judged(events.briefly(rows, by_value=by_value), limits))
    if asked.is_whole and only is None:
        in_journal = scanned(run, bounds)
    else:
        in_journal = rows_of(run, actions, stored_heads, batch.segment_size, only)
    stored = kept(events.briefly(in_journal, by_value=by_value))
    # What a range says of expiry, a later record may have changed.
    today = expired.day_of(clock.now(), settings)
    is_known = not asked.is_range or only is not None
    expiry = Expiry(today, settings.kafka_journal_zone) if is_known else None
    verdicts = kept(events.verdicts(said, stored, read, journals, stored_heads, limits, expiry))
    findings = events.event_findings(verdicts, said).unionByName(
        heads.head_findings(journals, stored_heads, read, verdicts, expiry)
    )
    left = verdicts.where(F.col("verdict") == Verdict.LEFT.value)
    return TopicComparison(
        bounds,
        kept(findings),
        said.count(),
        left.select(*_JOURNAL, "seq_nr").distinct().count(),
        rows,
        stored,
        verdicts,
        journals,
        stored_heads,
    )


@shaped(read=READ)
def _with_complete(
    bounds: Mapping[TopicPartition, OffsetBounds],
    read: DataFrame,
    asked: TopicScope,
    only: Suspects | None,
) -> Mapping[TopicPartition, OffsetBounds]:
    """Tell of which partitions each record since offset 0 was read: compaction leaves gaps."""
    if only is not None:
        return {
            one: replace(found, is_complete=one in only.complete) for one, found in bounds.items()
        }
    if not asked.is_whole:
        return bounds
    read_of = {
        TopicPartition(row["topic"], row["partition"]): row["count"]
        for row in read.groupBy("topic", "partition").count().collect()
    }
    return {
        one: replace(found, is_complete=found.first == 0 and read_of.get(one) == found.end + 1)
        for one, found in bounds.items()
    }


def _limits(spark: SparkSession, bounds: Mapping[TopicPartition, OffsetBounds]) -> DataFrame:
    return local_rows(
        spark,
        [
            (one.topic, one.partition, *(getattr(found, name) for name in (*BOUNDS,)[2:]))
            for one, found in bounds.items()
        ],
        ddl(BOUNDS),
    )


def _replicated(rows: DataFrame, limits: DataFrame) -> DataFrame:
    """Return the rows of records up to the pointers."""
    pointers = F.broadcast(limits.select("topic", "partition", "pointer"))
    placed = rows.join(pointers, ["topic", "partition"])
    return placed.where(F.col("offset") <= F.col("pointer")).drop("pointer")
