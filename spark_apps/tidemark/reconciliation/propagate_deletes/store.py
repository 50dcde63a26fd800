"""The one write of `reconcile propagate-deletes`."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.settings import Settings


def delete_rows(rows: DataFrame, settings: Settings) -> None:
    """Delete rows of the tag views, those with low numbers first.

    In that order a reader that passes by meets no gap, as far as writes that are in flight
    together allow. Columns: those of `journal.frames.tag_view_keys`.
    """
    in_order = rows.repartition("persistence_id", "tag").sortWithinPartitions(
        "persistence_id", "tag", "tag_pid_sequence_nr"
    )
    keys = in_order.select(
        F.col("tag").alias("tag_name"),
        F.col("time_bucket").alias("timebucket"),
        "timestamp",
        "persistence_id",
        "tag_pid_sequence_nr",
    )
    connector.delete(keys, settings.journal_keyspace, settings.events_by_tag_table)
