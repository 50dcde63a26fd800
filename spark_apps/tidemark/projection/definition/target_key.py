"""The header `key`: what a definition says of its target. It is only checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidemark.cassandra.schema import identifier
from tidemark.errors import InvalidInput
from tidemark.headed_files.sql_file import Value, error_in
from tidemark.projection.definition import tokens
from tidemark.projection.definition.tokens import UnclosedQuote, Word

NO_KEY = "by the table"
"""The value of the header key of a definition that leaves it to the table."""
_FORM = "write the columns of the table's primary key in order, with commas between them"


@dataclass(frozen=True)
class Key:
    """The primary key that a definition expects of its table.

    Attributes:
        columns: partition key and clustering columns, in order.
        places: line and column, both from 1, of each of them.
    """

    columns: tuple[str, ...]
    places: tuple[tuple[int, int], ...]

    def difference(self, actual: Sequence[str]) -> tuple[int, int]:
        """The place of the first column that the real key does not have there."""
        pairs = enumerate(zip(self.columns, actual, strict=False))
        first = next((number for number, (one, other) in pairs if one != other), len(actual))
        return self.places[min(first, len(self.places) - 1)]


def parse_key(file: Path, value: Value, *, has_table: bool) -> Key | None:
    """The key of a header; None if it names none.

    Args:
        file: the definition.
        value: the header's.
        has_table: whether the mode writes to a table.

    Raises:
        DefinitionError: naming line and column and what would be right.
    """
    if value.text.strip() == NO_KEY:
        return None
    if not has_table:
        place = tokens.place(value, len(value.text) - len(value.text.lstrip()))
        raise error_in(file, "mode export writes files, which have no key", "leave it out", *place)
    found = list(_columns(file, value))
    columns = [word.text for word in found]
    for number, word in enumerate(found):
        if word.text in columns[:number]:
            raise _refused(file, value, word.offset, f"the key has {word.text} twice")
    return Key(tuple(columns), tuple(tokens.place(value, word.offset) for word in found))


def _columns(file: Path, value: Value) -> Iterator[Word]:
    try:
        for offset, group in tokens.groups(value.text):
            if len(group) != 1:
                raise _refused(file, value, offset, "the key cannot be read")
            try:
                identifier(group[0].text)
            except InvalidInput:
                what = f"the key's {group[0].text!r} is not the name of a column"
                raise _refused(file, value, offset, what) from None
            yield group[0]
    except UnclosedQuote as error:
        raise _refused(file, value, error.offset, "the key has a quote in it") from None


def _refused(file: Path, value: Value, offset: int, what: str) -> Exception:
    return error_in(file, what, _FORM, *tokens.place(value, offset))
