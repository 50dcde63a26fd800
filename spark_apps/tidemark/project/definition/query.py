"""What turns events into a result: a SELECT, or a function of the user's."""

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
    """A Python function.

    Attributes:
        sources: the modules, among them the function's, as they were when the file was read.
        module: the function's.
        name: its own.
        line: that of its decorator.
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
        parts: the file.
        tables: the names of the tables that it may read, the first of them that of its source.
        is_fold: whether it is a function of states and events.

    Raises:
        DefinitionError: the text is not one SELECT, or the function does not fit the mode.
    """
    if isinstance(parts, PythonFile):
        return _function(parts, ["state", EVENTS] if is_fold else tables)
    if is_fold:
        remedy = "write it in Python, see docs/projections.md"
        raise parts.header.error("mode fold is a function", remedy, "mode")
    return read_select(parts, f"write one SELECT over the table {tables[0]}")


def _function(parts: PythonFile, wanted: Sequence[str]) -> Function:
    file = parts.header.file
    if parts.parameters != len(wanted):
        what = f"{parts.function} must be called with {parts.parameters} arguments"
        remedy = f"write `def {parts.function}({', '.join(wanted)})`"
        raise error_in(file, what, remedy, parts.line)
    return Function(sources_in(file.parent), file.stem, parts.function, parts.line)
