"""The events to be tagged: messages, with the tags that rules add and without what cannot be read.

An event that no reader could read must not enter a tag view, since it would fail every reader of
its tags, and must not take a number, since its absence would be a gap. It goes to quarantine.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.journal.tables import PAYLOAD_COLUMNS
from tidemark.partitioning import keys
from tidemark.tagging.rules import Rule, with_rule_tags
from tidemark.window import to_millis

READ = ("ser_id", "ser_manifest", "event_manifest", "event")
"""What of the payload must be read to know an event's tags and whether it can be written."""
MAX_AHEAD = timedelta(days=1)
"""A clock that is further ahead is broken: its events would wait for buckets that never come."""


def tagged(messages: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """Messages with the tags that they get in the tag views.

    Columns in: those of `journal.frames.message_index` with at least the payload columns `READ`.
    Columns out: the same, with tags (stored and from rules, sorted; null when there is none, or
    when the event cannot be written) and cause (why a tagged event cannot be written, or null).
    """
    with_tags = with_rule_tags(messages, rules)
    has_tags = F.coalesce(F.size("tags") > 0, F.lit(False))
    judged = with_tags.withColumn("cause", F.when(has_tags, _cause()))
    return judged.withColumn("tags", F.when(has_tags & F.col("cause").isNull(), F.col("tags")))


def index_of(messages: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """The same without any payload, for numbering. Columns in: those of `tagged`."""
    return tagged(messages, rules).drop(*PAYLOAD_COLUMNS)


def unwritable(messages: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """The tagged events that cannot be written.

    Columns in: those of `tagged`. Columns out: persistence_id, sequence_nr, timestamp, time_bucket,
    cause, ser_id, ser_manifest, event.
    """
    evidence = ["persistence_id", "sequence_nr", "timestamp", "time_bucket", "cause"]
    events = tagged(messages, rules)
    return events.where(F.col("cause").isNotNull()).select(
        *evidence, "ser_id", "ser_manifest", "event"
    )


def _cause() -> Column:
    latest = to_millis(clock.now() + MAX_AHEAD)
    return (
        F.when(F.col("event").isNull(), F.lit("no payload"))
        .when(F.col("ser_id").isNull(), F.lit("no serializer id"))
        .when(F.col("ticks") < keys.UUID_EPOCH_TICKS, F.lit("its timeuuid lies before 1970"))
        .when(
            F.col("ticks") > keys.epoch_ms_ticks(latest),
            F.lit("its timeuuid lies more than a day in the future"),
        )
    )
