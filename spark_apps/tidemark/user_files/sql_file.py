"""Reads a user's SQL file: a comment that holds a header in YAML, then SQL.

The marks `/*---` and `---*/` are those of Test262: formatters leave a block comment unchanged, and
the YAML in the comment is written as in a separate file. Every scalar is a text until a form sets
its type, so that YAML does not change the meaning of `no`, `off`, `1e3` or a date.
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
    """The parts of a SQL file.

    Attributes:
        header: front matter of the file.
        body: SQL after as many empty lines as it has lines above it in the file, so that lines in
            Spark's errors are lines of the file.
    """

    header: Header
    body: str


def read_sql_file(file: Path) -> SqlFile:
    """Read a file and separate its front matter from its SQL.

    Raises:
        DefinitionError: the front matter is missing, is not YAML, or uses more of YAML than a
            header needs.
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
