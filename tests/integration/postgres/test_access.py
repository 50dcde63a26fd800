"""Sessions and bulk reads of a real PostgreSQL, and their errors."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from pydantic import SecretStr
from pyspark.sql import SparkSession

from embedded.postgres.server import PostgresEndpoint
from tests.integration.postgres.databases import Database
from tidemark.errors import InvalidInput, PostgresRefused, PostgresUnavailable, SchemaMismatch
from tidemark.postgres import jdbc
from tidemark.postgres.connections import PostgresConnection, connection
from tidemark.postgres.identifiers import TableName
from tidemark.postgres.session import session
from tidemark.postgres.statements import statement
from tidemark.postgres.transaction import begun
from tidemark.settings import Settings


@pytest.fixture
def embedded(postgres: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch) -> PostgresConnection:
    for name, value in postgres.environment().items():
        monkeypatch.setenv(name, value)
    return connection(Settings(), "embedded")


def test_a_session_has_utc_and_commits(embedded: PostgresConnection, database: Database) -> None:
    with session(embedded, autocommit=False) as opened:
        assert opened.execute("SHOW timezone").fetchone() == ("UTC",)
        opened.execute(f"CREATE TABLE {database.schema}.t (a int)".encode())
    assert database.rows("SELECT count(*) FROM t") == [(0,)]


@pytest.mark.parametrize("fails", [False, True])
def test_a_transaction_without_commit_leaves_nothing(
    embedded: PostgresConnection, database: Database, fails: bool
) -> None:
    database.execute("CREATE TABLE t (a int)")
    insert = statement("INSERT INTO {table} VALUES (1)", table=TableName(database.schema, "t"))
    with suppress(InvalidInput), begun(embedded, idle_s=60) as transaction:
        transaction.execute(insert)
        if fails:
            raise InvalidInput("the block fails")
    assert database.rows("SELECT count(*) FROM t") == [(0,)]
    with begun(embedded, idle_s=60) as transaction:
        transaction.execute(insert)
        transaction.commit(lambda _: False)
    assert database.rows("SELECT count(*) FROM t") == [(1,)]


def test_errors_are_one_line(embedded: PostgresConnection) -> None:
    absent = pytest.raises(SchemaMismatch, match='relation "absent" does not exist')
    with absent, session(embedded) as opened:
        opened.execute("SELECT 1 FROM absent")
    with pytest.raises(PostgresRefused, match="division by zero"), session(embedded) as opened:
        opened.execute("SELECT 1 / 0")
    wrong = replace(embedded, password=SecretStr("wrong"))
    with pytest.raises(InvalidInput, match="password authentication failed"), session(wrong):
        pass
    unreachable = session(replace(embedded, port=1))
    with pytest.raises(PostgresUnavailable, match=r"does not answer: .*refused"), unreachable:
        pass


def test_a_bulk_read_has_a_task_for_each_query(
    spark: SparkSession, embedded: PostgresConnection, database: Database
) -> None:
    database.execute(
        "CREATE TABLE events AS SELECT n AS nr, now() AS at, '\\xff00'::bytea AS payload,"
        " ARRAY['a', 'b'] AS tags FROM generate_series(1, 3000) n"
    )
    table = TableName(database.schema, "events")
    queries = [
        f"SELECT * FROM {table.quoted} WHERE nr BETWEEN {first} AND {first + 999}"
        for first in (1, 1001, 2001)
    ]
    types = "nr int, at timestamp, payload binary, tags array<string>"
    frame = jdbc.read(spark, embedded, queries, types)
    assert frame.rdd.getNumPartitions() == 3
    assert frame.count() == 3000
    row = frame.first()
    assert row is not None
    assert (bytes(row.payload), row.tags) == (b"\xff\x00", ["a", "b"])
    assert row.at == database.rows("SELECT at AT TIME ZONE 'UTC' FROM events LIMIT 1")[0][0]
