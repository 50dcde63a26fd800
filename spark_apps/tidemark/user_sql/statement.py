"""Finds the end of a SELECT in a text, and requires that no other statement follows.

This module parses only quotes and comments, which may contain semicolons; Spark parses the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidemark.user_files.header import error_in
from tidemark.user_files.sql_file import SqlFile

_OPAQUE_OR_END = re.compile(
    r"""'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*` | --[^\n]* | /\*.*?\*/ | ;""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Select:
    """A SELECT; `sql` is padded to its place in the file and has no semicolon at its end."""

    sql: str

    @property
    def line(self) -> int:
        """The line of the file in which the SELECT starts."""
        return self.sql.count("\n", 0, len(self.sql) - len(self.sql.lstrip())) + 1

    def __str__(self) -> str:
        """Return the text for reports."""
        return "the SELECT"


class _NotOneSelect(Exception):
    """The text is not one SELECT; `offset` is the position of the error."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(what, offset)
        self.what = what
        self.offset = offset


def read_select(parts: SqlFile, remedy: str) -> Select:
    """Return the SELECT in a file's body; `remedy` is for the error message.

    Raises:
        DefinitionError: the body has no statement or more than one, or does not start like a query.
    """
    text = parts.body
    try:
        return Select(_single_select(text))
    except _NotOneSelect as error:
        line = text.count("\n", 0, error.offset) + 1
        column = error.offset - text.rfind("\n", 0, error.offset)
        raise error_in(parts.header.file, error.what, remedy, line, column) from None


def _single_select(text: str) -> str:
    """Return the text up to the semicolon after its SELECT, or the complete text."""
    without_comments = _OPAQUE_OR_END.sub(_without_comment, text)
    first = re.search(r"\S", without_comments)
    if first is None:
        raise _NotOneSelect("there is no SELECT", len(text.rstrip()))
    if not re.compile(r"(SELECT|WITH)\b", re.IGNORECASE).match(without_comments, first.start()):
        word = without_comments[first.start() :].split()[0]
        raise _NotOneSelect(f"the SQL starts with {word!r}", first.start())
    semicolons = [part.start() for part in _OPAQUE_OR_END.finditer(text) if part.group() == ";"]
    if not semicolons:
        return text
    second = re.compile(r"[^\s;]").search(without_comments, semicolons[0])
    if second is not None:
        raise _NotOneSelect("there is more than one statement", second.start())
    return text[: semicolons[0]]


def _without_comment(part: re.Match[str]) -> str:
    """Replace a comment by blanks of the same length, so that all offsets stay the same."""
    is_comment = part.group().startswith(("--", "/*"))
    return re.sub(r"[^\n]", " ", part.group()) if is_comment else part.group()
