"""The only write of `reconcile propagate-deletes`."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidemark.journals.pekko import tag_view_rows
from tidemark.settings import Settings


def delete_rows(rows: DataFrame, settings: Settings) -> None:
    """Delete rows of the tag views, those with low numbers first.

    In this order a concurrent reader meets no gap, as far as concurrent writes allow.
    """
    ordered = rows.repartition("persistence_id", "tag").sortWithinPartitions(
        "persistence_id", "tag", "tag_pid_sequence_nr"
    )
    tag_view_rows.delete_tag_view_rows(ordered, settings)
