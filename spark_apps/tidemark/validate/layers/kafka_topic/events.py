"""The rules of events: records against rows of journal, as pure transformations."""

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
from tidemark.validate.no_time_bucket import nowhere

_JOURNAL = tuple(JOURNAL_KEY)
_PLACE = ("topic", "partition")
_RECORD = (*_PLACE, "offset")
_STRICT = ("payload", "tags", "headers")
"""Of the others, older releases have written no column."""


class Verdict(StrEnum):
    """The verdict on an event that records and journal do not agree on.

    LEFT ones are not judged, since nothing tells: Kafka does not hold the record of the row, or
    holds another record there, as after compaction, retention, a mirror or a topic made anew.
    """

    MISSING = "missing"
    EXTRA = "extra"
    DIFFERENT = "different"
    LEFT = "left"


@shaped(rows=JOURNAL_ROWS, returns=EVENTS)
def briefly(rows: DataFrame, *, by_value: bool) -> DataFrame:
    """Return rows of journal with hashes of long columns.

    Args:
        rows: the rows.
        by_value: whether JSON payloads are alike if their values are; otherwise if their texts are.
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
    said=EVENTS,
    stored=EVENTS,
    read=READ,
    journals=JOURNALS,
    heads=HEADS,
    bounds=BOUNDS,
    returns=VERDICTS,
)
def verdicts(
    said: DataFrame,
    stored: DataFrame,
    read: DataFrame,
    journals: DataFrame,
    heads: DataFrame,
    bounds: DataFrame,
    expiry: Expiry | None,
) -> DataFrame:
    """Return the events that records and journal do not agree on.

    A row of journal is judged only by the record that it came from: of its place, key and time. An
    event is not missing where a row that is not judged has its number, and nothing is judged of a
    journal with a row at whose place there is another record.

    Args:
        said: what records that are judged say, without events that later records delete.
        stored: what journal holds; also rows of other offsets, which may be the same events.
        read: all records.
        journals: of these.
        heads: what metajournal holds of these journals.
        bounds: of the topic partitions that are judged.
        expiry: how expired journals are known; None if they are not left out.
    """
    is_said, is_stored = F.col("said").isNotNull(), F.col("stored").isNotNull()
    records = read.select(
        *_RECORD, F.struct("id", "timestamp").alias("record"), "first_nr", "last_nr"
    )
    is_own = F.col("record").eqNullSafe(F.struct("id", "timestamp"))
    is_appended = _known(F.col("seq_nr").between(F.col("first_nr"), F.col("last_nr")))
    # Where the first records of a journal are unknown, so is what its later deletes take away.
    is_judgeable = is_said | _known(F.col("is_whole")) | ~is_appended
    journal, number = Window.partitionBy(*_JOURNAL), Window.partitionBy(*_JOURNAL, "seq_nr")
    is_in_scope = _known(F.col("offset").between(F.col("lowest"), F.col("last")))
    known = (
        _apart(said, stored)
        .join(records, list(_RECORD), "left")
        .join(_known_of(journals, heads, expiry), list(_JOURNAL), "left")
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
        ~_known(F.col("is_in_doubt"))
        & ~_known(F.col("is_expired"))
        & (F.col("seq_nr") > F.coalesce("delete_to", F.lit(0)))
    )
    is_judged = _known(F.col("offset").between(F.col("first"), F.col("last")))
    is_left = F.col("is_mixed") | F.col("is_unknown")
    verdict = (
        F.when(is_left, F.when(F.col("is_in_scope"), Verdict.LEFT.value))
        .when(~is_judged, None)
        .when(~is_stored, Verdict.MISSING.value)
        .when(~is_said, Verdict.EXTRA.value)
        .otherwise(Verdict.DIFFERENT.value)
    )
    return (
        known.where(is_considered)
        .withColumns({"verdict": verdict, "segment": F.coalesce("segment", "said_segment")})
        .where(F.col("verdict").isNotNull())
        .select(*VERDICTS)
    )


def _apart(said: DataFrame, stored: DataFrame) -> DataFrame:
    """Return the events that only one side has, and those of which something is `differing`."""
    is_both = F.col("said").isNotNull() & F.col("stored").isNotNull()
    differing = F.concat_ws(", ", *(_differs(name) for name in EVENT_CONTENT))
    both = (
        said.withColumnsRenamed({"content": "said", "segment": "said_segment"})
        .join(stored.withColumnRenamed("content", "stored"), list(EVENT_KEY), "full")
        .withColumn("differing", F.when(is_both, differing))
    )
    return both.where(~is_both | (F.col("differing") != ""))


def _known_of(journals: DataFrame, heads: DataFrame, expiry: Expiry | None) -> DataFrame:
    """Return what decides of each journal whether its events are judged."""
    is_expired = F.lit(False) if expiry is None else expiry.is_over()
    return journals.join(heads, list(_JOURNAL), "left").select(
        *_JOURNAL,
        "is_in_doubt",
        "is_whole",
        # A purge takes the head last: as long as there is one, it says what is deleted.
        (F.col("head").isNull() & is_expired).alias("is_expired"),
        F.coalesce(F.col("head")["delete_to"], F.lit(0)).alias("delete_to"),
    )


def _known(condition: Column) -> Column:
    """Return false where a condition is null."""
    return F.coalesce(condition, F.lit(False))


@shaped(verdicts=VERDICTS, said=EVENTS, returns=shapes.FINDINGS)
def event_findings(verdicts: DataFrame, said: DataFrame) -> DataFrame:
    """Return the findings of single events, and of records that append one number."""
    at = F.format_string("offset %d of partition %d", "offset", "partition")
    number, nothing, verdict = F.col("seq_nr"), F.lit(None), F.col("verdict")
    single = findings_of(
        placed(verdicts),
        [
            FindingRule(
                checks.MISSING_EVENT,
                verdict == Verdict.MISSING.value,
                number,
                nothing,
                F.concat(at, F.lit(" is not in journal")),
            ),
            FindingRule(
                checks.EXTRA_EVENT,
                verdict == Verdict.EXTRA.value,
                number,
                nothing,
                F.concat(F.lit("journal names "), at, F.lit(", whose record has no such event")),
            ),
            FindingRule(
                checks.DIFFERENT_EVENT,
                verdict == Verdict.DIFFERENT.value,
                number,
                nothing,
                F.concat(at, F.lit(" says otherwise: "), "differing"),
            ),
        ],
    )
    return single.unionByName(_forks(said))


def _forks(said: DataFrame) -> DataFrame:
    in_order = Window.partitionBy(*_JOURNAL, "seq_nr").orderBy("offset")
    writer = F.struct("offset", F.col("content")["origin"].alias("origin"))
    pairs = said.withColumn("other", F.lag(writer).over(in_order))
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
    return findings_of(placed(pairs), [FindingRule(checks.FORK, is_fork, number, number, text)])


def _differs(name: str) -> Column:
    said, stored = F.col("said")[name], F.col("stored")[name]
    differs = ~said.eqNullSafe(stored)
    return F.when(differs if name in _STRICT else differs & stored.isNotNull(), F.lit(name))


def placed(rows: DataFrame) -> DataFrame:
    """Return rows with the columns by which findings are known."""
    return rows.withColumns(
        {"time_bucket": nowhere(), "persistence_id": F.col("id"), "tag": F.col("topic")}
    )
