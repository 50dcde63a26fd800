"""docs/security.md: each row of its tables names tests that exist, and its numbers hold."""

from __future__ import annotations

import re

import pytest

from tests.docs_commands import ROOT
from tests.unit.user_sql.test_allowed import EXPRESSIONS, ONLY_DUCKDB, QUERIES

PAGE = (ROOT / "docs" / "security.md").read_text()
TRUSTED_WITH_ALL = "whoever sets the environment, Airflow's connections and the settings"


def rows(section: str) -> list[list[str]]:
    """Return the cells of a section's table, without its head."""
    text = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines[1:]]


@pytest.mark.parametrize(
    "row",
    [
        *(row for row in rows("Who is trusted with what") if row[0] != TRUSTED_WITH_ALL),
        *rows("What has been tried"),
    ],
    ids=lambda row: row[0][:40],
)
def test_each_row_names_tests_that_exist(row: list[str]) -> None:
    tests = re.findall(r"`(tests/[\w/]+\.py)`", row[-1])
    assert len(row) == 4
    assert tests
    assert [test for test in tests if not re.search("def test_", (ROOT / test).read_text())] == []


def test_the_numbers_of_constructs_hold() -> None:
    assert f"{len(EXPRESSIONS)} expressions" in PAGE
    assert f"{len(ONLY_DUCKDB)} more" in PAGE
    assert f"{len(QUERIES)} queries" in PAGE
