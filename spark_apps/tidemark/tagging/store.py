"""The writes of tag views, one function for each kind, in the order in which they are promised.

Data, then progress, then scanning, then our own tails: a crash between any two leaves progress
that lags, and the next run writes the same keys again (facts: pekko-cassandra §3, "progress may
lag, never lead").
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.application import Run
from tidemark.cassandra import spark_io
from tidemark.journal import tables
from tidemark.ledger import quarantine
from tidemark.settings import Settings
from tidemark.tagging import events, tails
from tidemark.tagging.rules import Rule


def quarantine_unwritable(run: Run, messages: DataFrame, tag_rules: Sequence[Rule]) -> None:
    """Before them: the events that no reader of their tags could read, see `events.unwritable`."""
    settings = run.settings
    quarantine.write(
        events.unwritable(messages, tag_rules),
        settings,
        source=f"{settings.journal_keyspace}.{settings.journal_table}",
        application=run.application,
        run_id=run.run_id,
    )


def write_tag_views(rows: DataFrame, settings: Settings, partitions: int) -> None:
    """First: the rows of `transform.tag_view_rows`, of at most about so many partitions."""
    spark_io.write(
        spark_io.gathered(rows, ("tag_name", "timebucket"), partitions),
        settings.journal_keyspace,
        settings.events_by_tag_table,
        time_to_live=settings.events_by_tag_time_to_live,
    )


def write_progress(rows: DataFrame, settings: Settings) -> None:
    """Second: the rows of `transform.progress_rows`."""
    spark_io.write(rows, settings.journal_keyspace, tables.TAG_WRITE_PROGRESS)


def write_scanning(rows: DataFrame, settings: Settings) -> None:
    """Third: the rows of `transform.scanning_rows`."""
    spark_io.write(rows, settings.journal_keyspace, tables.TAG_SCANNING)


def write_tails(rows: DataFrame, settings: Settings, rules_version: str) -> None:
    """Last: the rows of `transform.tail_rows`."""
    ours = rows.withColumns(
        {
            "journal_keyspace": F.lit(settings.journal_keyspace),
            "rules_version": F.lit(rules_version),
        }
    )
    spark_io.write(ours, settings.keyspace, tails.TABLE)
