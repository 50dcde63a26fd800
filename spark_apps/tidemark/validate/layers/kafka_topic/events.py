"""The comparison of records with rows of journal, as pure transformations."""

from __future__ import annotations

from enum import StrEnum

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.journals.kafka.tables import JOURNAL_KEY
from tidemark.replicate.shapes import HEADS, JOURNAL_ROWS
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.findings.finding import FindingRule, findings_of
from tidemark.validate.layers.kafka_topic import checks
from tidemark.validate.layers.kafka_topic.records import Expiry
from tidemark.validate.layers.kafka_topic.same_json import normal_json
from tidemark.validate.layers.kafka_topic.shapes import (
    BOUNDS,
    EVENT_CONTENT,
    EVENT_KEY,
    EVENTS,
    JOURNALS,
    READ,
    VERDICTS,
)
from tidemark.validate.no_time_bucket import no_time_bucket

_JOURNAL = tuple(JOURNAL_KEY)
_PLACE = ("topic", "partition")
_RECORD = (*_PLACE, "offset")
_STRICT = ("payload", "tags", "headers")
"""Compared even if the row has no value; older releases left the other columns empty."""


class Verdict(StrEnum):
    """The verdict on an event on which records and journal disagree.

    LEFT events cannot be judged: Kafka does not hold the record of the row, or holds another record
    at its offset, as after compaction, retention, mirroring, or if the topic was created again.
    """

    MISSING = "missing"
    EXTRA = "extra"
    DIFFERENT = "different"
    LEFT = "left"


@shaped(rows=JOURNAL_ROWS, returns=EVENTS)
def briefly(rows: DataFrame, *, by_value: bool) -> DataFrame:
    """Return rows of journal with hashes of long columns.

    JSON payloads with equal values are equal if `by_value`; otherwise only if their texts are.
    """
    empty_tags = F.array().cast("array<string>")
    empty_headers = F.create_map().cast("map<string,string>")
    text = F.coalesce("payload_txt", F.lit(""))
    if by_value:
        is_json = F.col("payload_type") == "json"
        text = F.when(is_json, normal_json(F.when(is_json, text))).otherwise(text)
    parts = {
        "payload": F.xxhash64(
            F.coalesce("payload_type", F.lit("")), text, F.coalesce("payload_bin", F.lit(b""))
        ),
        "tags": F.xxhash64(F.array_sort(F.coalesce("tags", empty_tags))),
        "metadata": F.when(F.col("metadata").isNotNull(), F.xxhash64("metadata")),
        "headers": F.xxhash64(F.array_sort(F.map_entries(F.coalesce("headers", empty_headers)))),
    }
    content = F.struct(
        *(
            parts.get(name, F.col(name)).cast(kind).alias(name)
            for name, kind in EVENT_CONTENT.items()
        )
    )
    return rows.select(*EVENT_KEY, "segment", content.alias("content"))


@shaped(events=EVENTS, bounds=BOUNDS, returns=EVENTS)
def judged(events: DataFrame, bounds: DataFrame) -> DataFrame:
    """Return the events whose offsets are judged."""
    bounded = events.join(F.broadcast(bounds), list(_PLACE))
    is_judged = F.col("offset").between(F.col("first"), F.col("last"))
    return bounded.where(is_judged).select(*EVENTS)


@shaped(
    record_events=EVENTS,
    table_events=EVENTS,
    read=READ,
    journals=JOURNALS,
    heads=HEADS,
    bounds=BOUNDS,
    returns=VERDICTS,
)
def verdicts(
    record_events: DataFrame,
    table_events: DataFrame,
    read: DataFrame,
    journals: DataFrame,
    heads: DataFrame,
    bounds: DataFrame,
    expiry: Expiry | None,
) -> DataFrame:
    """Return the events on which records and journal disagree.

    A row of journal is judged only by the record that it came from: with its offset, key and time.
    An event is not missing if a row that cannot be judged has its number. No event is judged of a
    journal with a row at whose offset there is another record.

    `record_events` are events of the judged records, without those that later records delete;
    `table_events` are rows of journal, also of other offsets, which may be the same events. With
    `expiry`, expired journals are left out.
    """
    is_said, is_stored = F.col("said").isNotNull(), F.col("stored").isNotNull()
    records = read.select(
        *_RECORD, F.struct("id", "timestamp").alias("record"), "first_nr", "last_nr"
    )
    is_own = F.col("record").eqNullSafe(F.struct("id", "timestamp"))
    is_appended = _true(F.col("seq_nr").between(F.col("first_nr"), F.col("last_nr")))
    # If the first records of a journal are unknown, so are the events that its deletes delete.
    is_judgeable = is_said | _true(F.col("is_whole")) | ~is_appended
    journal, number = Window.partitionBy(*_JOURNAL), Window.partitionBy(*_JOURNAL, "seq_nr")
    is_in_scope = _true(F.col("offset").between(F.col("lowest"), F.col("last")))
    compared = (
        _disagreeing(record_events, table_events)
        .join(records, list(_RECORD), "left")
        .join(_journal_facts(journals, heads, expiry), list(_JOURNAL), "left")
        .join(F.broadcast(bounds.drop("pointer", "is_complete")), list(_PLACE), "left")
        .withColumn("is_foreign", is_stored & F.col("record").isNotNull() & ~is_own)
        .withColumns(
            {
                "is_mixed": F.max("is_foreign").over(journal),
                "is_unknown": F.max(is_stored & ~(is_own & is_judgeable)).over(number),
                "is_in_scope": F.max(is_in_scope).over(number),
            }
        )
    )
    is_considered = (
        ~_true(F.col("is_in_doubt"))
        & ~_true(F.col("is_expired"))
        & (F.col("seq_nr") > F.coalesce("delete_to", F.lit(0)))
    )
    is_judged = _true(F.col("offset").between(F.col("first"), F.col("last")))
    is_left = F.col("is_mixed") | F.col("is_unknown")
    verdict = (
        F.when(is_left, F.when(F.col("is_in_scope"), Verdict.LEFT.value))
        .when(~is_judged, None)
        .when(~is_stored, Verdict.MISSING.value)
        .when(~is_said, Verdict.EXTRA.value)
        .otherwise(Verdict.DIFFERENT.value)
    )
    return (
        compared.where(is_considered)
        .withColumns({"verdict": verdict, "segment": F.coalesce("segment", "said_segment")})
        .where(F.col("verdict").isNotNull())
        .select(*VERDICTS)
    )


