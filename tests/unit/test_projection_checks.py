"""Checks of a result: how they are written, what Spark says of them, and what they find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidemark.errors import DefinitionError, WrongData
from tidemark.headed_files.sql_file import Value
from tidemark.projection.analysis import analyze
from tidemark.projection.definition.checks import parse
from tidemark.projection.definition.file import read
from tidemark.projection.testing import failed_checks, run_projection
from tidemark.projection.transformation import result_checks

FILE = Path("one.sql")
DEFINITION = """\
-- name: one
-- version: 1
-- source: messages
-- mode: bucket
-- target: flights.one
-- event: kind STRING, amount INT
-- checks: {checks}

SELECT time_bucket, persistence_id, kind, sum(amount) AS total, map('in', total) AS kinds
FROM events
GROUP BY time_bucket, persistence_id, kind
"""
NOON, BUCKET = "2024-03-01T12:00:00Z", 1709294400000
COLUMNS = "the columns of the result are time_bucket, persistence_id, kind, total, kinds"


@pytest.fixture(autouse=True)
def _session(spark: SparkSession) -> None:
    """The helper takes the active session."""


def event(pid: str, kind: str | None, amount: int | None) -> dict[str, Any]:
    return {
        "persistence_id": pid,
        "sequence_nr": 1,
        "timestamp": NOON,
        "kind": kind,
        "amount": amount,
    }


SOME = [event("a|1", "in", 5), event("a|2", "in", None), event("a|3", None, -7)]


def test_commas_in_quotes_and_parentheses_do_not_end_a_check() -> None:
    text = """
      kind IN ('a,b', "c)"), warn `odd, name` < 3 AND x[1] > 0,
      Not Null carrier, WARN unique (time_bucket, carrier), warn not null a.b"""
    checks = parse(FILE, Value(text, 4))
    assert [(one.text, one.is_blocking, one.is_unique) for one in checks] == [
        ("""kind IN ('a,b', "c)")""", True, False),
        ("`odd, name` < 3 AND x[1] > 0", False, False),
        ("Not Null carrier", True, False),
        ("unique (time_bucket, carrier)", False, True),
        ("not null a.b", False, False),
    ]
    assert [(one.line, one.column) for one in checks] == [
        (5, 7), (5, 35), (6, 7), (6, 30), (6, 66),
    ]  # fmt: skip
    assert checks[2].sql == "\n" * 5 + " " * 15 + "carrier IS NOT NULL"
    assert checks[3].sql.strip() == "(time_bucket, carrier)"


def test_none_has_no_checks() -> None:
    assert parse(FILE, Value("  none", 1)) == ()


@pytest.mark.parametrize(
    ("checks", "place", "what"),
    [
        ("total > 0,, kind = 'x'", ":7:22", "a check is empty"),
        ("total > 0, warn", ":7:23", "a check is empty"),
        ("total > 0,", ":7:22", "a check is empty"),
        ("total > 0, not null", ":7:23", "the check names no column"),
        ("(total > 0", ":7:12", "the ( is not closed"),
        ("total > 0)", ":7:21", "the ) closes nothing"),
        ("f(total]", ":7:19", "the ] closes nothing"),
        ("kind = 'x,", ":7:19", "the quote ' does not end"),
    ],
)
def test_what_cannot_be_taken_apart_is_refused(
    tmp_path: Path, checks: str, place: str, what: str
) -> None:
    file = tmp_path / "one.sql"
    file.write_text(DEFINITION.format(checks=checks))
    with pytest.raises(DefinitionError) as refused:
        read(file)
    assert str(refused.value).startswith(f"{what} ({file}{place}); write checks such as `departed")


@pytest.mark.parametrize(
    ("checks", "place", "what", "do"),
    [
        ("total > 0,\n--   not null knd", ":8:15", "unknown column knd", COLUMNS),
        ("unique (kind, nobody)", ":7:26", "unknown column nobody", COLUMNS),
        (
            "total >",
            ":7:19",
            "Spark refuses the check total >: Syntax error at or near end of input",
            "correct it",
        ),
        ("total + 1", ":7:12", "Spark refuses the check total + 1: Cannot", COLUMNS),
        ("sum(total) > 1", ":7:12", "Spark refuses the check sum(total) > 1: The WHERE", COLUMNS),
        ("nofun(kind)", ":7:12", "Spark refuses the check nofun(kind): Cannot resolve", COLUMNS),
    ],
)
def test_what_spark_cannot_evaluate_is_refused_at_its_place(
    spark: SparkSession, tmp_path: Path, checks: str, place: str, what: str, do: str
) -> None:
    file = tmp_path / "one.sql"
    file.write_text(DEFINITION.format(checks=checks))
    with pytest.raises(DefinitionError) as refused:
        result_checks.analyze(spark, analyze.check(spark, read(file)))
    error = refused.value
    assert error.what.startswith(what)
    assert (error.where, error.do) == (f"{file}{place}", do)


def test_a_failing_check_says_how_many_rows_and_shows_one() -> None:
    checks = "total >= 0, warn not null kind, unique (time_bucket, kind), kinds['in'] < 9"
    with pytest.raises(WrongData) as failed:
        run_projection(DEFINITION.format(checks=checks), SOME)
    error = failed.value
    assert error.what == (
        "the result fails 2 checks:"
        f" total >= 0: 1 of 3 rows, such as time_bucket={BUCKET}, total=-7;"
        " unique (time_bucket, kind): 2 of 3 rows,"
        f" such as time_bucket={BUCKET}, kind=in"
    )
    assert error.where.endswith("definition.sql:7:12")


def test_warnings_do_not_fail_and_null_fails_only_not_null() -> None:
    checks = "warn total > 9, kind <> 'out', warn unique (persistence_id), warn not null total"
    definition = DEFINITION.format(checks=checks)
    assert len(run_projection(definition, SOME)) == 3
    assert failed_checks(definition, SOME) == {"total > 9": 2, "not null total": 1}


def test_a_result_without_rows_fails_no_check() -> None:
    assert failed_checks(DEFINITION.format(checks="total > 0, unique (kind)"), []) == {}
