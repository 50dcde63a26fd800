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


def test_python_workers_get_no_more_rows_at_once_than_a_vector_holds(spark: SparkSession) -> None:
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    try:
        row_sizes.expect(spark, "small", "messages", 100)
        assert spark.conf.get(name) == before
        row_sizes.expect(spark, "large", "messages", 300 << 10)
        assert int(spark.conf.get(name) or 0) * (300 << 10) <= 64 << 20
        row_sizes.expect(spark, "small", "messages", 100)
        assert int(spark.conf.get(name) or 0) < 300
    finally:
        spark.conf.set(name, str(before))
