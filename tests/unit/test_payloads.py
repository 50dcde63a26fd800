"""Payloads that cannot be sampled; test_large_payloads has payloads that can."""

from __future__ import annotations

from unittest.mock import create_autospec

from pyspark.sql import SparkSession

from tidemark.cassandra import row_sizes
from tidemark.cassandra.control import Control
from tidemark.errors import CassandraUnavailable
from tidemark.settings import Settings


def test_a_sample_that_fails_makes_pages_small_and_stops_nothing(spark: SparkSession) -> None:
    """A sample fails, for example, where thousands of tombstones lie before the first row."""
    control = create_autospec(Control, instance=True)
    control.table_columns.return_value = {"event": "blob"}
    control.execute.side_effect = CassandraUnavailable("ReadFailure", do="run again")
    settings = Settings(journal_keyspace="unreadable")
    row_sizes.measure(control, spark, settings)
    assert row_sizes.expected(spark, "unreadable", settings.journal_table) > 10_000
