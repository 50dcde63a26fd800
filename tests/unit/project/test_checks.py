"""Checks of a result: their syntax, Spark's errors about them, and their findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidemark.errors import DefinitionError, WrongData
from tidemark.project.analysis import analyze
from tidemark.project.definition.file import read
from tidemark.project.transformation import result_checks
from tidemark.projection.testing import failed_checks, run_projection

DEFINITION = """\
/*---
name: one
version: 1
source: messages
mode: bucket
target: flights.one
event: kind STRING, amount INT
checks: {checks}
---*/

SELECT time_bucket, persistence_id, max(kind) AS kind, sum(amount) AS total,
  map('in', total) AS kinds
FROM events
GROUP BY time_bucket, persistence_id
"""
NOON, BUCKET = "2024-03-01T12:00:00Z", 1709294400000
COLUMNS = "the columns of the result are time_bucket, persistence_id, kind, total, kinds"


@pytest.fixture(autouse=True)
def _session(spark: SparkSession) -> None:
    """Provide the active session, which the helper uses."""


def event(pid: str, kind: str | None, amount: int | None) -> dict[str, Any]:
    return {
        "persistence_id": pid,
        "sequence_nr": 1,
        "timestamp": NOON,
        "kind": kind,
        "amount": amount,
    }


SOME = [event("a|1", "in", 5), event("a|2", "in", None), event("a|3", None, -7)]


def test_checks_are_read_in_their_order_with_their_places(tmp_path: Path) -> None:
    text = """
  - kind IN ('a,b', "c)")
  - warn: "`odd, name` < 3 AND x[1] > 0"
  - {not-null: carrier}
  - {warn: {unique: [time_bucket, carrier]}}
  - warn:
      not-null: a.b"""
    file = tmp_path / "one.sql"
    file.write_text(DEFINITION.replace("{checks}", text))
    checks = read(file).checks
    assert [(check.text, check.is_blocking, check.is_unique) for check in checks] == [
        ("""kind IN ('a,b', "c)")""", True, False),
        ("`odd, name` < 3 AND x[1] > 0", False, False),
        ("not null carrier", True, False),
        ("unique (time_bucket, carrier)", False, True),
        ("not null a.b", False, False),
    ]
    assert [(check.line, check.column) for check in checks] == [
        (9, 5), (10, 11), (11, 5), (12, 12), (14, 7),
    ]  # fmt: skip
    assert checks[2].sql == "\n" * 10 + " " * 15 + "carrier IS NOT NULL"
    assert checks[3].sql == "\n" * 11 + " " * 20 + "(time_bucket, carrier)"


@pytest.mark.parametrize(
    ("checks", "place", "what"),
    [
        ("total > 0", ":8:9", "checks cannot be 'total > 0'"),
        ("[total > 0, '']", ":8:21", "checks is empty"),
        ("[{not_null: a}]", ":8:11", "unknown key not_null"),
        ("[{warn: {warn: a > 1}}]", ":8:18", "unknown key warn"),
        ("[{not-null: a, unique: [b]}]", ":8:10", "checks cannot be"),
        ("[{unique: a}]", ":8:19", "unique cannot be 'a'"),
    ],
)
def test_what_cannot_be_taken_apart_is_refused(
    tmp_path: Path, checks: str, place: str, what: str
) -> None:
    file = tmp_path / "one.sql"
    file.write_text(DEFINITION.replace("{checks}", checks))
    with pytest.raises(DefinitionError) as refused:
        read(file)
    assert refused.value.what.startswith(what)
    assert refused.value.where == f"{file}{place}"


@pytest.mark.parametrize(
    ("checks", "place", "what", "do"),
    [
        ("[total > 0,\n  not-null: knd]", ":9:13", "unknown column knd", COLUMNS),
        ("[unique: [kind, nobody]]", ":8:25", "unknown column nobody", COLUMNS),
        (
            "[total >]",
            ":8:17",
            "Spark refuses the check total >: Syntax error at or near end of input",
            "correct it",
        ),
        ("[total + 1]", ":8:10", "Spark refuses the check total + 1: Cannot", COLUMNS),
        ("[sum(total) > 1]", ":8:10", "Spark refuses the check sum(total) > 1: The WHERE", COLUMNS),
        (
            "[nofun(kind)]",
            ":8:10",
            "the function nofun is not allowed",
            "use a function that docs/user-sql.md lists",
        ),
    ],
)
def test_what_spark_cannot_evaluate_is_refused_at_its_place(
    spark: SparkSession, tmp_path: Path, checks: str, place: str, what: str, do: str
) -> None:
    file = tmp_path / "one.sql"
    file.write_text(DEFINITION.replace("{checks}", checks))
    with pytest.raises(DefinitionError) as refused:
        result_checks.analyze(spark, analyze.analyze(spark, read(file)))
    error = refused.value
    assert error.what.startswith(what)
    assert (error.where, error.do) == (f"{file}{place}", do)


def test_a_failing_check_says_how_many_rows_and_shows_one() -> None:
    checks = """
    - total >= 0
    - warn: {not-null: kind}
    - unique: [time_bucket, kind]
    - kinds['in'] < 9"""
    with pytest.raises(WrongData) as failed:
        run_projection(DEFINITION.replace("{checks}", checks), SOME)
    error = failed.value
    assert error.what == (
        "the result fails 2 checks:"
        f" total >= 0: 1 of 3 rows, such as time_bucket={BUCKET}, total=-7;"
        " unique (time_bucket, kind): 2 of 3 rows,"
        f" such as time_bucket={BUCKET}, kind=in"
    )
    assert error.where.endswith("definition.sql:9:7")


def test_warnings_do_not_fail_and_null_fails_only_not_null() -> None:
    checks = """
    - warn: total > 9
    - kind <> 'out'
    - warn: {unique: [persistence_id]}
    - warn: {not-null: total}"""
    definition = DEFINITION.replace("{checks}", checks)
    assert len(run_projection(definition, SOME)) == 3
    assert failed_checks(definition, SOME) == {"total > 9": 2, "not null total": 1}


def test_a_result_without_rows_fails_no_check() -> None:
    assert failed_checks(DEFINITION.replace("{checks}", "[total > 0, unique: [kind]]"), []) == {}
