"""Errors of Spark's parser and analyzer about a definition, at the places of its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from tests.repository import REPOSITORY
from tidemark.cassandra.control import Control
from tidemark.context import RunContext
from tidemark.errors import DefinitionError, SchemaMismatch
from tidemark.project.analysis import analyze
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.definition import catalog
from tidemark.project.definition.file import read
from tidemark.project.definition.model import Definition
from tidemark.project.writing import target
from tidemark.settings import Settings

HEADER = """\
/*---
name: punctuality
version: 1
source: messages
mode: {mode}
target: flights.punctuality
event: {event}
---*/

"""
COLUMNS = (
    "the columns of events are persistence_id, sequence_nr, timestamp, time_bucket, entity_type,"
    " slice, tags, serializer_id, manifest, event_manifest, metadata, kind, dep_delay"
)
EVENT = "kind STRING, dep_delay INT"
Define = Callable[..., Definition]


@pytest.fixture
def define(tmp_path: Path) -> Define:
    def make(sql: str, event: str = EVENT, mode: str = "bucket") -> Definition:
        file = tmp_path / "one.sql"
        file.write_text(HEADER.format(event=event, mode=mode) + sql)
        return read(file)

    return make


@pytest.mark.parametrize(
    ("sql", "place", "what", "do"),
    [
        ("SELECT slice,\n  dely FROM events", ":11:3", "unknown column dely", COLUMNS),
        ("SELECT e.kin FROM events e", ":10:8", "unknown column e.kin", COLUMNS),
        ("SELECT 1 AS x FROM trips", ":10:20", "unknown table trips", "the only table is events"),
        (
            "SELECT count(* FROM events",
            ":10:16",
            "Spark refuses the SQL: Syntax error at or near 'FROM'",
            "correct it",
        ),
        (
            "SELECT nofun(kind) FROM events",
            ":10:8",
            "the function nofun is not allowed",
            "use a function that docs/user-sql.md lists",
        ),
        (
            "SELECT kind, count(*) AS n FROM events GROUP BY time_bucket",
            ":10",
            'Spark refuses the SQL: The non-aggregating expression "kind" is based on columns which'
            " are not participating in the GROUP BY clause",
            COLUMNS,
        ),
        (
            "SELECT kind, kind FROM events",
            ":10",
            "the result has more than one column kind",
            "name each of them once, with AS",
        ),
    ],
)
def test_check_refuses_sql(
    spark: SparkSession, define: Define, sql: str, place: str, what: str, do: str
) -> None:
    definition = define(sql)
    with pytest.raises(DefinitionError) as refused:
        analyze.analyze(spark, definition)
    assert str(refused.value) == f"{what} ({definition.file}{place}); {do}"


@pytest.mark.parametrize(
    ("event", "place", "message"),
    [
        (
            "kind STRNG",
            ":7:13",
            'Spark refuses the event\'s fields: Unsupported data type "STRNG"{};'
            " write Spark DDL such as `kind STRING, dep_delay INT`",
        ),
        (
            "kind STRING,\n       dep_delay",
            ":8:17",
            "Spark refuses the event's fields: Syntax error at or near end of input{};"
            " write Spark DDL such as `kind STRING, dep_delay INT`",
        ),
        ("kind STRING, Slice INT", ":7", "every event has slice already{}; rename the field"),
        ("kind STRING, KIND INT", ":7", "a field is named twice{}; rename the field"),
    ],
)
def test_check_refuses_fields(
    spark: SparkSession, define: Define, event: str, place: str, message: str
) -> None:
    definition = define("SELECT time_bucket FROM events", event)
    with pytest.raises(DefinitionError) as refused:
        analyze.analyze(spark, definition)
    assert str(refused.value) == message.format(f" ({definition.file}{place})")


def test_check_never_runs_a_command(spark: SparkSession, define: Define) -> None:
    definition = define("WITH x AS (SELECT 1 AS y) INSERT INTO TABLE z SELECT y FROM x")
    with pytest.raises(DefinitionError, match="Spark refuses the SQL"):
        analyze.analyze(spark, definition)


def test_the_shipped_definitions_pass(spark: SparkSession) -> None:
    for definition in catalog.load(REPOSITORY / "include" / "sql" / "projections"):
        assert analyze.analyze(spark, definition).definition is definition


class Table:
    """A control session that knows one table."""

    def __init__(self, columns: dict[str, str] | None, key: tuple[list[str], list[str]]) -> None:
        self.columns, self.key = columns, key

    def table_columns(self, keyspace: str, table: str) -> dict[str, str] | None:
        assert (keyspace, table) == ("flights", "punctuality")
        return self.columns

    def primary_key(self, keyspace: str, table: str) -> tuple[list[str], list[str]]:
        return self.key


def require_target(table: Table, checked: AnalyzedDefinition) -> None:
    target.require_target(RunContext("project", Settings(), cast("Control", table), "r"), checked)


def differences(table: Table, checked: AnalyzedDefinition) -> str:
    with pytest.raises(SchemaMismatch) as refused:
        require_target(table, checked)
    return str(refused.value)


def test_require_target_takes_what_fits(spark: SparkSession, define: Define) -> None:
    sql = (
        "SELECT time_bucket, kind, count(*) AS n, max(dep_delay) AS late, array('x') AS marks,"
        " avg(dep_delay) AS mean, max(timestamp) AS at FROM events GROUP BY time_bucket, kind"
    )
    columns = {
        "time_bucket": "bigint", "kind": "text", "n": "bigint", "late": "bigint",
        "marks": "frozen<set<text>>", "mean": "double", "at": "timestamp", "more": "uuid",
    }  # fmt: skip
    table = Table(columns, (["time_bucket"], ["kind"]))
    require_target(table, analyze.analyze(spark, define(sql)))


def test_require_target_names_all_differences(spark: SparkSession, define: Define) -> None:
    sql = (
        "SELECT time_bucket, count(*) AS n, sum(dep_delay) AS late FROM events GROUP BY time_bucket"
    )
    definition = define(sql)
    table = Table(
        {"time_bucket": "bigint", "kind": "text", "n": "int"}, (["kind"], ["time_bucket"])
    )
    assert differences(table, analyze.analyze(spark, definition)) == (
        "projection punctuality does not fit flights.punctuality:"
        " the table's partition key is (kind), mode bucket needs (time_bucket);"
        " the result has no column kind, which is part of the primary key;"
        " n is bigint in the result and int in the table;"
        " the table has no column late (bigint in the result)"
        f" ({definition.file}); change the SELECT or the table"
    )


def test_require_target_names_what_upsert_needs(spark: SparkSession, define: Define) -> None:
    definition = define("SELECT slice AS persistence_id, kind FROM events", mode="upsert")
    table = Table({"persistence_id": "int", "kind": "text"}, (["persistence_id"], ["kind"]))
    assert differences(table, analyze.analyze(spark, definition)) == (
        "projection punctuality does not fit flights.punctuality:"
        " the table's primary key is (persistence_id, kind), mode upsert needs (persistence_id);"
        " persistence_id is int in the result, it must be the string of the event;"
        " the result has no column sequence_nr, which decides which row is newer"
        f" ({definition.file}); change the SELECT or the table"
    )


def test_require_target_names_what_append_needs(spark: SparkSession, define: Define) -> None:
    sql = "SELECT kind, persistence_id, CAST(sequence_nr AS INT) AS sequence_nr FROM events"
    columns = {"kind": "text", "persistence_id": "text", "sequence_nr": "bigint"}
    checked = analyze.analyze(spark, define(sql, mode="append"))
    assert differences(Table(columns, (["kind"], ["persistence_id"])), checked) == (
        "projection punctuality does not fit flights.punctuality:"
        " the table's primary key is (kind, persistence_id),"
        " mode append needs persistence_id and sequence_nr in it;"
        " sequence_nr is int in the result, it must be the bigint of the event"
        f" ({checked.definition.file}); change the SELECT or the table"
    )
    fitting = analyze.analyze(
        spark, define(sql.replace("CAST(sequence_nr AS INT) AS", ""), mode="append")
    )
    require_target(Table(columns, (["kind"], ["persistence_id", "sequence_nr"])), fitting)


@pytest.mark.parametrize(
    ("stated", "column"),
    [("kind, time_bucket", 7), ("time_bucket", 7), ("time_bucket, kind, n", 26)],
)
def test_require_target_compares_the_key_that_is_stated(
    spark: SparkSession, define: Define, stated: str, column: int
) -> None:
    sql = "SELECT time_bucket, kind, count(*) AS n FROM events GROUP BY time_bucket, kind"
    table = Table(
        {"time_bucket": "bigint", "kind": "text", "n": "bigint"}, (["time_bucket"], ["kind"])
    )
    right = define(sql, event=f"{EVENT}\nkey: [time_bucket, kind]")
    require_target(table, analyze.analyze(spark, right))
    wrong = analyze.analyze(spark, define(sql, event=f"{EVENT}\nkey: [{stated}]"))
    with pytest.raises(DefinitionError) as refused:
        require_target(table, wrong)
    assert str(refused.value) == (
        f"the key of punctuality is ({stated}), the primary key of flights.punctuality is"
        f" (time_bucket, kind) ({right.file}:8:{column});"
        " write `time_bucket, kind`, or change the table"
    )


def test_require_target_names_a_missing_table(spark: SparkSession, define: Define) -> None:
    definition = define("SELECT time_bucket FROM events")
    assert differences(Table(None, ([], [])), analyze.analyze(spark, definition)) == (
        "the target flights.punctuality of projection punctuality does not exist"
        f" ({definition.file}); create the table first;"
        " `project.py --dry-run --show` prints the statement"
    )
