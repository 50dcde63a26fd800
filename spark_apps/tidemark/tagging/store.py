"""The writes of tag-write, one function for each kind, in the order in which they are promised.

Data, then progress, then scanning: a crash between any two leaves progress that lags, and the
next run writes the same keys again (facts: pekko-cassandra §3, "progress may lag, never lead").
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidemark.cassandra import spark_io
from tidemark.journal import tables
from tidemark.settings import Settings


def write_tag_views(rows: DataFrame, settings: Settings) -> None:
    """First: the rows of `transform.tag_view_rows`."""
    spark_io.write(rows, settings.journal_keyspace, tables.TAG_VIEWS)


def write_progress(rows: DataFrame, settings: Settings) -> None:
    """Second: the rows of `transform.progress_rows`."""
    spark_io.write(rows, settings.journal_keyspace, tables.TAG_WRITE_PROGRESS)


def write_scanning(rows: DataFrame, settings: Settings) -> None:
    """Third: the rows of `transform.scanning_rows`."""
    spark_io.write(rows, settings.journal_keyspace, tables.TAG_SCANNING)