def _disagreeing(record_events: DataFrame, table_events: DataFrame) -> DataFrame:
    """Return the events that only one side has, and those with fields that are `differing`."""
    is_both = F.col("said").isNotNull() & F.col("stored").isNotNull()
    differing = F.concat_ws(", ", *(_differs(name) for name in EVENT_CONTENT))
    joined = (
        record_events.withColumnsRenamed({"content": "said", "segment": "said_segment"})
        .join(table_events.withColumnRenamed("content", "stored"), list(EVENT_KEY), "full")
        .withColumn("differing", F.when(is_both, differing))
    )
    return joined.where(~is_both | (F.col("differing") != ""))


def _journal_facts(journals: DataFrame, heads: DataFrame, expiry: Expiry | None) -> DataFrame:
    """Return the facts of each journal that decide whether its events are judged."""
    is_expired = F.lit(False) if expiry is None else expiry.is_over()
    return journals.join(heads, list(_JOURNAL), "left").select(
        *_JOURNAL,
        "is_in_doubt",
        "is_whole",
        # A purge deletes the head last: until then the head records which events are deleted.
        (F.col("head").isNull() & is_expired).alias("is_expired"),
        F.coalesce(F.col("head")["delete_to"], F.lit(0)).alias("delete_to"),
    )


def _true(condition: Column) -> Column:
    """Return false where a condition is null."""
    return F.coalesce(condition, F.lit(False))


@shaped(verdicts=VERDICTS, record_events=EVENTS, returns=shapes.FINDINGS)
def event_findings(verdicts: DataFrame, record_events: DataFrame) -> DataFrame:
    """Return the findings of single events, and of records that append the same number."""
    place = F.format_string("offset %d of partition %d", "offset", "partition")
    number, nothing, verdict = F.col("seq_nr"), F.lit(None), F.col("verdict")
    single = findings_of(
        with_finding_key(verdicts),
        [
            FindingRule(
                checks.MISSING_EVENT,
                verdict == Verdict.MISSING.value,
                number,
                nothing,
                F.concat(place, F.lit(" is not in journal")),
            ),
            FindingRule(
                checks.EXTRA_EVENT,
                verdict == Verdict.EXTRA.value,
                number,
                nothing,
                F.concat(F.lit("journal names "), place, F.lit(", whose record has no such event")),
            ),
            FindingRule(
                checks.DIFFERENT_EVENT,
                verdict == Verdict.DIFFERENT.value,
                number,
                nothing,
                F.concat(place, F.lit(" says otherwise: "), "differing"),
            ),
        ],
    )
    return single.unionByName(_forks(record_events))


def _forks(record_events: DataFrame) -> DataFrame:
    in_order = Window.partitionBy(*_JOURNAL, "seq_nr").orderBy("offset")
    writer = F.struct("offset", F.col("content")["origin"].alias("origin"))
    pairs = record_events.withColumn("other", F.lag(writer).over(in_order))
    text = F.format_string(
        "offsets %d by %s and %d by %s of partition %d",
        F.col("other")["offset"],
        F.coalesce(F.col("other")["origin"], F.lit("nobody named")),
        F.col("offset"),
        F.coalesce(F.col("content")["origin"], F.lit("nobody named")),
        F.col("partition"),
    )
    number = F.col("seq_nr")
    is_fork = F.col("other").isNotNull()
    return findings_of(
        with_finding_key(pairs), [FindingRule(checks.FORK, is_fork, number, number, text)]
    )


def _differs(name: str) -> Column:
    said, stored = F.col("said")[name], F.col("stored")[name]
    differs = ~said.eqNullSafe(stored)
    return F.when(differs if name in _STRICT else differs & stored.isNotNull(), F.lit(name))


def with_finding_key(rows: DataFrame) -> DataFrame:
    """Return rows with the key columns of findings."""
    return rows.withColumns(
        {"time_bucket": no_time_bucket(), "persistence_id": F.col("id"), "tag": F.col("topic")}
    )
