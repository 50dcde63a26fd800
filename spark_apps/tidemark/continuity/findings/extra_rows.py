"""Rows of the tag views of events that never were."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.continuity import shapes
from tidemark.continuity.findings import checks
from tidemark.continuity.findings.finding import FindingRule, findings_of
from tidemark.journal.shapes import DELETED, EVENT, PROGRESS, SCANNING, TAG_ROWS
from tidemark.spark.shapes import shaped

_EVENT = ["persistence_id", "sequence_nr"]


@shaped(
    rows=TAG_ROWS,
    index=EVENT,
    progress=PROGRESS,
    scanning=SCANNING,
    deleted=DELETED,
    returns=TAG_ROWS,
)
def extra_rows(
    rows: DataFrame,
    index: DataFrame,
    progress: DataFrame,
    scanning: DataFrame,
    deleted: DataFrame,
) -> DataFrame:
    """Return the rows behind the last event that any table knows of their persistence id.

    Rows before it belong to deleted or lost events, and may be the only copy. So may all rows of an
    id of which messages and metadata know nothing: Cleanup has removed it for good.

    Args:
        rows: those that are looked at.
        index: all events of their persistence ids.
        progress: tag_write_progress of their persistence ids.
        scanning: tag_scanning of their persistence ids.
        deleted: read after the events.
    """
    beyond = _beyond_messages(rows, index, progress, scanning, deleted)
    return beyond.where(F.col("sequence_nr") > F.col("known_to")).select(*rows.columns)


@shaped(
    rows=TAG_ROWS,
    index=EVENT,
    progress=PROGRESS,
    scanning=SCANNING,
    deleted=DELETED,
    returns=TAG_ROWS,
)
def rows_of_lost_tails(
    rows: DataFrame,
    index: DataFrame,
    progress: DataFrame,
    scanning: DataFrame,
    deleted: DataFrame,
) -> DataFrame:
    """Return the rows behind the last event of messages that another table knows of.

    The events did exist, so that the rows may be the only copy. The others are `extra_rows`, whose
    arguments these are.
    """
    beyond = _beyond_messages(rows, index, progress, scanning, deleted)
    return beyond.where(F.col("sequence_nr") <= F.col("known_to")).select(*rows.columns)


def _beyond_messages(
    rows: DataFrame,
    index: DataFrame,
    progress: DataFrame,
    scanning: DataFrame,
    deleted: DataFrame,
) -> DataFrame:
    """Return the rows behind what messages holds and metadata has deleted, with known_to."""
    events = index.groupBy("persistence_id").agg(F.max("sequence_nr").alias("last"))
    written = progress.groupBy("persistence_id").agg(F.max("progress_sequence_nr").alias("written"))
    joined = rows
    for known in (events, deleted, written, scanning):
        joined = joined.join(known, on="persistence_id", how="left")
    is_known = F.col("last").isNotNull() | F.col("deleted_to").isNotNull()
    return joined.withColumn(
        "known_to", F.greatest("last", "deleted_to", "written", "scanned_to")
    ).where(is_known & (F.col("sequence_nr") > F.greatest("last", "deleted_to")))


@shaped(rows=TAG_ROWS, new=EVENT, deleted=DELETED, returns=TAG_ROWS)
def rows_in_doubt(
    rows: DataFrame, new: DataFrame, known: list[DataFrame], deleted: DataFrame
) -> DataFrame:
    """Return a superset of `extra_rows` of some time buckets, from the events of those buckets.

    Args:
        rows: those of the time buckets.
        new: the events of the time buckets.
        known: frames with the persistence ids that are not removed for good.
        deleted: read after the events.
    """
    ids = reduce(DataFrame.unionByName, (frame.select("persistence_id") for frame in known))
    return (
        rows.join(new.select(*_EVENT), on=_EVENT, how="left_anti")
        .join(deleted, on="persistence_id", how="left")
        .where(F.col("sequence_nr") > F.coalesce("deleted_to", F.lit(0)))
        .join(ids.distinct(), on="persistence_id", how="left_semi")
        .select(*rows.columns)
    )


@shaped(extra=TAG_ROWS, returns=shapes.FINDINGS)
def extra_findings(extra: DataFrame) -> DataFrame:
    """Return a finding for each extra row; its number is the tag pid sequence nr."""
    detail = F.format_string("messages has no event with sequence nr %d", "sequence_nr")
    number = F.col("tag_pid_sequence_nr")
    rule = FindingRule(checks.EXTRA_ROW, F.lit(True), number, F.lit(None), detail)
    return findings_of(extra, [rule])
