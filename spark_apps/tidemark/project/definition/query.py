"""The body of a definition, which turns events into a result: a SELECT, or a user's function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemark.project.definition.source import EVENTS
from tidemark.project.definition.user_modules import ModuleTexts, sources_in
from tidemark.user_files.header import error_in
from tidemark.user_files.python_file import PythonFile
from tidemark.user_files.sql_file import SqlFile
from tidemark.user_sql.statement import Select, read_select


@dataclass(frozen=True)
class Function:
    """A Python function of the user's.

    Attributes:
        sources: texts of the function's module and those in its directory when they were read.
        module: module of the function.
        name: name of the function.
        line: line of the function's decorator.
    """

    sources: ModuleTexts
    module: str
    name: str
    line: int

    def __str__(self) -> str:
        """Return the text for reports."""
        return f"the function {self.name}"


Body = Select | Function


def of(parts: SqlFile | PythonFile, tables: Sequence[str], *, is_fold: bool) -> Body:
    """Return the body of a file.

    Args:
        parts: parts of the file.
        tables: names of the tables that the body may read; the first is the source's.
        is_fold: whether the body must be a function of states and events.

    Raises:
        DefinitionError: the text is not one SELECT, or the function does not fit the mode.
    """
    if isinstance(parts, PythonFile):
        return _function(parts, ["state", EVENTS] if is_fold else tables)
    if is_fold:
        remedy = "write it in Python, see docs/projections.md"
        raise parts.header.error("mode fold is a function", remedy, "mode")
    return read_select(parts, f"write one SELECT over the table {tables[0]}")


def _function(parts: PythonFile, parameters: Sequence[str]) -> Function:
    file = parts.header.file
    if parts.parameters != len(parameters):
        what = f"{parts.function} must be called with {parts.parameters} arguments"
        remedy = f"write `def {parts.function}({', '.join(parameters)})`"
        raise error_in(file, what, remedy, parts.line)
    return Function(sources_in(file.parent), file.stem, parts.function, parts.line)
