"""One SELECT in a text: where it ends, and that nothing else follows it.

Only quotes and comments are understood here, since a semicolon may stand in them; all else is for
Spark's own parser.
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
    """A SELECT.

    Attributes:
        sql: padded to its place in the file, without a semicolon at its end.
    """

    sql: str

    @property
    def line(self) -> int:
        """The line of the file in which it starts."""
        return self.sql.count("\n", 0, len(self.sql) - len(self.sql.lstrip())) + 1

    def __str__(self) -> str:
        """Return the text for reports."""
        return "the SELECT"


class _NotOneSelect(Exception):
    """The text is not one SELECT; `offset` is the character at which that shows."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(what, offset)
        self.what = what
        self.offset = offset


def read_select(parts: SqlFile, remedy: str) -> Select:
    """Return the one SELECT that a file's body is.

    Args:
        parts: the file.
        remedy: what to write, for the error.

    Raises:
        DefinitionError: there is no statement, more than one, or it does not start like a query.
    """
    text = parts.body
    try:
        return Select(_single_select(text))
    except _NotOneSelect as error:
        line = text.count("\n", 0, error.offset) + 1
        column = error.offset - text.rfind("\n", 0, error.offset)
        raise error_in(parts.header.file, error.what, remedy, line, column) from None


def _single_select(text: str) -> str:
    """Return the text up to the semicolon that ends its one SELECT, or to its end."""
    bare = _OPAQUE_OR_END.sub(_without_comment, text)
    first = re.search(r"\S", bare)
    if first is None:
        raise _NotOneSelect("there is no SELECT", len(text.rstrip()))
    if not re.compile(r"(SELECT|WITH)\b", re.IGNORECASE).match(bare, first.start()):
        word = bare[first.start() :].split()[0]
        raise _NotOneSelect(f"the SQL starts with {word!r}", first.start())
    ends = [part.start() for part in _OPAQUE_OR_END.finditer(text) if part.group() == ";"]
    if not ends:
        return text
    second = re.compile(r"[^\s;]").search(bare, ends[0])
    if second is not None:
        raise _NotOneSelect("there is more than one statement", second.start())
    return text[: ends[0]]


def _without_comment(part: re.Match[str]) -> str:
    """Return blanks of the length of a comment, so that every offset stays what it was."""
    is_comment = part.group().startswith(("--", "/*"))
    return re.sub(r"[^\n]", " ", part.group()) if is_comment else part.group()
