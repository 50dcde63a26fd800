"""Checks of rows as the header of a user's file lists them.

This module does not need Spark; `user_sql.evaluate` evaluates checks with Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, Tag

from tidemark.user_files.form import BY_SHAPE, OneKey, Text, Texts
from tidemark.user_files.header import Header


class BlockingCheck(OneKey):
    """A check by its name."""

    not_null: Text = Field("", description="the column that must not be null")
    unique: Texts = Field((), description="the columns that no two rows may have alike")


Requirement = Annotated[
    Annotated[Text, Tag("text")] | Annotated[BlockingCheck, Tag("mapping")], BY_SHAPE
]
"""A boolean expression over a row, or a check by its name."""


class CheckForm(BlockingCheck):
    """A check by its name, or one that only warns."""

    warn: Requirement = Field("", description="the check that only warns")


AnyCheck = Annotated[Annotated[Text, Tag("text")] | Annotated[CheckForm, Tag("mapping")], BY_SHAPE]


@dataclass(frozen=True)
class RowCheck:
    """A check of the rows of a result.

    Attributes:
        text: text for people, in one line, such as `not null carrier`; without `warn`.
        sql: SQL padded to its place in the file: for `unique` the columns, else a boolean
            expression over a row, which fails where it is false, like SQL's own CHECK.
        is_unique: whether no two rows may have the same values of `sql`.
        is_blocking: whether a failure blocks the steps after the check, or only warns.
        line: line of the start, from 1.
        column: column of the start, from 1.
    """

    text: str
    sql: str
    is_unique: bool
    is_blocking: bool
    line: int
    column: int


def read_checks(header: Header, key: str, forms: Sequence[AnyCheck]) -> tuple[RowCheck, ...]:
    """Return the checks that a header lists under a key, in their order."""
    return tuple(read_check(header, form, key, number) for number, form in enumerate(forms))


def read_check(header: Header, form: AnyCheck, *path: str | int) -> RowCheck:
    """Return the check that a header has at a path."""
    if isinstance(form, CheckForm) and form.warn:
        return _check(header, form.warn, *path, "warn", is_blocking=False)
    return _check(header, form, *path, is_blocking=True)


def _check(
    header: Header, form: str | BlockingCheck, *path: str | int, is_blocking: bool
) -> RowCheck:
    node = header.node(*path)
    if isinstance(form, str):
        text, sql, is_unique = form, node.padded, False
    elif form.not_null:
        text, is_unique = f"not null {form.not_null}", False
        sql = f"{header.node(*path, 'not-null').padded} IS NOT NULL"
    else:
        columns = ", ".join(form.unique)
        text, is_unique = f"unique ({columns})", True
        line, column = header.node(*path, "unique").place
        sql = "\n" * (line - 1) + " " * (column - 1) + f"({columns})"
    return RowCheck(" ".join(text.split()), sql, is_unique, is_blocking, *node.place)
