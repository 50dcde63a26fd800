"""The events to be tagged: messages with the tags of the rules, without unreadable events.

An unreadable event must not enter a tag view, since it would fail every reader of its tags, and
must not take a number, since its absence would be a gap. It is written to quarantine. But an event
whose row exists already counts, even if it is no longer readable or was lost from messages: readers
must find every number, and the row may be the only copy of the event.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import EVENT_PAYLOAD, HAS_OLDER_PAYLOAD, MESSAGES
from tidemark.journals.pekko.tables import OLDER_PAYLOAD, PAYLOAD_COLUMNS
from tidemark.partitioning import keys
from tidemark.spark.shapes import shaped
from tidemark.tag_write import shapes
from tidemark.tag_write.rules import FAILED_RULE, TagRule, with_rule_tags
from tidemark.window import to_millis

READ = tuple(EVENT_PAYLOAD)
"""The payload columns that decide an event's tags and whether it can be written."""
LATEST = datetime(2100, 1, 1, tzinfo=UTC)
"""Timestamps from here on are invalid. The limit is fixed, since whether an event takes a number
must not depend on the current time. An event of the near future waits for its time bucket."""


@shaped(messages=shapes.READ, returns=shapes.TAGGED)
def tagged(messages: DataFrame, rules: Sequence[TagRule]) -> DataFrame:
    """Return the messages with their tags in the tag views.

    Further columns of the messages are kept.
    """
    with_tags = with_rule_tags(messages, rules)
    has_tags = F.coalesce(F.size("tags") > 0, F.lit(False))
    cause_of_failure = cause(with_tags, F.col("event").isNotNull())
    with_cause = with_tags.withColumn("cause", F.when(has_tags, cause_of_failure)).drop(
        HAS_OLDER_PAYLOAD, FAILED_RULE
    )
    is_writable = has_tags & F.col("cause").isNull()
    return with_cause.withColumns(
        {
            "tags": F.when(is_writable, F.col("tags")),
            "unwritable_tags": F.when(~is_writable & has_tags, F.col("tags")),
        }
    )


@shaped(messages=shapes.READ, returns=shapes.INDEX)
def index_of(messages: DataFrame, rules: Sequence[TagRule]) -> DataFrame:
    """Return `tagged` without any payload, for numbering."""
    return tagged(messages, rules).drop(*PAYLOAD_COLUMNS)


@shaped(events=shapes.TAGGED, returns=shapes.UNWRITABLE)
def unwritable(events: DataFrame) -> DataFrame:
    """Return the tagged events that cannot be written."""
    evidence = ["persistence_id", "sequence_nr", "timestamp", "time_bucket", "cause"]
    return events.where(F.col("cause").isNotNull()).select(
        *evidence, "ser_id", "ser_manifest", "event"
    )


@shaped(events=shapes.TAGGED, returns=shapes.TAGGED)
def with_payload_where(events: DataFrame, is_needed: Column) -> DataFrame:
    """Drop the payload where it is not needed; events that cannot be written keep it.

    The events have all payload columns.
    """
    is_kept = F.col("cause").isNotNull() | (F.col("tags").isNotNull() & is_needed)
    return events.withColumns({name: F.when(is_kept, F.col(name)) for name in PAYLOAD_COLUMNS})


@shaped(messages={**MESSAGES, "ser_id": "int"})
def cause(messages: DataFrame, has_payload: Column) -> Column:
    """Return why a message cannot be written, as a column of that frame; null if it can."""
    has_older, failed_rule = F.lit(False), F.lit(None)
    if HAS_OLDER_PAYLOAD in messages.columns:
        has_older = F.col(HAS_OLDER_PAYLOAD)
    if FAILED_RULE in messages.columns:
        failed_rule = F.col(FAILED_RULE)
    is_too_long = F.exists("tags", lambda tag: F.octet_length(tag) > shapes.LONGEST_TAG)
    return (
        F.when(
            has_older,
            F.lit(
                f"no payload that can be copied: it is in the column `{OLDER_PAYLOAD}`,"
                " which plugins before 0.7 wrote"
            ),
        )
        .when(~has_payload, F.lit("no payload"))
        .when(is_too_long, F.lit(f"it has a tag of more than {shapes.LONGEST_TAG:,} bytes"))
        .when(F.col("ser_id").isNull(), F.lit("no serializer id"))
        .when(F.col("ticks") < keys.UUID_EPOCH_TICKS, F.lit("its timeuuid lies before 1970"))
        .when(
            F.col("ticks") >= keys.epoch_ms_ticks(to_millis(LATEST)),
            F.lit("its timeuuid lies after 2099"),
        )
        .when(
            failed_rule.isNotNull(),
            F.concat(F.lit("the rule of this tag cannot be evaluated for it: "), failed_rule),
        )
    )
