"""Checks that users write: they block or warn, can be settled, and are refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.support import Journal
from tests.integration.validate.test_incremental import NEWS
from tests.integration.validate.test_incremental import validate as validate_days
from tests.integration.validate.test_validate import bucket, days, fill, findings, states, validate
from tidemark.cassandra.schema import create_own_tables
from tidemark.validate.user_checks.suite import SUITES

pytestmark = pytest.mark.usefixtures("production")

__all__ = ["days"]

FEW = """\
/*---
name: few_events
rule: No persistence id has more than two events a day.
check: {check}
---*/

SELECT time_bucket, persistence_id, count(*) AS events
FROM messages GROUP BY time_bucket, persistence_id
"""

EXPECTED = """\
/*---
name: expected_events
rule: Each day has two events of each persistence id but the first.
suite: expected_events
---*/

SELECT time_bucket, persistence_id, count(*) AS events
FROM messages WHERE persistence_id = 'one' OR timestamp >= '2024-03-03'
GROUP BY time_bucket, persistence_id
"""


def expect(checks: Path, severity: str, column: str = "events", bound: str = "max_value") -> None:
    """Write the check EXPECTED and its suite."""
    (checks / "expected.sql").write_text(EXPECTED)
    expectations = [
        {"type": "expect_column_values_to_be_between", "kwargs": {"column": column, bound: 1}},
        {"type": "expect_table_row_count_to_be_between", "kwargs": {"max_value": 1}},
    ]
    stored = [{**expectation, "severity": severity} for expectation in expectations]
    file = checks / SUITES / "expected_events.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"name": "expected_events", "expectations": stored}))


@pytest.fixture
def checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory of checks, without any yet."""
    directory = tmp_path / "checks"
    directory.mkdir()
    monkeypatch.setenv("TIDEMARK_CHECKS_DIR", str(directory))
    return directory


def test_a_check_blocks_until_it_holds_or_is_settled(
    days: Journal, checks: Path, tmp_path: Path
) -> None:
    (checks / "few.sql").write_text(FEW.replace("{check}", "events < 2 OR persistence_id = 'two'"))

    failed = validate(days)

    assert failed.status == 3, failed.stderr
    assert states(days) == dict.fromkeys(range(3), "failed")
    assert findings(days) == {
        ("few_events", "one", "", bucket(day), None, bucket(day)) for day in range(3)
    }
    assert {(row["layer"], row["severity"], row["detail"]) for row in days.own_rows("finding")} == {
        ("user", "blocks", "events < 2 OR persistence_id = 'two': events=2")
    }
    assert failed.report["counts"]["few_events"] == 3
    (line,) = failed.error_lines
    settle = ("settle", "--check", "few_events", "--reason", "the load test")
    assert (
        "put right what your check few_events finds, or give it up:"
        " `spark_apps/reconcile.py settle --check few_events --reason ...`"
    ) in line
    page = (tmp_path / "docs" / failed.report["details"]["data_docs"]).read_text()
    assert "Does not hold: No persistence id has more than two events a day." in page

    assert days.run("reconcile", *settle, "--apply").report["counts"] == {"findings_settled": 3}
    passed = validate(days)
    assert passed.status == 0, passed.stderr
    assert passed.report["counts"]["settled_findings"] == 3
    assert states(days) == dict.fromkeys(range(3), "done")


@pytest.mark.long
def test_a_check_that_warns_passes_and_is_told(days: Journal, checks: Path, tmp_path: Path) -> None:
    (checks / "few.sql").write_text(FEW.replace("{check}", "{warn: events < 2}"))

    result = validate(days)

    assert result.status == 0, result.stderr
    assert states(days) == dict.fromkeys(range(3), "done")
    assert {row["severity"] for row in days.own_rows("finding")} == {"warns"}
    counts = {"findings": 0, "warnings": 6, "few_events": 6}
    assert result.report["counts"].items() >= counts.items()
    assert "warning: few_events: one: events < 2: events=2 in bucket" in result.stdout
    refused = days.run("reconcile", "settle", "--check", "few_events", "--reason", "r")
    assert refused.status == 2
    assert "no check 'few_events'" in refused.error_lines[0]

    # Without its file nobody makes it any more; earlier pages still show it.
    page = tmp_path / "docs" / result.report["details"]["data_docs"]
    (checks / "few.sql").unlink()
    assert validate(days, "--force").report["counts"].keys().isdisjoint({"warnings", "few_events"})
    assert days.own_rows("finding") == []
    assert "few_events" in page.read_text()


