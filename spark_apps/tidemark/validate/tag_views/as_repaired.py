"""Rows, progress and scanning as they are once their differences are repaired."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko import frames
from tidemark.journals.pekko.series import SERIES
from tidemark.journals.pekko.shapes import PLACED_PROGRESS, SCANNING, TAG_ROW_KEYS, TAG_ROWS
from tidemark.partitioning import columns
from tidemark.partitioning.keys import BucketSize
from tidemark.spark.shapes import shaped
from tidemark.validate.shapes import EVIDENCE, FINDINGS
from tidemark.validate.tag_views import finding_kinds

FOUND = {**FINDINGS, **EVIDENCE}


@shaped(stored=TAG_ROWS, differences=FOUND, returns=TAG_ROWS)
def rows(stored: DataFrame, differences: DataFrame) -> DataFrame:
    """Return the rows of the tag views after the repair's deletes and writes."""
    deleted = differences.where(finding_kinds.IS_DELETED).select(
        *(name for name in TAG_ROW_KEYS if name != "time_bucket"),
        F.coalesce("row_time_bucket", "time_bucket").alias("time_bucket"),
    )
    written = differences.where(finding_kinds.IS_WRITTEN).select(
        *SERIES,
        "sequence_nr",
        F.col("expected_tag_pid_sequence_nr").alias("tag_pid_sequence_nr"),
        "timestamp",
        columns.timeuuid_ticks(F.col("timestamp")).alias("ticks"),
        F.col("expected_time_bucket").alias("time_bucket"),
    )
    unchanged = stored.join(deleted, on=[*TAG_ROW_KEYS], how="left_anti")
    return unchanged.unionByName(written.select(*stored.columns))


@shaped(stored=PLACED_PROGRESS, differences=FOUND, returns=PLACED_PROGRESS)
def progress(stored: DataFrame, differences: DataFrame, size: BucketSize) -> DataFrame:
    """Return tag_write_progress after the repair."""
    faults = differences.where(finding_kinds.IS_OF_PROGRESS)
    corrected = faults.where(finding_kinds.IS_EXPECTED).select(
        *SERIES,
        F.col("expected_sequence_nr").alias("progress_sequence_nr"),
        F.col("expected_tag_pid_sequence_nr").alias("progress_number"),
        F.col("expected_timestamp").alias("progress_offset"),
    )
    unchanged = stored.join(faults.select(*SERIES), on=[*SERIES], how="left_anti")
    return unchanged.unionByName(frames.placed(corrected, size).select(*stored.columns))


@shaped(stored=SCANNING, differences=FOUND, returns=SCANNING)
def scanning(stored: DataFrame, differences: DataFrame) -> DataFrame:
    """Return tag_scanning after the repair."""
    corrected = differences.where(finding_kinds.IS_SCANNING).select(
        "persistence_id", F.col("expected_sequence_nr").alias("scanned_to")
    )
    unchanged = stored.join(corrected, on="persistence_id", how="left_anti")
    return unchanged.unionByName(corrected.select(*stored.columns))
