"""Spark's reads and writes while fewer replicas are alive than their consistency level needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.integration.pool import drop_keyspaces, unique_names
from tests.integration.support import Journal
from tidemark.cassandra import connector
from tidemark.cassandra.schema import create_keyspace, table
from tidemark.errors import outage_of


@pytest.fixture
def two_missing(journal: Journal) -> Iterator[str]:
    """Yield a keyspace of three replicas, on a cluster of one node."""
    keyspace, _ = unique_names()
    create_keyspace(
        journal.control, keyspace, {"class": "SimpleStrategy", "replication_factor": "3"}
    )
    journal.control.execute_ddl(
        f"CREATE TABLE {table(keyspace, 'held')} (id int PRIMARY KEY, number int)"
    )
    yield keyspace
    drop_keyspaces(journal.control, keyspace)


USES: dict[str, Callable[[DataFrame, str], object]] = {
    "scan": lambda rows, keyspace: connector.read(
        rows.sparkSession, keyspace, "held", "number"
    ).collect(),
    "direct join": lambda rows, keyspace: connector.read_partitions(
        rows.select("id"), keyspace, "held", "number"
    ).collect(),
    "write": lambda rows, keyspace: connector.write(rows, keyspace, "held"),
    "delete": lambda rows, keyspace: connector.delete(rows.select("id"), keyspace, "held"),
}


@pytest.mark.parametrize("use", USES)
def test_spark_needs_the_replicas_of_the_set_level(
    journal: Journal, two_missing: str, spark: SparkSession, use: str
) -> None:
    """One replica alone would answer a read without what others hold, and take a write alone."""
    rows = spark.createDataFrame([(1, 10), (2, 20)], "id int, number int")
    connector.connect(spark, journal.settings())
    with pytest.raises((Py4JJavaError, PySparkException)) as failed:
        USES[use](rows, two_missing)
    assert "consistency QUORUM (2 required but only 1 alive)" in f"{outage_of(failed.value)}"
