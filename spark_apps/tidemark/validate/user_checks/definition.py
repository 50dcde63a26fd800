"""The file that defines a check: a header in YAML, then one SELECT whose rows are checked.

This module needs no Spark; `user_checks.evaluate` checks the SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from tidemark.user_files.directory import require_directory
from tidemark.user_files.form import HeaderModel, Text, refusal
from tidemark.user_files.header import error_in
from tidemark.user_files.sql_file import read_sql_file
from tidemark.user_sql.row_check import AnyCheck, RowCheck, read_check
from tidemark.user_sql.statement import Select, read_select
from tidemark.validate.findings.check import Check, Layer, Severity
from tidemark.validate.findings.checks import CHECKS
from tidemark.validate.user_checks.source import KEYS, AnySource, CheckSource, source_of
from tidemark.validate.user_checks.suite import Suite, read_suite

FRAMES = ("messages", "tag_rows", "findings")
"""The tables that a SELECT over keys may read."""
_RESERVED = {
    "findings",
    "warnings",
    "settled_findings",
    "messages_checked",
    "tag_rows_checked",
}
"""Names of other counts in reports, which no check may have."""


class CheckHeader(HeaderModel):
    """The header of a check of validate."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["check"]}, {"required": ["suite"]}]}
    )

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,47}$")] = Field(
        description="unique among the checks; findings have it", examples=["one_tag_per_flight"]
    )
    check: AnyCheck = Field(
        "",
        description="what must be true of each row of the SELECT",
        examples=["tags <= 1", {"not-null": "tag"}, {"unique": ["tag"]}, {"warn": "tags <= 1"}],
    )
    suite: Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,99}$")] = Field(
        "",
        description="in place of `check`: the suite of Great Expectations, of the context in the"
        " folder gx, that the result of the SELECT must meet",
        examples=["busy_ids"],
    )
    source: AnySource = Field(
        "keys",
        description="what the SELECT reads",
        examples=["journal", {"events": "flights"}, {"read-model": "daily_punctuality"}],
    )
    rule: Text = Field(
        "",
        description="the same in one line for people",
        examples=["No flight has more than one tag."],
    )

    @model_validator(mode="after")
    def _require_one_requirement(self) -> Self:
        given = self.model_fields_set & {"check", "suite"}
        if not given:
            raise refusal("add `check: tags <= 1`, or a suite", "check is missing")
        if len(given) > 1:
            do = "leave one of them out, or make two files of it"
            raise refusal(do, "there are both check and suite", "suite")
        return self


@dataclass(frozen=True)
class UserCheck:
    """A check that a user has written.

    Attributes:
        file: the file that defines the check.
        check: its name, rule and severity.
        condition: the condition on each row of the SELECT, or the expectations of its result.
        source: the source that the SELECT reads.
        select: the SELECT.
    """

    file: Path
    check: Check
    condition: RowCheck | Suite
    source: CheckSource
    select: Select

    @property
    def prefix(self) -> str:
        """The beginning of a finding's detail: the source, unless it is KEYS."""
        return "" if self.source == KEYS else f"{self.source}: "


def tables_of(source: CheckSource) -> tuple[str, ...]:
    """Return the names of the tables that a SELECT over a source may read."""
    return FRAMES if source == KEYS else (source.table,)


def load(directory: Path, further: Sequence[Check] = ()) -> list[UserCheck]:
    """Read every check of a directory, sorted by name.

    `further`: checks of Tidemark besides CHECKS, whose names are taken as well.

    Raises:
        DefinitionError: a file cannot be used, or its name is taken.
    """
    require_directory(directory, "TIDEMARK_CHECKS_DIR", "your checks")
    names = (*_RESERVED, *(check.name for check in (*CHECKS, *further)))
    owner_of_name = dict.fromkeys(names, "Tidemark")
    checks = []
    for file in sorted(directory.glob("*.sql")):
        check = _read(file)
        if owner := owner_of_name.get(check.check.name):
            problem = f"the name {check.check.name} is taken by {owner}"
            raise error_in(file, problem, "choose another name", 1)
        owner_of_name[check.check.name] = file.name
        checks.append(check)
    return sorted(checks, key=lambda check: check.check.name)


def _read(file: Path) -> UserCheck:
    parts = read_sql_file(file)
    header = parts.header.checked(CheckHeader)
    source = source_of(header.source)
    condition = (
        read_suite(file.parent, header.suite)
        if header.suite
        else read_check(parts.header, header.check, "check")
    )
    tables = ", ".join(tables_of(source))
    select = read_select(parts, f"write one SELECT over {tables}")
    check = Check(
        header.name,
        header.rule or condition.text,
        Layer.USER,
        remedy=f"put right what your check {header.name} finds",
        severity=Severity.BLOCKS if condition.is_blocking else Severity.WARNS,
    )
    return UserCheck(file, check, condition, source, select)
