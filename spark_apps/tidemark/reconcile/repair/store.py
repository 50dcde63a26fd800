"""The rows that repair reads and deletes; its writes are in `tag_write.store`."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko import tag_view_rows
from tidemark.journals.pekko.shapes import TAG_ROW_KEYS
from tidemark.settings import Settings
from tidemark.tag_write import transform


def delete_rows(findings: DataFrame, settings: Settings) -> None:
    """Delete the stored row of each finding, by its complete primary key.

    Columns in: FINDINGS and EVIDENCE.
    """
    tag_view_rows.delete_tag_view_rows(_stored(findings), settings)


def renumbered_rows(findings: DataFrame, settings: Settings) -> DataFrame:
    """Read the stored rows of findings, and give each its expected number.

    Columns in: FINDINGS and EVIDENCE. Columns out: those of `transform.tag_view_rows`.
    """
    number = F.col("expected_tag_pid_sequence_nr").alias("right_number")
    stored = _stored(findings).select(*TAG_ROW_KEYS, number).localCheckpoint()
    rows = tag_view_rows.whole_tag_view_rows(stored, settings)
    return transform.tag_view_rows(
        rows.join(stored, on=[*TAG_ROW_KEYS]).withColumn(
            "tag_pid_sequence_nr", F.col("right_number")
        )
    )


def _stored(findings: DataFrame) -> DataFrame:
    return findings.withColumn("time_bucket", F.coalesce("row_time_bucket", "time_bucket"))
