"""The one write of `reconcile propagate-deletes`."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidemark.journals.pekko import tag_view_rows
from tidemark.settings import Settings


def delete_rows(rows: DataFrame, settings: Settings) -> None:
    """Delete rows of the tag views, those with low numbers first.

    In that order a reader that passes by meets no gap, as far as writes that are in flight
    together allow.
    """
    in_order = rows.repartition("persistence_id", "tag").sortWithinPartitions(
        "persistence_id", "tag", "tag_pid_sequence_nr"
    )
    tag_view_rows.delete_tag_view_rows(in_order, settings)
