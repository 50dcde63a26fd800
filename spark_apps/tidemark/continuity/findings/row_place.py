"""Rows of the tag views in the partition of another time bucket than their event's."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.continuity import shapes
from tidemark.continuity.findings import checks
from tidemark.continuity.findings.finding import FindingRule, findings_of
from tidemark.journal.shapes import DELETED, TAG_ROWS
from tidemark.partitioning import columns
from tidemark.partitioning.keys import BucketSize
from tidemark.spark.shapes import shaped


@shaped(rows=TAG_ROWS, returns=shapes.MISPLACED)
def misplaced_rows(rows: DataFrame, size: BucketSize) -> DataFrame:
    """Return the rows that are not in the time bucket of their timestamp."""
    own = columns.time_bucket(columns.ticks_epoch_ms(F.col("ticks")), size)
    return (
        rows.withColumnRenamed("time_bucket", "held_in")
        .withColumn("time_bucket", own)
        .where(F.col("held_in") != F.col("time_bucket"))
    )


@shaped(misplaced=shapes.MISPLACED, deleted=DELETED, returns=shapes.FINDINGS)
def misplaced_findings(misplaced: DataFrame, deleted: DataFrame) -> DataFrame:
    """Return a finding for each misplaced row, in the time bucket where readers look for it.

    Its number is the tag pid sequence nr. Rows of deleted events stay as they are.
    """
    known = misplaced.join(deleted, on="persistence_id", how="left")
    rule = FindingRule(
        checks.WRONG_TIME_BUCKET,
        F.col("sequence_nr") > F.coalesce("deleted_to", F.lit(0)),
        F.col("tag_pid_sequence_nr"),
        F.lit(None),
        F.format_string(
            "the row of the event with sequence nr %d is in time bucket %d",
            "sequence_nr",
            "held_in",
        ),
    )
    return findings_of(known, [rule])
