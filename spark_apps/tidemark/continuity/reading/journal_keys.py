"""The keys that validate compares, read in the order that rules out false findings.

The journal may be alive. Pekko writes messages, then tag_views, then tag_write_progress, and
metadata before it deletes. So validate reads progress first, then messages, then tag_views, and
metadata last, which excuses absence (docs/real-systems.md, "What an actor writes" and "Deletes and
tools").
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.context import RunContext
from tidemark.journal import frames
from tidemark.journal.shapes import ID, MESSAGES
from tidemark.ledger import applications
from tidemark.ledger.pieces import Pieces
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.tagging import events, rules
from tidemark.tagging.shapes import READ


def row_bytes(run: RunContext) -> float:
    """Return the mean bytes of payload in a row of the tag views, sampled when Spark was opened."""
    settings = run.settings
    return connector.expected(run.spark, settings.journal_keyspace, settings.events_by_tag_table)


@shaped(returns=ID)
def listed(spark: SparkSession, settings: Settings, control: Control) -> DataFrame:
    """Read the persistence ids in all_persistence_ids; without that table the frame is empty."""
    name = settings.all_persistence_ids_table
    if control.table_columns(settings.journal_keyspace, name) is None:
        return local_rows(spark, [], "persistence_id string")
    return connector.read(spark, settings.journal_keyspace, name, "persistence_id")


@shaped(returns={**MESSAGES, "partition_nr": "bigint", "has_payload": "boolean"})
def index(run: RunContext, tag_rules: Sequence[rules.TagRule]) -> DataFrame:
    """Read every message with the tags under which it should have rows, see `with_rule_tags`."""
    payload = events.READ if tag_rules else ()
    messages = frames.message_index(
        run.spark, run.settings, "partition_nr", *payload, with_has_payload=True
    )
    return with_rule_tags(run, messages, tag_rules) if tag_rules else messages


@shaped(messages=READ, returns=MESSAGES)
def with_rule_tags(
    run: RunContext, messages: DataFrame, tag_rules: Sequence[rules.TagRule]
) -> DataFrame:
    """Add the tags of the rules where tag-write has applied these rules; elsewhere keep the stored.

    The payload columns that the rules read are dropped, other columns are kept.
    """
    settings = run.settings
    ledger = Pieces.of(
        run.control, settings, applications.TAG_WRITE, version=rules.version(tag_rules)
    )
    written = local_rows(
        run.spark,
        [(bucket, True) for bucket in sorted(ledger.done())],
        "time_bucket bigint, is_written boolean",
    )
    stored = messages.withColumn("stored_tags", F.col("tags"))
    return (
        rules.with_rule_tags(stored, tag_rules)
        .join(F.broadcast(written), on="time_bucket", how="left")
        .withColumn(
            "tags", F.when(F.col("is_written"), F.col("tags")).otherwise(F.col("stored_tags"))
        )
        .select(*[name for name in messages.columns if name not in events.READ])
    )
