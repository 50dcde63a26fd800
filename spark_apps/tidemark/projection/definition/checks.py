"""Checks of a result before it is written, as a definition's header `checks` lists them.

A list with commas between: `expression`, `not null column` or `unique (column, ...)`, each perhaps
with `warn` before it. Nothing here needs Spark; `transformation.result_checks` evaluates them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tidemark.headed_files.sql_file import Value, error_in
from tidemark.projection.definition.tokens import place

NONE = "none"
"""The value of the header of a definition without checks."""
_EXAMPLE = "departed >= 0, warn delay < 600, not null carrier, unique (time_bucket, carrier)"
_REMEDY = f"write checks such as `{_EXAMPLE}`"
_PART = re.compile(
    r"""'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*` | [][(){},'"`]""", re.VERBOSE | re.DOTALL
)
_CLOSES = {")": "(", "]": "[", "}": "{"}
_WARN = re.compile(r"warn\b\s*", re.IGNORECASE)
_NOT_NULL = re.compile(r"not\s+null\b\s*", re.IGNORECASE)
_UNIQUE = re.compile(r"unique\s*(?=\()", re.IGNORECASE)


@dataclass(frozen=True)
class ResultCheck:
    """One check.

    Attributes:
        text: as its author wrote it, in one line, without `warn`.
        sql: what Spark evaluates, padded to its place in the file: a boolean expression over a
            row, which fails where it is false, as SQL's own CHECK; of `unique` the columns.
        is_unique: whether no two rows may have the same values of `sql`.
        is_blocking: whether a failure stops the projection.
        line: where it starts; like `column` from 1.
        column: where it starts.
    """

    text: str
    sql: str
    is_unique: bool
    is_blocking: bool
    line: int
    column: int


def parse(file: Path, value: Value) -> tuple[ResultCheck, ...]:
    """The checks of a header; `none` has none.

    Args:
        file: named in errors.
        value: the header's text, padded to its column, and the line that it starts in.

    Raises:
        DefinitionError: naming file, line, column and what would be right.
    """
    if value.text.strip() == NONE:
        return ()
    return tuple(_check(file, value, start, end) for start, end in _parts(file, value))


def _parts(file: Path, value: Value) -> Iterator[tuple[int, int]]:
    """Start and end of what is between the commas that are in no quotes and no parentheses."""
    text, start = value.text, 0
    opened: list[re.Match[str]] = []
    for part in _PART.finditer(text):
        mark = part.group()
        if mark in "'\"`":
            raise _error(file, value, part.start(), f"the quote {mark} does not end")
        if mark in "([{":
            opened.append(part)
        elif mark in _CLOSES:
            if not opened or opened.pop().group() != _CLOSES[mark]:
                raise _error(file, value, part.start(), f"the {mark} closes nothing")
        elif mark == "," and not opened:
            yield start, part.start()
            start = part.end()
    if opened:
        raise _error(file, value, opened[-1].start(), f"the {opened[-1].group()} is not closed")
    yield start, len(text)


def _check(file: Path, value: Value, start: int, end: int) -> ResultCheck:
    text = value.text[:end].rstrip()
    start += len(value.text[start:end]) - len(value.text[start:end].lstrip())
    warn = _WARN.match(text, start)
    first = warn.end() if warn else start
    if first >= len(text):
        raise _error(file, value, start if warn else end, "a check is empty")
    line, column = place(value, first)
    not_null, unique = _NOT_NULL.match(text, first), _UNIQUE.match(text, first)
    found = not_null or unique
    begin = found.end() if found else first
    if begin >= len(text):
        raise _error(file, value, first, "the check names no column")
    sql_line, sql_column = place(value, begin)
    sql = "\n" * (sql_line - 1) + " " * (sql_column - 1) + text[begin:]
    return ResultCheck(
        text=" ".join(text[first:].split()),
        sql=f"{sql} IS NOT NULL" if not_null else sql,
        is_unique=unique is not None,
        is_blocking=warn is None,
        line=line,
        column=column,
    )


def _error(file: Path, value: Value, offset: int, what: str) -> Exception:
    return error_in(file, what, _REMEDY, *place(value, offset))
