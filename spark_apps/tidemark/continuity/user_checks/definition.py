"""The file that defines a check: a header in YAML, then one SELECT whose rows are checked.

Nothing here needs Spark; `user_checks.evaluate` checks the SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from tidemark.continuity.findings.check import Check, Layer, Severity
from tidemark.continuity.findings.checks import CHECKS
from tidemark.continuity.user_checks.expected import (
    AnyExpectations,
    Expectations,
    read_expectations,
)
from tidemark.headed_files.directory import require_directory
from tidemark.headed_files.form import Form, Text, refusal
from tidemark.headed_files.header import error_in
from tidemark.headed_files.sql_file import read_sql_file
from tidemark.user_sql.row_check import AnyCheck, RowCheck, read_check
from tidemark.user_sql.statement import Select, read_select

FRAMES = ("messages", "tag_rows", "findings")
"""The tables that a SELECT may read."""
_TAKEN = {
    "time_bucket",
    "findings",
    "warnings",
    "settled_findings",
    "messages_checked",
    "tag_rows_checked",
}
"""Names that stand beside those of checks in the judged table and in reports."""


class CheckHeader(Form):
    """The header of a check of validate."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["check"]}, {"required": ["expectations"]}]}
    )

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,47}$")] = Field(
        description="unique among the checks; findings have it", examples=["one_tag_per_flight"]
    )
    check: AnyCheck = Field(
        "",
        description="what must be true of each row of the SELECT",
        examples=["tags <= 1", {"not-null": "tag"}, {"unique": ["tag"]}, {"warn": "tags <= 1"}],
    )
    expectations: AnyExpectations = Field(
        (),
        description="in place of `check`: expectations of Great Expectations that the result of"
        " the SELECT must meet in each time bucket",
        examples=[
            [{"expect_column_values_to_be_between": {"column": "events", "max_value": 1000}}],
            {"warn": [{"expect_table_row_count_to_be_between": {"min_value": 1}}]},
        ],
    )
    rule: Text = Field(
        "",
        description="the same in one line for people",
        examples=["No flight has more than one tag."],
    )

    @model_validator(mode="after")
    def _require_one_requirement(self) -> Self:
        given = self.model_fields_set & {"check", "expectations"}
        if not given:
            raise refusal("add `check: tags <= 1`, or expectations", "check is missing")
        if len(given) > 1:
            do = "leave one of them out, or make two files of it"
            raise refusal(do, "there are both check and expectations", "expectations")
        return self


@dataclass(frozen=True)
class UserCheck:
    """A check that a user has written.

    Attributes:
        file: the file that defines it.
        check: its name, rule and severity.
        condition: what must be true of each row of the SELECT, or what is expected of all.
        select: the rows.
    """

    file: Path
    check: Check
    condition: RowCheck | Expectations
    select: Select


def load(directory: Path, further: Sequence[Check] = ()) -> list[UserCheck]:
    """Read every check of a directory, sorted by name.

    Args:
        directory: their directory.
        further: checks of Tidemark beside CHECKS, whose names are taken as well.

    Raises:
        InvalidInput: there is no such directory.
        DefinitionError: a file cannot be used, or its name is taken.
    """
    require_directory(directory, "TIDEMARK_CHECKS_DIR", "your checks")
    names = (*_TAKEN, *(check.name for check in (*CHECKS, *further)))
    taken = dict.fromkeys(names, "Tidemark")
    checks = []
    for file in sorted(directory.glob("*.sql")):
        check = _read(file)
        if by := taken.get(check.check.name):
            what = f"the name {check.check.name} is taken by {by}"
            raise error_in(file, what, "choose another name", 1)
        taken[check.check.name] = file.name
        checks.append(check)
    return sorted(checks, key=lambda check: check.check.name)


def _read(file: Path) -> UserCheck:
    parts = read_sql_file(file)
    header = parts.header.checked(CheckHeader)
    condition = (
        read_expectations(parts.header, header.expectations)
        if header.expectations
        else read_check(parts.header, header.check, "check")
    )
    select = read_select(parts, f"write one SELECT over the tables {', '.join(FRAMES)}")
    check = Check(
        header.name,
        header.rule or condition.text,
        Layer.USER,
        remedy=f"put right what your check {header.name} finds",
        severity=Severity.BLOCKS if condition.is_blocking else Severity.WARNS,
    )
    return UserCheck(file, check, condition, select)
