"""Bulk reads by Spark's JDBC source, which streams rows from a cursor."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from tidemark.postgres.connections import PostgresConnection

FETCH_ROWS = 1000
"""Most rows in a page: the driver keeps one page of each task in memory."""
_PAGE_BYTES = 16 << 20


def rows_in_page(row_bytes: float) -> int:
    """Return the rows of a page for rows of this average size."""
    return int(min(FETCH_ROWS, max(1, _PAGE_BYTES // max(1.0, row_bytes))))


def read(
    spark: SparkSession,
    connection: PostgresConnection,
    queries: Sequence[str],
    schema: str,
    *,
    options: str = "",
    page_rows: int | None = None,
) -> DataFrame:
    """Read the rows of some queries of one form, a task for each query.

    The queries are SELECTs of our own, with literals of numbers and times, or quoted by psycopg,
    and with names quoted by `identifiers`; `schema` has Spark's types of their columns as DDL.
    `options` are parameters of the server's session, such as `-c enable_seqscan=off`.
    Without `page_rows`, a page has FETCH_ROWS rows.
    """
    # A query for each task: the source itself would divide one query by conditions outside of it,
    # for which PostgreSQL would sort or materialize it first.
    rows = FETCH_ROWS if page_rows is None else page_rows
    frames = [_read(spark, connection, query, schema, options, rows) for query in queries]
    first, *others = frames
    for frame in others:
        first = first.unionAll(frame)
    return first


def _read(
    spark: SparkSession,
    connection: PostgresConnection,
    query: str,
    schema: str,
    options: str,
    page_rows: int,
) -> DataFrame:
    return (
        spark.read.format("jdbc")
        .option("url", connection.jdbc_url)
        .option("driver", "org.postgresql.Driver")
        .option("user", connection.user)
        .option("password", connection.password.get_secret_value())
        .option("query", query)
        .option("customSchema", schema)
        .option("fetchsize", page_rows)
        .option("ApplicationName", "tidemark")
        .option("options", options)
        # The SELECT decides what is read: a filter of Spark's would end in a second WHERE.
        .option("pushDownPredicate", "false")
        .load()
    )
