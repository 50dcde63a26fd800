"""Spark's refusal of what a user wrote, in one line, at its place in the user's file."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.errors import AnalysisException, PySparkException

from tidemark.errors import DefinitionError
from tidemark.user_files.header import error_in
from tidemark.user_sql.allowed import NotAllowed

_POSITION = re.compile(r"\(?line (\d+), pos (\d+)\)?|line (\d+) pos (\d+)")
_UNKNOWN_COLUMN = "UNRESOLVED_COLUMN"


def sentence(error: PySparkException) -> str:
    """Return the first line of Spark's message, without its code, its place and its plan."""
    text = str(error).strip().splitlines()[0]
    text = re.sub(r"^\[[A-Z_.0-9]+\] ", "", text)
    return _POSITION.split(text)[0].rstrip(" ;.(")


def refused(
    file: Path,
    what: str,
    error: PySparkException,
    do: str,
    line: int,
    column: int | None = None,
) -> DefinitionError:
    """Return the refusal of `what`, at the place that Spark names or else at this one."""
    if isinstance(error, NotAllowed):
        return _located(file, error.what, error.do, error, line, column)
    return _located(file, f"Spark refuses {what}: {sentence(error)}", do, error, line, column)


def unresolved(
    file: Path,
    what: str,
    columns: str,
    error: AnalysisException,
    line: int,
    column: int | None = None,
) -> DefinitionError:
    """Return the analyzer's refusal of `what`.

    Args:
        file: the user's file.
        what: what is refused.
        columns: the columns that it may use, as a remedy.
        error: the refusal.
        line: where `what` is, unless Spark names a place.
        column: the same.
    """
    cause = error.getErrorClass() or ""
    parameters = error.getMessageParameters() or {}
    if cause.startswith(_UNKNOWN_COLUMN) and "objectName" in parameters:
        name = parameters["objectName"].replace("`", "")
        return _located(file, f"unknown column {name}", columns, error, line, column)
    return refused(file, what, error, columns, line, column)


def _located(
    file: Path, what: str, do: str, error: PySparkException, line: int, column: int | None
) -> DefinitionError:
    position = _POSITION.search(str(error))
    if position is None:
        return error_in(file, what, do, line, column)
    found_line, found_position = (int(part) for part in position.groups() if part is not None)
    return error_in(file, what, do, found_line, found_position + 1)
