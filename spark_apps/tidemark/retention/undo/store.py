"""The writes of a restore, one function for each kind, in the order they are promised."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidemark.cassandra import connector
from tidemark.journal.shapes import DELETED, ID
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped

_LIFETIME = "time_to_live"


def write_messages(rows: DataFrame, settings: Settings) -> None:
    """Write whole events, with the seconds that each has yet to live: the first step."""
    connector.write(rows, settings.journal_keyspace, settings.journal_table, time_to_live=_LIFETIME)


def write_snapshots(rows: DataFrame, settings: Settings) -> None:
    """Write whole snapshots, with the seconds that each has yet to live: the second step."""
    connector.write(
        rows, settings.snapshot_keyspace, settings.snapshot_table, time_to_live=_LIFETIME
    )


@shaped(ids=ID)
def write_listed(ids: DataFrame, settings: Settings) -> None:
    """Write to all_persistence_ids: the third step."""
    connector.write(ids, settings.journal_keyspace, settings.all_persistence_ids_table)


@shaped(rows=DELETED)
def write_metadata(rows: DataFrame, settings: Settings) -> None:
    """Write how far persistence ids were deleted, which makes their events visible: the last."""
    connector.write(rows, settings.journal_keyspace, settings.metadata_table)
