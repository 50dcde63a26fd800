"""The deletes of repair, one function for each kind; its writes are those of `tagging.store`."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.journal import tables
from tidemark.settings import Settings


def delete_rows(findings: DataFrame, settings: Settings) -> None:
    """Delete the stored row of each finding, by its whole primary key.

    Columns in: `kinds.COLUMNS`.
    """
    keys = findings.select(
        F.col("tag").alias("tag_name"),
        F.col("time_bucket").alias("timebucket"),
        "timestamp",
        "persistence_id",
        F.col("number").alias("tag_pid_sequence_nr"),
    )
    connector.delete(keys, settings.journal_keyspace, settings.events_by_tag_table)


def delete_progress(findings: DataFrame, settings: Settings) -> None:
    """Delete the progress of each finding. Columns in: `kinds.COLUMNS`."""
    keys = findings.select("persistence_id", "tag")
    connector.delete(keys, settings.journal_keyspace, tables.TAG_WRITE_PROGRESS)
