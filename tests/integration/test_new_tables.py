"""A table is read and written as soon as it is created, by a session of Spark that is older."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from tests.integration.support import Journal
from tidemark.cassandra import connector
from tidemark.spark.local_rows import local_rows


@pytest.fixture
def older(spark: SparkSession, journal: Journal) -> SparkSession:
    """Return a session that has read from the journal."""
    connector.connect(spark, journal.settings())
    connector.read(spark, journal.keyspace, "messages").count()
    return spark


def read(rows: DataFrame, keyspace: str, table: str) -> None:
    assert connector.read(rows.sparkSession, keyspace, table, "id").count() == 0


def read_partitions(rows: DataFrame, keyspace: str, table: str) -> None:
    assert connector.read_partitions(rows.select("id"), keyspace, table, "text").count() == 0


def write(rows: DataFrame, keyspace: str, table: str) -> None:
    connector.write(rows, keyspace, table)


@pytest.mark.parametrize("use", [read, read_partitions, write])
def test_a_table_is_known_at_once(
    older: SparkSession, journal: Journal, use: Callable[[DataFrame, str, str], None]
) -> None:
    rows = local_rows(older, [(1, "a")], "id int, text string")
    for number in range(3):
        name = f"new_{number}"
        statement = f"CREATE TABLE {journal.keyspace}.{name} (id int PRIMARY KEY, text text)"
        journal.control.execute_ddl(statement)
        use(rows, journal.keyspace, name)


def test_a_table_that_does_not_exist_is_told(older: SparkSession, journal: Journal) -> None:
    with pytest.raises(AnalysisException, match=f"no_such.* in {journal.keyspace}"):
        connector.read(older, journal.keyspace, "no_such")
