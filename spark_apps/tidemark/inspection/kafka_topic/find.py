"""The comparison of topics with tables: all records from the first that is judged, and their rows.

Whoever is in question is looked at once more, since a replicator may work meanwhile: only what is
found both times is a finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from zoneinfo import ZoneInfo

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.continuity.reading.inspection import Keep
from tidemark.inspection.kafka_topic import rules
from tidemark.inspection.kafka_topic.asked import Asked, Bounds, bounds
from tidemark.inspection.kafka_topic.shapes import BOUNDS, EVENTS
from tidemark.kafka_journal import segment_size, written
from tidemark.kafka_journal.tables import (
    JOURNAL_KEY,
    JOURNAL_WRITES,
    METAJOURNAL_WRITES,
    require_kafka_journal,
)
from tidemark.kafka_journal.wire.decode import decoded
from tidemark.kafka_journal.wire.shapes import DECODED, PLACE
from tidemark.partitioning import columns
from tidemark.replication import quarantine
from tidemark.replication.events import actions_of, journal_rows
from tidemark.replication.fold import folded
from tidemark.replication.kafka.records import records
from tidemark.replication.kafka.topics import TopicPartition
from tidemark.replication.plan import batch_now
from tidemark.replication.shapes import HEADS, JOURNAL_ROWS
from tidemark.replication.tables.heads import heads_of
from tidemark.spark import gateway
from tidemark.spark.local_rows import local_rows
from tidemark.spark.python_workers import prepare_python_workers
from tidemark.spark.shapes import ddl, shaped

_JOURNAL = tuple(JOURNAL_KEY)
_SAME = ("check_name", "persistence_id", "tag", "number")


@dataclass(frozen=True)
class Suspects:
    """What a second look is at: journals, and the partitions of journal that hold rows of them."""

    journals: DataFrame
    partitions: DataFrame

    @classmethod
    def of(cls, first: Compared, keep: Keep) -> Suspects:
        """Return those of the findings of a first look."""
        found = first.findings.select(
            F.col("tag").alias("topic"), F.col("persistence_id").alias("id")
        )
        journals = gateway.leaf(keep(found.distinct()))
        rows = first.stored.join(F.broadcast(journals), list(_JOURNAL), "left_semi")
        return cls(journals, gateway.leaf(keep(rows.select("id", "topic", "segment").distinct())))


@dataclass(frozen=True)
class Compared:
    """A comparison.

    Attributes:
        findings: of shape FINDINGS.
        events: the number of events that the judged records ask for.
        rows: the rows of journal that the judged records ask for, with the segment sizes and
            record ids that the stored heads have; each use reads Kafka.
        said: the same in short, of shape EVENTS.
        stored: what journal holds of the judged offsets, of shape EVENTS.
        journals: what the records say of the journals, of shape JOURNALS.
        heads: the stored heads of these, of shape HEADS.
    """

    findings: DataFrame
    events: int
    rows: DataFrame
    said: DataFrame
    stored: DataFrame
    journals: DataFrame
    heads: DataFrame


def looked_twice(run: RunContext, keep: Keep, asked: Asked) -> Compared:
    """Compare what is asked for; if there are findings, the frames are of their journals only.

    Raises:
        InvalidInput: a topic or partition is unknown.
        KafkaUnavailable: Kafka does not answer.
        SchemaMismatch: kafka-journal's tables are missing or of another shape.
    """
    first = compared(run, keep, bounds(run, asked))
    if first.findings.isEmpty():
        return first
    again = compared(run, keep, bounds(run, asked), Suspects.of(first, keep))
    same = again.findings.select(*_SAME)
    return replace(
        again,
        findings=gateway.leaf(keep(first.findings.join(same, list(_SAME), "left_semi"))),
        events=first.events,
    )


def compared(
    run: RunContext,
    keep: Keep,
    within: Mapping[TopicPartition, Bounds],
    only: Suspects | None = None,
) -> Compared:
    """Compare records with rows.

    Args:
        run: the context of the run.
        keep: keeps frames.
        within: what is judged.
        only: the journals that are judged; all if None.
    """
    settings, spark = run.settings, run.spark
    require_kafka_journal(run.control, settings, JOURNAL_WRITES, METAJOURNAL_WRITES)
    prepare_python_workers(spark)

    def kept(frame: DataFrame) -> DataFrame:
        return gateway.leaf(keep(frame))

    limits = _limits(spark, within)
    offsets = sum(one.end - one.first + 1 for one in within.values())
    run.say(f"reading {offsets:,} offsets of {len(within)} topic partitions")
    # Its plan, which decodes, is long, and much is made of it.
    found = gateway.leaf(_records(run, within))
    if only is not None:
        found = found.join(F.broadcast(only.journals), list(_JOURNAL), "left_semi")
    actions = kept(actions_of(found))
    batch = batch_now(settings)
    nothing = local_rows(spark, [], ddl(HEADS))
    after = kept(folded(_replicated(actions, limits), nothing, batch))
    journals = kept(rules.journals(after, actions, limits))
    run.say("reading kafka-journal's tables")
    heads = kept(heads_of(journals.select(*_JOURNAL), settings))
    rows = _as_stored(journal_rows(_replicated(found, limits), after), heads, batch.segment_size)
    said = kept(rules.judged(rules.briefly(rows), limits))
    stored = kept(rules.judged(rules.briefly(_stored(run, said, only)), limits))
    today = clock.now().astimezone(ZoneInfo(settings.kafka_journal_zone)).date()
    parts = [
        rules.event_findings(said, stored, journals, heads, today),
        rules.head_findings(journals, heads, limits, today),
        rules.unknown_heads(_all_heads(run, only), journals, limits),
    ]
    findings = kept(reduce(DataFrame.unionByName, parts))
    return Compared(findings, said.count(), rows, said, stored, journals, heads)


def _limits(spark: SparkSession, within: Mapping[TopicPartition, Bounds]) -> DataFrame:
    return local_rows(
        spark,
        [
            (one.topic, one.partition, found.first, found.last, found.pointer)
            for one, found in within.items()
        ],
        ddl(BOUNDS),
    )


@shaped(returns=DECODED)
def _records(run: RunContext, within: Mapping[TopicPartition, Bounds]) -> DataFrame:
    """Read the records up to the ends of the partitions, but for those in quarantine."""
    spans = {one: (found.first, found.end + 1) for one, found in within.items()}
    stored = records(run.spark, run.settings, spans)
    found = decoded(quarantine.with_mended(run, stored, list(within)))
    held = quarantine.held_keys(run, list(within))
    if held is not None:
        found = quarantine.passed(found, held)
    skipped = quarantine.skipped(run, within)
    return found.join(F.broadcast(skipped), list(PLACE), "left_anti")


def _replicated(rows: DataFrame, limits: DataFrame) -> DataFrame:
    """Return the rows of records up to the pointers."""
    pointers = F.broadcast(limits.select("topic", "partition", "pointer"))
    placed = rows.join(pointers, ["topic", "partition"])
    return placed.where(F.col("offset") <= F.col("pointer")).drop("pointer")


@shaped(rows=JOURNAL_ROWS, heads=HEADS, returns=JOURNAL_ROWS)
def _as_stored(rows: DataFrame, heads: DataFrame, default_size: int) -> DataFrame:
    """Put rows where the stored heads have them, in the name of these."""
    known = heads.select(
        *_JOURNAL,
        segment_size.of_column(F.col("head")["segment_size"]).alias("size"),
        F.col("head")["record_id"].alias("record_id"),
    )
    size = F.coalesce("size", F.lit(default_size))
    placed = rows.join(known, list(_JOURNAL), "left").withColumns(
        {
            "segment": columns.journal_segment(F.col("seq_nr"), size),
            "meta_record_id": F.coalesce("record_id", "meta_record_id"),
        }
    )
    return placed.select(*JOURNAL_ROWS)


@shaped(said=EVENTS, returns=JOURNAL_ROWS)
def _stored(run: RunContext, said: DataFrame, only: Suspects | None) -> DataFrame:
    settings = run.settings
    name = settings.kafka_journal_keyspace, settings.kafka_journal_table
    if only is None:
        return connector.read(run.spark, *name, *JOURNAL_ROWS)
    places = said.select("id", "topic", "segment").unionByName(only.partitions).distinct()
    return connector.read_partitions(places, *name, *JOURNAL_ROWS)


def _all_heads(run: RunContext, only: Suspects | None) -> DataFrame:
    if only is None:
        return written.head_rows(run.spark, run.settings).withColumnRenamed("persistence_id", "id")
    of_suspects = heads_of(only.journals, run.settings)
    fields = ("partition", "offset", "seq_nr")
    return of_suspects.select(*_JOURNAL, *(F.col("head")[name].alias(name) for name in fields))
