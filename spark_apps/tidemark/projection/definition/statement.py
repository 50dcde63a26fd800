"""One SELECT in a text: where it ends, and that nothing else follows it.

Only quotes and comments are understood here, since a semicolon may stand in them; all else is for
Spark's own parser.
"""

from __future__ import annotations

import re

_OPAQUE_OR_END = re.compile(
    r"""'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*` | --[^\n]* | /\*.*?\*/ | ;""",
    re.VERBOSE | re.DOTALL,
)


class StatementError(Exception):
    """The text is not one SELECT; `offset` is the character at which that shows."""

    def __init__(self, what: str, offset: int) -> None:
        """Store the message and its place."""
        super().__init__(what, offset)
        self.what = what
        self.offset = offset


def single_select(text: str) -> str:
    """Return the text up to the semicolon that ends its one SELECT, or to its end.

    Raises:
        StatementError: there is no statement, more than one, or it does not start like a query.
    """
    bare = _OPAQUE_OR_END.sub(_without_comment, text)
    first = re.search(r"\S", bare)
    if first is None:
        raise StatementError("there is no SELECT", len(text.rstrip()))
    if not re.compile(r"(SELECT|WITH)\b", re.IGNORECASE).match(bare, first.start()):
        word = bare[first.start() :].split()[0]
        raise StatementError(f"the SQL starts with {word!r}", first.start())
    ends = [part.start() for part in _OPAQUE_OR_END.finditer(text) if part.group() == ";"]
    if not ends:
        return text
    second = re.compile(r"[^\s;]").search(bare, ends[0])
    if second is not None:
        raise StatementError("there is more than one statement", second.start())
    return text[: ends[0]]


def _without_comment(part: re.Match[str]) -> str:
    """Return blanks of the length of a comment, so that every offset stays what it was."""
    is_comment = part.group().startswith(("--", "/*"))
    return re.sub(r"[^\n]", " ", part.group()) if is_comment else part.group()