@pytest.mark.long
def test_an_expectation_blocks_until_its_findings_are_settled(
    days: Journal, checks: Path, tmp_path: Path
) -> None:
    expect(checks, "critical")

    failed = validate(days)

    assert failed.status == 3, failed.stderr
    name = "expected_events"
    of_rows = {(name, "one", "", bucket(day), None, bucket(day)) for day in range(3)}
    of_last = {
        (name, "two", "", bucket(2), None, bucket(2)),
        # Of the day as a whole.
        (name, "", "", bucket(2), None, bucket(2)),
    }
    assert findings(days) == of_rows | of_last
    details = {row["persistence_id"]: row["detail"] for row in days.own_rows("finding")}
    between = "expect_column_values_to_be_between(column=events, max_value=1)"
    assert details == {
        **dict.fromkeys(("one", "two"), f"{between}: events=2"),
        "": "expect_table_row_count_to_be_between(max_value=1): observed 2",
    }
    page = (tmp_path / "docs" / failed.report["details"]["data_docs"]).read_text()
    assert "Does not hold: Each day has two events of each persistence id but the first." in page
    assert f"{between}: events=2" in page

    settle = ("settle", "--check", name, "--reason", "the load test", "--apply")
    one_day = days.run("reconcile", *settle, "--number", str(bucket(0)))
    assert one_day.report["counts"] == {"findings_settled": 1}, one_day.stderr
    # Who settles a day's findings does not speak for the other days.
    assert validate(days).status == 3
    assert states(days) == {0: "done", 1: "failed", 2: "failed"}
    assert days.run("reconcile", *settle).report["counts"] == {"findings_settled": 4}
    passed = validate(days)
    assert passed.status == 0, passed.stderr
    assert states(days) == dict.fromkeys(range(3), "done")


@pytest.mark.long
def test_an_expectation_that_warns_passes_and_is_told(days: Journal, checks: Path) -> None:
    expect(checks, "warning")

    result = validate(days)

    assert result.status == 0, result.stderr
    assert states(days) == dict.fromkeys(range(3), "done")
    assert {row["severity"] for row in days.own_rows("finding")} == {"warns"}
    counts = {"findings": 0, "warnings": 5, "expected_events": 5}
    assert result.report["counts"].items() >= counts.items()
    assert "warning: expected_events: one: expect_column_values_to_be_between" in result.stdout


@pytest.mark.long
def test_a_check_is_made_of_what_is_new(
    make_journal: Callable[..., Journal], checks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemark.validate.reading.incremental.FEW_EVENTS", 0)
    monkeypatch.setattr("tidemark.validate.reading.incremental.NEWS_SHARE", 0)
    journal = make_journal(BUCKET_SIZE="Day", DATA_DOCS_DIR=str(checks.parent / "docs"))
    journal.index_timestamps()
    fill(journal, "one")
    create_own_tables(journal.control, journal.settings())
    assert validate_days(journal, 0, 2).status == 0
    (checks / "few.sql").write_text(FEW.replace("{check}", "events < 2"))
    (checks / "rows.sql").write_text(
        "/*---\nname: odd_rows\ncheck: {warn: number % 2 = 1}\n---*/\n"
        "SELECT time_bucket, persistence_id, tag, tag_pid_sequence_nr AS number FROM tag_rows"
    )

    new = validate_days(journal, 2, 3)

    assert new.status == 3, new.stderr
    assert NEWS in new.stdout
    assert findings(journal) == {
        ("few_events", "one", "", bucket(2), None, bucket(2)),
        ("odd_rows", "one", "t", 6, None, bucket(2)),
    }
    assert states(journal) == {0: "done", 1: "done", 2: "failed"}
    # What has passed is looked at when somebody asks for it.
    (checks / "rows.sql").unlink()
    assert validate_days(journal, 2, 3, "--scope", "all").status == 3
    assert states(journal) == dict.fromkeys(range(3), "failed")


def test_a_check_that_cannot_be_used_is_refused_before_anything_is_written(
    days: Journal, checks: Path
) -> None:
    file = checks / "few.sql"
    for text, why in (
        ("SELECT 1", "there is no front matter"),
        (FEW.replace("{check}", "event < 2"), "unknown column event"),
        (FEW.replace("{check}", "events < 2").replace("messages", "message"), "unknown table"),
        (
            FEW.replace("{check}", "events < 2").replace("count(*)", "max(raise_error('no'))"),
            "RuntimeException: no",
        ),
    ):
        file.write_text(text)
        result = validate(days)
        assert result.status == 2, result.stderr
        (line,) = result.error_lines
        assert why in line
        assert f"{file}:" in line
        assert days.own_rows("finding") == []
    file.unlink()
    for column, bound, why in (
        ("event", "max_value", "unknown column event"),
        ("events", "max", "has no max"),
    ):
        expect(checks, "critical", column, bound)
        result = validate(days)
        assert result.status == 2, result.stderr
        (line,) = result.error_lines
        assert f"{why} ({checks / SUITES / 'expected_events.json'}: expectation 1)" in line
        assert days.own_rows("finding") == []
