"""The rules of topics against tables, as pure transformations."""

from __future__ import annotations

from datetime import date

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.continuity import shapes
from tidemark.continuity.findings.finding import FindingRule, findings_of
from tidemark.continuity.no_time_bucket import nowhere
from tidemark.inspection.kafka_topic import checks
from tidemark.inspection.kafka_topic.shapes import BOUNDS, EVENT_CONTENT, EVENTS, JOURNALS
from tidemark.kafka_journal import expired
from tidemark.kafka_journal.tables import JOURNAL_KEY
from tidemark.kafka_journal.wire.action import ActionType
from tidemark.replication.shapes import FOLDED, HEADS, JOURNAL_ROWS
from tidemark.spark.shapes import shaped

_JOURNAL = tuple(JOURNAL_KEY)
_PLACE = ("topic", "partition")
_EVENT = (*_JOURNAL, "partition", "offset", "seq_nr")
_STRICT = ("timestamp", "payload", "tags", "headers")
"""Of the others, older releases have written no column."""


@shaped(rows=JOURNAL_ROWS, returns=EVENTS)
def briefly(rows: DataFrame) -> DataFrame:
    """Return rows of journal with hashes of what is long."""
    empty_tags = F.array().cast("array<string>")
    empty_headers = F.create_map().cast("map<string,string>")
    parts = {
        "payload": F.xxhash64(
            F.coalesce("payload_type", F.lit("")),
            F.coalesce("payload_txt", F.lit("")),
            F.coalesce("payload_bin", F.lit(b"")),
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
    return rows.select(*_EVENT, "segment", content.alias("content"))


@shaped(events=EVENTS, bounds=BOUNDS, returns=EVENTS)
def judged(events: DataFrame, bounds: DataFrame) -> DataFrame:
    """Return the events whose offsets are judged."""
    bounded = events.join(F.broadcast(bounds), list(_PLACE))
    is_judged = F.col("offset").between(F.col("first"), F.col("last"))
    return bounded.where(is_judged).select(*EVENTS)


@shaped(folded=FOLDED, bounds=BOUNDS, returns=JOURNALS)
def journals(folded: DataFrame, actions: DataFrame, bounds: DataFrame) -> DataFrame:
    """Return what is known of each journal.

    Args:
        folded: the actions up to the pointer, folded from nothing.
        actions: all actions (ACTIONS) with `timestamp`, those behind the pointer as well.
        bounds: of their topic partitions.
    """
    placed = actions.join(F.broadcast(bounds), list(_PLACE))
    is_done = F.col("offset") <= F.col("pointer")
    offset, action = F.col("offset"), F.col("action")
    is_purge = action == ActionType.PURGE.value
    last_purge = F.max(F.when(is_done & is_purge, offset)).over(Window.partitionBy(*_JOURNAL))
    in_life = placed.withColumn("last_purge", last_purge).withColumn(
        "is_now", is_done & (F.col("last_purge").isNull() | (offset > F.col("last_purge")))
    )
    is_append = F.col("is_now") & (action == ActionType.APPEND.value)
    is_delete = F.col("is_now") & (action == ActionType.DELETE.value)
    known = in_life.groupBy(*_JOURNAL).agg(
        F.min(F.when(is_append, offset)).alias("first_append"),
        F.max(F.when(is_append, offset)).alias("last_append"),
        F.max_by("timestamp", F.when(is_append, offset)).alias("last_at"),
        F.min_by("first_nr", F.when(is_append, offset)).alias("first_nr"),
        F.max(F.when(is_delete, offset)).alias("last_delete"),
        F.max(F.when(is_delete, F.col("to"))).alias("most_delete_to"),
        (F.max("last_purge").isNotNull() | (F.max("first") == 0)).alias("is_whole"),
        F.max(~is_done & (action != ActionType.APPEND.value)).alias("is_in_flight"),
    )
    begins = (F.col("first_nr") == 1) & F.col("last_delete").isNull()
    deleted_since = F.col("last_delete") > F.col("first_append")
    is_whole = F.col("is_whole") | F.coalesce(begins, F.lit(False))
    told = known.withColumns(
        {
            "has_append": F.col("last_append").isNotNull(),
            "is_whole": is_whole,
            "knows_delete_to": is_whole | F.coalesce(deleted_since, F.lit(False)),
        }
    )
    heads = folded.select(*_JOURNAL, "partition", F.col("head").alias("said"))
    return heads.join(told, list(_JOURNAL)).select(*JOURNALS)


@shaped(said=EVENTS, stored=EVENTS, journals=JOURNALS, heads=HEADS, returns=shapes.FINDINGS)
def event_findings(
    said: DataFrame, stored: DataFrame, journals: DataFrame, heads: DataFrame, today: date
) -> DataFrame:
    """Return the findings of single events.

    Args:
        said: what records that are judged say, without events that later records delete.
        stored: what journal holds of these offsets.
        journals: of all records that were read.
        heads: what metajournal holds of these journals.
        today: in the time zone of expiries.
    """
    known = journals.join(heads, list(_JOURNAL), "left").select(
        *_JOURNAL,
        "is_in_flight",
        _is_expired(today).alias("is_expired"),
        F.coalesce(F.col("head")["delete_to"], F.lit(0)).alias("delete_to"),
    )
    both = (
        said.withColumnRenamed("content", "said")
        .drop("segment")
        .join(stored.withColumnRenamed("content", "stored"), list(_EVENT), "full")
        .join(known, list(_JOURNAL), "left")
    )
    is_judged = (
        ~F.coalesce("is_in_flight", F.lit(False))
        & ~F.coalesce("is_expired", F.lit(False))
        & (F.col("seq_nr") > F.coalesce("delete_to", F.lit(0)))
    )
    at = F.format_string("offset %d of partition %d", "offset", "partition")
    differing = F.concat_ws(", ", *(_differs(name) for name in EVENT_CONTENT))
    number, nothing = F.col("seq_nr"), F.lit(None)
    is_said, is_stored = F.col("said").isNotNull(), F.col("stored").isNotNull()
    single = findings_of(
        _placed(both.where(is_judged)),
        [
            FindingRule(
                checks.MISSING_EVENT,
                is_said & ~is_stored,
                number,
                nothing,
                F.concat(at, F.lit(" is not in journal")),
            ),
            FindingRule(
                checks.EXTRA_EVENT,
                ~is_said & is_stored,
                number,
                nothing,
                F.concat(F.lit("journal names "), at, F.lit(", whose record has no such event")),
            ),
            FindingRule(
                checks.DIFFERENT_EVENT,
                is_said & is_stored & (differing != ""),
                number,
                nothing,
                F.concat(at, F.lit(" says otherwise: "), differing),
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
    return findings_of(_placed(pairs), [FindingRule(checks.FORK, is_fork, number, number, text)])


@shaped(journals=JOURNALS, heads=HEADS, bounds=BOUNDS, returns=shapes.FINDINGS)
def head_findings(
    journals: DataFrame, heads: DataFrame, bounds: DataFrame, today: date
) -> DataFrame:
    """Return the findings of heads whose journals have records.

    A head that was written since, from behind the pointer, is not judged.
    """
    said, stored = F.col("said"), F.col("head")
    both = (
        journals.join(heads, list(_JOURNAL), "left")
        .join(F.broadcast(bounds.select(*_PLACE, "pointer")), list(_PLACE))
        .where(~F.col("is_in_flight"))
        .withColumn("differs", differing_fields())
    )
    is_newer = F.coalesce(stored["offset"] > F.col("pointer"), F.lit(False))
    details = F.concat_ws(
        ", ",
        *(
            F.when(
                F.array_contains("differs", name),
                F.format_string(f"{name} is %s, not %s", _text(stored[name]), _text(said[name])),
            )
            for name in ("partition", "offset", "seq_nr", "delete_to", "expire_after")
        ),
    )
    return findings_of(
        _placed(both),
        [
            FindingRule(
                checks.MISSING_HEAD,
                said.isNotNull() & stored.isNull() & ~_is_expired(today),
                said["seq_nr"],
                said["seq_nr"],
                F.format_string("seq_nr would be %d", said["seq_nr"]),
            ),
            FindingRule(
                checks.DIFFERENT_HEAD,
                said.isNotNull() & stored.isNotNull() & ~is_newer & (F.size("differs") > 0),
                F.coalesce(stored["seq_nr"], F.lit(0)),
                said["seq_nr"],
                details,
            ),
            FindingRule(
                checks.EXTRA_HEAD,
                said.isNull() & stored.isNotNull() & ~is_newer,
                F.coalesce(stored["seq_nr"], F.lit(0)),
                F.lit(None),
                F.lit("its journal is purged"),
            ),
        ],
    )


@shaped(rows=JOURNAL_KEY, journals=JOURNALS, bounds=BOUNDS, returns=shapes.FINDINGS)
def unknown_heads(rows: DataFrame, journals: DataFrame, bounds: DataFrame) -> DataFrame:
    """Return the findings of heads that name an offset which is judged, without any record.

    Args:
        rows: of metajournal, with `partition`, `offset` and `seq_nr`.
        journals: of all records that were read.
        bounds: of the topic partitions that are judged.
    """
    unknown = (
        rows.join(F.broadcast(bounds), list(_PLACE))
        .where(F.col("offset").between(F.col("first"), F.col("last")))
        .join(journals.select(*_JOURNAL), list(_JOURNAL), "left_anti")
    )
    text = F.format_string("it names offset %d of partition %d", "offset", "partition")
    return findings_of(
        _placed(unknown),
        [FindingRule(checks.EXTRA_HEAD, F.lit(True), F.col("seq_nr"), F.lit(None), text)],
    )


def differing_fields() -> Column:
    """Return the names of the fields in which the head `head` is not as `said`.

    kafka-journal merges the deletes of a poll and keeps the largest, so `delete_to` may be as high
    as any of them, and the head's offset that of an earlier one.
    """
    said, stored = F.col("said"), F.col("head")
    deleted, stored_deleted = (F.coalesce(one["delete_to"], F.lit(0)) for one in (said, stored))
    most = F.greatest(deleted, F.least(F.coalesce("most_delete_to", F.lit(0)), said["seq_nr"]))
    has_append = F.col("has_append")
    broken = {
        "partition": stored["partition"] != said["partition"],
        "offset": has_append & (stored["offset"] < F.col("last_append")),
        "seq_nr": has_append & ~stored["seq_nr"].eqNullSafe(said["seq_nr"]),
        "delete_to": F.col("knows_delete_to") & ~stored_deleted.between(deleted, most),
        "expire_after": has_append & ~stored["expire_after"].eqNullSafe(said["expire_after"]),
    }
    return F.array_compact(F.array(*(F.when(when, F.lit(name)) for name, when in broken.items())))


def _is_expired(today: date) -> Column:
    """Tell whether the journal may have been purged since it has expired."""
    days = F.call_function("div", F.col("said")["expire_after"], F.lit(86_400_000_000_000))
    at = F.date_add(F.to_date("last_at"), days.cast("int"))
    return expired.has_expired(at, today)


def _differs(name: str) -> Column:
    said, stored = F.col("said")[name], F.col("stored")[name]
    differs = ~said.eqNullSafe(stored)
    return F.when(differs if name in _STRICT else differs & stored.isNotNull(), F.lit(name))


def _text(value: Column) -> Column:
    return F.coalesce(value.cast("string"), F.lit("nothing"))


def _placed(rows: DataFrame) -> DataFrame:
    return rows.withColumns(
        {"time_bucket": nowhere(), "persistence_id": F.col("id"), "tag": F.col("topic")}
    )
