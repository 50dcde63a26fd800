"""The deletes of repair, one function for each kind; its writes are those of `tagging.store`."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.journal import frames, tables
from tidemark.settings import Settings


def delete_rows(findings: DataFrame, settings: Settings) -> None:
    """Delete the stored row of each finding, by its whole primary key.

    Columns in: FINDINGS and EVIDENCE.
    """
    rows = findings.withColumn("time_bucket", F.coalesce("held_in", "time_bucket"))
    frames.delete_tag_view_rows(rows, settings)


def delete_progress(findings: DataFrame, settings: Settings) -> None:
    """Delete the progress of each finding. Columns in: FINDINGS."""
    keys = findings.select("persistence_id", "tag")
    connector.delete(keys, settings.journal_keyspace, tables.TAG_WRITE_PROGRESS)
