"""Statements of psycopg with names in them: the only way in which names become SQL.

Values are parameters of `execute`, never a part of a statement.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import LiteralString

from psycopg import sql

from tidemark.errors import InvalidInput
from tidemark.postgres.identifiers import TableName, require_identifier

_TYPE = re.compile(r"[a-z][a-z0-9_ ]*(\([0-9, ]+\))?(\[\])?")

Composed = sql.Composed
"""A complete statement."""
Statement = sql.Composable
"""A statement, or a part of one."""

Part = TableName | str | Sequence[str] | sql.Composable


def statement(text: LiteralString, **parts: Part) -> sql.Composed:
    """Return a statement with names in place of `{...}`.

    A str is a name, a sequence is a list of names with commas between them. Other statements may be
    parts, too.

    Raises:
        InvalidInput: PostgreSQL would not store a name unchanged.
    """
    return sql.SQL(text).format(**{key: _part(value) for key, value in parts.items()})


def joined(separator: LiteralString, statements: Sequence[sql.Composable]) -> sql.Composed:
    """Return statements with a separator between them."""
    return sql.SQL(separator).join(statements)


def text_of(composed: sql.Composable) -> str:
    """Return a statement as text, for people."""
    return composed.as_string(None)


def type_named(name: str) -> sql.Composable:
    """Return the name of a type, which may consist of words, an array's brackets, or limits.

    Raises:
        InvalidInput: it has other characters.
    """
    if not _TYPE.fullmatch(name):
        raise InvalidInput(f"not a type of PostgreSQL: {name!r}")
    return sql.SQL(name)


def _part(value: Part) -> sql.Composable:
    if isinstance(value, sql.Composable):
        return value
    if isinstance(value, TableName):
        return value.sql
    if isinstance(value, str):
        return _name(value)
    return sql.SQL(", ").join(_name(name) for name in value)


def _name(name: str) -> sql.Identifier:
    require_identifier(name)
    return sql.Identifier(name)
