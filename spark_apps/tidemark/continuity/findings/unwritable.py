"""Tagged events that tag-write cannot write: one finding each."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.continuity import shapes
from tidemark.continuity.findings import checks
from tidemark.continuity.findings.finding import FindingRule, findings_of
from tidemark.journal import frames, increments
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.tagging import events
from tidemark.tagging import rules as tag_rules

_EVENT = ["persistence_id", "sequence_nr", "timestamp"]


@shaped(absent=shapes.ABSENT, returns=shapes.UNWRITABLE)
def unwritable_events(
    absent: DataFrame,
    buckets: Collection[int],
    settings: Settings,
    rules: Sequence[tag_rules.TagRule],
) -> DataFrame:
    """Return the absent events that no reader could read; their payloads are read by key.

    Args:
        absent: `tag_sequence.absent_events`.
        buckets: the time buckets of the run, epoch ms.
        settings: where the journal is.
        rules: the tag rules.

    The rows are in memory.

    Raises:
        CassandraUnavailable: the plan would scan the whole table instead.
    """
    spark = absent.sparkSession
    wanted = local_rows(spark, [(bucket,) for bucket in sorted(buckets)], "time_bucket bigint")
    suspects = (
        absent.where(~F.col("is_removed"))
        .join(F.broadcast(wanted), on="time_bucket", how="left_semi")
        .select("persistence_id", "sequence_nr")
        .distinct()
        .localCheckpoint()
    )
    if suspects.isEmpty():
        return none(absent)
    keys = increments.keys_of(suspects, settings)
    messages = frames.messages_of(keys, settings, *events.READ)
    unwritable = events.unwritable(events.tagged(messages, rules))
    return unwritable.select(*_EVENT, "time_bucket", "cause").localCheckpoint()


@shaped(returns=shapes.UNWRITABLE)
def none(absent: DataFrame) -> DataFrame:
    """Return an empty frame of the shape of `unwritable_events`."""
    schema = "persistence_id string, sequence_nr bigint, timestamp string, time_bucket bigint"
    return local_rows(absent.sparkSession, [], f"{schema}, cause string")


@shaped(unwritable=shapes.UNWRITABLE, returns=shapes.FINDINGS)
def unwritable_findings(unwritable: DataFrame) -> DataFrame:
    """Return one finding for each event, whatever its tags; number is its sequence nr."""
    detail = F.format_string(
        "the event with sequence nr %d and timestamp %s cannot be written: %s",
        F.col("sequence_nr"),
        F.col("timestamp"),
        F.col("cause"),
    )
    rule = FindingRule(
        checks.UNWRITABLE_EVENT, F.lit(True), F.col("sequence_nr"), F.lit(None), detail
    )
    return findings_of(unwritable, [rule])
