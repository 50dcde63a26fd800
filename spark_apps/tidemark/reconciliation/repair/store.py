"""The delete of rows by repair; its writes are those of `tagging.store`."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journal import tag_view_rows
from tidemark.settings import Settings


def delete_rows(findings: DataFrame, settings: Settings) -> None:
    """Delete the stored row of each finding, by its whole primary key.

    Columns in: FINDINGS and EVIDENCE.
    """
    rows = findings.withColumn("time_bucket", F.coalesce("held_in", "time_bucket"))
    tag_view_rows.delete_tag_view_rows(rows, settings)
