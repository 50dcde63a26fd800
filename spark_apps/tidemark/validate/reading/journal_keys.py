"""The keys that validate compares, read in an order that rules out false findings.

The journal may be live. Pekko writes messages, then tag_views, then tag_write_progress, and
metadata before it deletes. So validate reads progress first, then messages, then tag_views, and
last metadata, which explains absent events (docs/real-systems.md, "What an actor writes" and
"Deletes and tools").
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector, row_sizes
from tidemark.context import RunContext
from tidemark.journals.pekko import frames
from tidemark.journals.pekko.messages import increments
from tidemark.journals.pekko.messages.messages_by_key import MESSAGE
from tidemark.journals.pekko.shapes import HAS_OLDER_PAYLOAD, ID, MESSAGE_KEYS, MESSAGES
from tidemark.ledger import applications
from tidemark.ledger.pieces import Pieces
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.tag_write import events, rules
from tidemark.validate import shapes
from tidemark.validate.findings.checks import DELETED_TO_AHEAD


def row_bytes(run: RunContext) -> float:
    """Return the mean payload size of a row of the tag views, sampled when Spark was started."""
    settings = run.settings
    return row_sizes.expected(run.spark, settings.journal_keyspace, settings.events_by_tag_table)


@shaped(ids=ID, returns=ID)
def listed(run: RunContext, ids: DataFrame | None = None) -> DataFrame:
    """Read all_persistence_ids, completely or unique `ids` by key.

    Without that table the frame is empty.
    """
    source = (run.settings.journal_keyspace, run.settings.all_persistence_ids_table)
    if run.control.table_columns(*source) is None:
        return local_rows(run.spark, [], "persistence_id string")
    return connector.read(run.spark, *source, "persistence_id", keys=ids)


def usable_rules(run: RunContext) -> list[rules.TagRule]:
    """Return the tag rules, checked."""
    tag_rules = rules.load(run.settings.tagging_dir)
    rules.check(run.spark, tag_rules)
    return tag_rules


def payload_for(tag_rules: Sequence[rules.TagRule]) -> Sequence[str]:
    """Return the payload columns that `with_rule_tags` needs; the payload itself only for rules."""
    return events.READ if tag_rules else ("ser_id",)


@shaped(messages={**MESSAGES, "ser_id": "int", "has_payload": "boolean"})
def with_rule_tags(
    run: RunContext,
    messages: DataFrame,
    tag_rules: Sequence[rules.TagRule],
    *,
    are_applied: bool = False,
) -> DataFrame:
    """Add `cause`, and the tags of the rules: to `tags` where tag-write has applied these rules.

    Elsewhere the tags are in `pending_tags`: rows under them are right, but may be absent. `cause`
    is the reason why a tagged event is unreadable, or null. The payload columns of `payload_for`
    are dropped, other columns are kept. `are_applied`: the rules are applied in every time bucket.
    """
    has_tags = F.coalesce(F.size("tags") > 0, F.lit(False))
    kept_columns = [
        name for name in messages.columns if name not in (*events.READ, HAS_OLDER_PAYLOAD)
    ]
    no_tags = F.array().cast("array<string>")
    if not tag_rules:
        cause = F.when(has_tags, events.cause(messages, F.col("has_payload")))
        return messages.select(*kept_columns, cause.alias("cause"), no_tags.alias("pending_tags"))
    ledger = Pieces.of(
        run.control, run.settings, applications.TAG_WRITE, version=rules.version(tag_rules)
    )
    written = local_rows(
        run.spark,
        [] if are_applied else [(bucket, True) for bucket in sorted(ledger.done())],
        "time_bucket bigint, is_written boolean",
    )
    with_stored_tags = messages.withColumn("stored_tags", F.col("tags"))
    is_written = F.col("is_written").isNotNull() | F.lit(are_applied)
    with_rules = (
        rules.with_rule_tags(with_stored_tags, tag_rules)
        .join(F.broadcast(written), on="time_bucket", how="left")
        .withColumn(rules.FAILED_RULE, F.when(is_written, F.col(rules.FAILED_RULE)))
    )
    cause_of_event = events.cause(with_rules, F.col("has_payload"))
    by_rules = F.array_except(F.coalesce("tags", no_tags), F.coalesce("stored_tags", no_tags))
    return with_rules.withColumns(
        {
            "pending_tags": F.when(is_written | cause_of_event.isNotNull(), no_tags).otherwise(
                by_rules
            ),
            "tags": F.when(is_written, F.col("tags")).otherwise(F.col("stored_tags")),
        }
    ).select(*kept_columns, F.when(has_tags, cause_of_event).alias("cause"), "pending_tags")


@shaped(findings=shapes.FINDINGS, returns=shapes.FINDINGS)
def without_deletes_meanwhile(run: RunContext, findings: DataFrame) -> DataFrame:
    """Drop findings of `deleted_to_ahead` that a second read of messages does not confirm.

    An actor may write events, and delete them, between the read of messages and that of metadata.
    Then the last event of the first read is deleted in the second read, or has a successor.
    """
    is_ahead = F.col("check_name") == DELETED_TO_AHEAD.name
    last = findings.where(is_ahead).select("persistence_id", "number").distinct().localCheckpoint()
    if last.isEmpty():
        return findings
    last_and_next = F.explode(F.array("number", F.col("number") + 1)).alias("sequence_nr")
    present = frames.messages_of(
        increments.keys_of(last.select("persistence_id", last_and_next), run.settings), run.settings
    )
    confirmed = (
        present.groupBy("persistence_id")
        .agg(F.max("sequence_nr").alias("number"))
        .join(last, on=["persistence_id", "number"])
        .withColumn("check_name", F.lit(DELETED_TO_AHEAD.name))
    )
    other_findings, key = findings.where(~is_ahead), ["persistence_id", "number", "check_name"]
    return other_findings.unionByName(
        findings.join(confirmed, on=key, how="left_semi").select(*other_findings.columns)
    )


@shaped(indexed={**MESSAGE_KEYS, "has_payload": "boolean", "cause": "string"}, returns=MESSAGE_KEYS)
def readable_events(indexed: DataFrame) -> DataFrame:
    """Return the keys (MESSAGE) of the readable events."""
    return indexed.where(F.col("has_payload") & F.col("cause").isNull()).select(*MESSAGE)


@shaped(indexed=shapes.JOURNAL_EVENTS, returns=shapes.JOURNAL_EVENTS)
def of_readable(indexed: DataFrame) -> DataFrame:
    """Return the events, unreadable ones without tags, since they should have no rows."""
    is_readable = F.col("cause").isNull()
    return indexed.withColumns(
        {name: F.when(is_readable, F.col(name)) for name in ("tags", "pending_tags")}
    )
