"""The writes of a restore, one function for each kind, in the promised order.

Rows have `time_to_live`, the remaining seconds of each (0 for ever), and `write_time`, the
microseconds of its first write. With `keep_write_times` they are written with that time, else
with the present one.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidemark.cassandra import connector
from tidemark.journals.pekko.shapes import DELETED, ID
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped


def write_messages(rows: DataFrame, settings: Settings, *, keep_write_times: bool) -> None:
    """Write complete events: the first step."""
    _write(rows, settings.journal_keyspace, settings.journal_table, keep_write_times)


def write_snapshots(rows: DataFrame, settings: Settings, *, keep_write_times: bool) -> None:
    """Write complete snapshots: the second step."""
    _write(rows, settings.snapshot_keyspace, settings.snapshot_table, keep_write_times)


@shaped(ids=ID)
def write_listed(ids: DataFrame, settings: Settings) -> None:
    """Write to all_persistence_ids: the third step."""
    connector.write(ids, settings.journal_keyspace, settings.all_persistence_ids_table)


@shaped(rows=DELETED)
def write_metadata(rows: DataFrame, settings: Settings) -> None:
    """Write `deleted_to`, which makes the events visible: the last step."""
    connector.write(rows, settings.journal_keyspace, settings.metadata_table)


def _write(rows: DataFrame, keyspace: str, name: str, keep_write_times: bool) -> None:
    connector.write(
        rows if keep_write_times else rows.drop("write_time"),
        keyspace,
        name,
        write_time="write_time" if keep_write_times else None,
        time_to_live="time_to_live",
    )
