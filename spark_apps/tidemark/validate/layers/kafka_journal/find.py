"""The look at kafka-journal's tables: a scan, then once more by key where something seems wrong."""

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

    Heads are read before events, and the replicator writes meanwhile: what it was just about to do
    is gone when the journals in question are read once more.

    Raises:
        SchemaMismatch: kafka-journal's tables are missing or of another shape.
    """
    require_kafka_journal(run.control, run.settings, JOURNAL_WRITES, METAJOURNAL_WRITES)
    run.say("reading the keys of kafka-journal's tables")
    heads = keep(written.head_rows(run.spark, run.settings))
    heads.count()
    events = keep(written.event_rows(run.spark, run.settings))
    found = journal_findings(heads, events).localCheckpoint()
    if not found.isEmpty():
        found = _still_there(run, found, heads, events)
    add = partial(DataFrame.unionByName, allowMissingColumns=True)
    return add(found.unionByName(topic_findings(heads)), held_findings(quarantine.all_held(run)))


@shaped(found=shapes.FINDINGS, heads=HEAD_ROWS, events=EVENT_ROWS, returns=shapes.FINDINGS)
def _still_there(
    run: RunContext, found: DataFrame, heads: DataFrame, events: DataFrame
) -> DataFrame:
    """Return those of the findings that a second look by key finds as well."""
    suspects = found.select(F.col("tag").alias("topic"), "persistence_id").distinct()
    suspects = suspects.localCheckpoint()
    pid = F.col("persistence_id")
    usual = F.array(columns.head_segment(pid, SEGMENTS), columns.head_segment(pid, OLD_SEGMENTS))
    places = suspects.select("topic", F.explode(usual).alias("segment")).unionByName(
        _of(suspects, heads).select("topic", "segment")
    )
    again = written.head_rows_of(places.distinct(), run.settings)
    heads_again = _of(suspects, again).localCheckpoint()
    last = columns.journal_segment(F.greatest(F.col("seq_nr"), F.lit(1)), F.col("segment_size"))
    partitions = (
        _of(suspects, events)
        .select(*JOURNAL, "segment")
        .unionByName(heads_again.select(*JOURNAL, last.alias("segment")))
    )
    events_again = written.event_rows_of(partitions.distinct(), run.settings).localCheckpoint()
    found_again = journal_findings(heads_again, events_again).select(*_SAME)
    return found.join(found_again, on=[*_SAME], how="left_semi")


def _of(journals: DataFrame, rows: DataFrame) -> DataFrame:
    return rows.join(journals, on=[*JOURNAL], how="left_semi")
