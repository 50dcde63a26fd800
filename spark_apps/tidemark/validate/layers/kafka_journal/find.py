"""The check of kafka-journal's tables: a scan, then reads by key of journals with findings."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.kafka import written
from tidemark.journals.kafka.tables import (
    JOURNAL_WRITES,
    METAJOURNAL_WRITES,
    OLD_SEGMENTS,
    SEGMENTS,
    require_kafka_journal,
)
from tidemark.journals.kafka.written import EVENT_ROWS, HEAD_ROWS
from tidemark.partitioning import columns
from tidemark.replicate import quarantine
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.layers.kafka_journal.rules import (
    JOURNAL,
    held_findings,
    journal_findings,
    topic_findings,
)
from tidemark.validate.reading.inspection import Keep

_SAME = ("check_name", "persistence_id", "tag", "number")


@shaped(returns=shapes.FINDINGS)
def find(run: RunContext, keep: Keep) -> DataFrame:
    """Return the findings of all journals of all topics.

    Heads are read before events, and the replicator writes meanwhile: findings due to its writes
    disappear when the journals with findings are read again.
    """
    require_kafka_journal(run.control, run.settings, JOURNAL_WRITES, METAJOURNAL_WRITES)
    run.say("reading the keys of kafka-journal's tables")
    heads = keep(written.head_rows(run.spark, run.settings))
    heads.count()
    events = keep(written.event_rows(run.spark, run.settings))
    findings = journal_findings(heads, events).localCheckpoint()
    if not findings.isEmpty():
        findings = _confirmed(run, findings, heads, events)
    add = partial(DataFrame.unionByName, allowMissingColumns=True)
    return add(findings.unionByName(topic_findings(heads)), held_findings(quarantine.all_held(run)))


@shaped(findings=shapes.FINDINGS, heads=HEAD_ROWS, events=EVENT_ROWS, returns=shapes.FINDINGS)
def _confirmed(
    run: RunContext, findings: DataFrame, heads: DataFrame, events: DataFrame
) -> DataFrame:
    """Return the findings that a second read by key confirms."""
    suspects = findings.select(F.col("tag").alias("topic"), "persistence_id").distinct()
    suspects = suspects.localCheckpoint()
    pid = F.col("persistence_id")
    head_segments = F.array(
        columns.head_segment(pid, SEGMENTS), columns.head_segment(pid, OLD_SEGMENTS)
    )
    segments = suspects.select("topic", F.explode(head_segments).alias("segment")).unionByName(
        _of(suspects, heads).select("topic", "segment")
    )
    second_heads = written.head_rows_of(segments.distinct(), run.settings)
    heads_again = _of(suspects, second_heads).localCheckpoint()
    last = columns.journal_segment(F.greatest(F.col("seq_nr"), F.lit(1)), F.col("segment_size"))
    partitions = (
        _of(suspects, events)
        .select(*JOURNAL, "segment")
        .unionByName(heads_again.select(*JOURNAL, last.alias("segment")))
    )
    events_again = written.event_rows_of(partitions.distinct(), run.settings).localCheckpoint()
    second_findings = journal_findings(heads_again, events_again).select(*_SAME)
    return findings.join(second_findings, on=[*_SAME], how="left_semi")


def _of(journals: DataFrame, rows: DataFrame) -> DataFrame:
    return rows.join(journals, on=[*JOURNAL], how="left_semi")
