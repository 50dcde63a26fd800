"""The words of a header's value: groups with commas between them, odd characters in quotes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tidemark.headed_files.sql_file import Value

_TOKEN = re.compile(r"(?P<comma>,)|(?P<word>(?:[^\s,']|'(?:[^']|'')*')+)|(?P<quote>')")
_QUOTED = re.compile(r"'((?:[^']|'')*)'")


@dataclass(frozen=True)
class Word:
    """A word as it is written, and the offset of its first character in the value."""

    text: str
    offset: int

    @property
    def unquoted(self) -> str:
        """What it means: without its quotes, and with `'` for `''` inside of them."""
        return _QUOTED.sub(lambda match: match[1].replace("''", "'"), self.text)


class UnclosedQuote(Exception):
    """A quote that is not closed, and its offset in the value."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"a quote at offset {offset} is not closed")
        self.offset = offset


def groups(text: str) -> Iterator[tuple[int, list[Word]]]:
    """The words of each group, with the offset at which it starts, or should.

    Raises:
        UnclosedQuote: a quote is not closed.
    """
    words: list[Word] = []
    for match in _TOKEN.finditer(text):
        if match["quote"]:
            raise UnclosedQuote(match.start())
        if match["word"]:
            words.append(Word(match["word"], match.start()))
            continue
        yield (words[0].offset if words else match.start()), words
        words = []
    yield (words[0].offset if words else len(text.rstrip())), words


def place(value: Value, offset: int) -> tuple[int, int]:
    """Line and column, both from 1, of an offset in a header's value."""
    text = value.text
    return (
        value.line + text.count("\n", 0, offset),
        offset - text.rfind("\n", 0, offset),
    )
