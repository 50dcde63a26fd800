"""Spark's errors about users' SQL, as one line with the place in the user's file."""

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
    """Return the first line of Spark's message, without error code, place and plan."""
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
    """Return the error about `what`, at Spark's place or else at the given line and column."""
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
    """Return the analyzer's error about `what`; `columns` are those it may use, as a remedy.

    `line` and `column` are the place of `what`, used if Spark names no place.
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
