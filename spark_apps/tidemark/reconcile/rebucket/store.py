"""The writes of `reconcile rebucket`: a table, its rows, and up to when it was verified.

Settings name the source and target tag views: their tables and bucket sizes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import create_table_like, table
from tidemark.journals.pekko import bucket_size, tag_view_rows
from tidemark.settings import Settings

TABLE = "rebucket"


class CopyState(NamedTuple):
    """The source of a copied table, and the time before which both were equal."""

    source: str
    verified_to: datetime | None


def create_table(control: Control, source: Settings, target: Settings) -> None:
    """Record both bucket sizes and the source of the new table, then create it: the first step.

    In this order a table that exists without a record belongs to somebody else.
    """
    # With one time: `bucket_size.recorded_at` of a table is later only once that table is used.
    bucket_size.record_bucket_size(control, target, source)
    control.execute(
        f"INSERT INTO {table(target.keyspace, TABLE)} (journal_keyspace, target, source)"
        " VALUES (?, ?, ?)",
        (target.journal_keyspace, target.events_by_tag_table, source.events_by_tag_table),
    )
    create_table_like(
        control,
        target.journal_keyspace,
        source.events_by_tag_table,
        target.events_by_tag_table,
    )


def delete_rows(rows: DataFrame, target: Settings) -> None:
    """Delete rows that the source lacks or that differ there: the second step. Columns: KEY."""
    keys = rows.withColumnsRenamed({"tag_name": "tag", "timebucket": "time_bucket"})
    tag_view_rows.delete_tag_view_rows(keys, target)


def copy_rows(rows: DataFrame, target: Settings) -> None:
    """Write rows with their remaining time to live (column ttl, seconds): the third step."""
    connector.write(
        rows.withColumn("ttl", F.coalesce("ttl", F.lit(0))),
        target.journal_keyspace,
        target.events_by_tag_table,
        time_to_live="ttl",
    )


def write_verified(control: Control, target: Settings, verified_to: datetime) -> None:
    """Record up to which time both tables were equal: the fourth step."""
    control.execute(
        f"UPDATE {table(target.keyspace, TABLE)} SET verified_to = ?"
        " WHERE journal_keyspace = ? AND target = ?",
        (verified_to, target.journal_keyspace, target.events_by_tag_table),
    )


def read_state(control: Control, target: Settings) -> CopyState | None:
    """Read the source of the target's rows; None if rebucket did not make the table."""
    rows = control.execute(
        f"SELECT source, verified_to FROM {table(target.keyspace, TABLE)}"
        " WHERE journal_keyspace = ? AND target = ?",
        (target.journal_keyspace, target.events_by_tag_table),
    )
    if not rows:
        return None
    verified_to = rows[0]["verified_to"]
    return CopyState(rows[0]["source"], verified_to and verified_to.replace(tzinfo=UTC))


def drop_table(control: Control, settings: Settings, name: str) -> None:
    """Drop tag views, and then forget their bucket size."""
    control.execute_ddl(f"DROP TABLE IF EXISTS {table(settings.journal_keyspace, name)}")
    bucket_size.forget_bucket_size(control, settings, name)


def forget(control: Control, target: Settings) -> None:
    """Forget the source of the target's rows, once the source table is dropped."""
    control.execute(
        f"DELETE FROM {table(target.keyspace, TABLE)} WHERE journal_keyspace = ? AND target = ?",
        (target.journal_keyspace, target.events_by_tag_table),
    )
