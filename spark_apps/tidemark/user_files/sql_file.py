"""A user's SQL file: a comment that holds a header in YAML, then SQL.

The marks are those of Test262, `/*---` and `---*/`: formatters leave a block comment unchanged, and
the YAML in the comment is written as in a separate file. Every scalar is a text until a form sets
its type, so that `no`, `off`, `1e3` or a date mean what they look like.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tidemark.user_files.header import Header, error_in, utf8_text
from tidemark.user_files.yaml_text import mapping_of

FORM = "begin the file with `/*---`, the header as YAML, and `---*/`, each mark in its own line"
EMPTY = ("the front matter has no keys", "add `name: ...`")
_FRONT_MATTER = re.compile(
    r"\s*/\*[ \t]*---[ \t]*\r?\n(.*?)^---[ \t]*\*/", re.DOTALL | re.MULTILINE
)
_OPENED = re.compile(r"\s*/\*[ \t]*---")


@dataclass(frozen=True)
class SqlFile:
    """A SQL file, taken apart.

    Attributes:
        header: front matter of the file.
        body: SQL after the front matter, padded with empty lines to its line in the file, so that a
            place that Spark names is the place in the file.
    """

    header: Header
    body: str


def read_sql_file(file: Path) -> SqlFile:
    """Read a file and separate its front matter from its SQL.

    Raises:
        DefinitionError: the front matter is missing, is not YAML, or uses more of YAML than a
            header needs; the message names file, line, column and remedy.
    """
    text = utf8_text(file)
    front_matter = _FRONT_MATTER.match(text)
    if front_matter is None:
        line = len(text) - len(text.lstrip())
        what = (
            "the front matter does not end" if _OPENED.match(text) else "there is no front matter"
        )
        raise error_in(file, what, FORM, text.count("\n", 0, line) + 1, 1)
    padded = "\n" * text.count("\n", 0, front_matter.start(1)) + front_matter[1]
    body = "\n" * text.count("\n", 0, front_matter.end()) + text[front_matter.end() :]
    return SqlFile(Header(file, mapping_of(file, padded, EMPTY)), body)
