"""Every value that COPY sends to a real PostgreSQL arrives unchanged."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from embedded.postgres.server import PostgresEndpoint
from tests.integration.postgres.databases import Database
from tidemark.postgres import copy
from tidemark.postgres.connections import PostgresConnection, connection
from tidemark.postgres.identifiers import TableName
from tidemark.postgres.session import session
from tidemark.postgres.staged import ATTEMPT, Staged
from tidemark.postgres.statements import statement
from tidemark.settings import Settings

SCHEMA = (
    T.StructType()
    .add("a", "string")
    .add("b", "long")
    .add("c", "double")
    .add("d", "boolean")
    .add("e", "timestamp")
    .add("f", "date")
    .add("g", "binary")
    .add("h", T.DecimalType(20, 5))
    .add("i", T.ArrayType(T.StringType()))
    .add("j", T.MapType(T.StringType(), T.StringType()))
)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
SPECIAL = st.sampled_from(
    ["", "\\N", "\\.", "\\", "\t", "\n", "\r\n", '"', "{}", "NULL", ",", "ü€😀"]
)
TEXTS = st.one_of(TEXT, SPECIAL)
ROW = st.tuples(
    st.none() | TEXTS,
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.floats(allow_nan=False),
    st.none() | st.booleans(),
    st.none() | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
    st.none() | st.dates(date(1, 1, 1), date(9999, 12, 31)),
    st.none() | st.binary(max_size=12),
    st.none() | st.decimals(-(10**14), 10**14, places=5),
    st.none() | st.lists(st.none() | TEXTS, max_size=3),
    st.none() | st.dictionaries(TEXTS, TEXTS, max_size=3),
)


@pytest.fixture
def embedded(postgres: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch) -> PostgresConnection:
    for name, value in postgres.environment().items():
        monkeypatch.setenv(name, value)
    return connection(Settings(), "embedded")


def sent(
    spark: SparkSession, embedded: PostgresConnection, schema: str, rows: list[tuple[Any, ...]]
) -> Iterator[tuple[Staged, list[tuple[Any, ...]]]]:
    table = TableName(schema, "staged")
    frame = spark.createDataFrame(rows, SCHEMA)
    with session(embedded) as opened:
        copy.create_staging(opened, table, SCHEMA)
        staged = copy.send(frame, embedded, table)
        stored = opened.execute(
            statement("SELECT {columns} FROM {table}", columns=SCHEMA.names, table=table)
        ).fetchall()
        attempts = opened.execute(
            statement("SELECT DISTINCT {attempt} FROM {table}", attempt=ATTEMPT, table=table)
        ).fetchall()
        opened.execute(statement("DROP TABLE {table}", table=table))
    assert {attempt for (attempt,) in attempts} <= set(staged.attempts)
    yield staged, stored


@given(st.lists(ROW, min_size=1, max_size=40))
@settings(
    max_examples=4,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_values_arrive_unchanged(
    spark: SparkSession,
    embedded: PostgresConnection,
    database: Database,
    rows: list[tuple[Any, ...]],
) -> None:
    ((staged, stored),) = sent(spark, embedded, database.schema, rows)
    assert staged.rows == len(rows)
    differing = sorted({*map(_shown, stored)} ^ {*map(_shown, rows)})
    assert not differing


def _shown(row: tuple[Any, ...]) -> str:
    return repr([_value(value) for value in row])


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return _utc(value).replace(fold=0)
    if isinstance(value, Decimal):
        return value.quantize(Decimal("0.00001"))
    if isinstance(value, float) and value == 0:
        return math.copysign(0.0, value)
    return dict(sorted(value.items())) if isinstance(value, dict) else value


def _utc(value: datetime) -> datetime:
    """Return a time in UTC without its zone; one without a zone is in UTC."""
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
