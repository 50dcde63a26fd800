"""A SQL file of the user's: a header of `-- key: value` lines, then SQL.

What holds for a header wherever it is written is here too; `python_file` shares it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidemark.errors import DefinitionError

_HEADER = re.compile(r"--\s([\w-]+):(.*)")
_CONTINUED = re.compile(r"--(\s{2,}\S.*)")


@dataclass(frozen=True)
class Value:
    """The text of one header and the line it starts in."""

    text: str
    line: int


@dataclass(frozen=True)
class Headed:
    """A file with a header.

    Attributes:
        file: where it is.
        text: all of it.
        header: the values by key, padded with blanks to their column in the file.
        lines: those, from 1, that have nothing but that header; of the keys that are in the file.
    """

    file: Path
    text: str
    header: Mapping[str, Value]
    lines: Mapping[str, range]

    def padded(self, key: str) -> str:
        """A header's text with as many line ends before it as it has lines above it."""
        return "\n" * (self.header[key].line - 1) + self.header[key].text

    def without(self, keys: Sequence[str]) -> str:
        """The file's text without the lines of those headers."""
        gone = {line for key in keys for line in self.lines.get(key, ())}
        lines = self.text.splitlines(keepends=True)
        return "".join(line for number, line in enumerate(lines, 1) if number not in gone)


@dataclass(frozen=True)
class SqlFile(Headed):
    """A SQL file, taken apart.

    Attributes:
        body: what follows the header, padded with empty lines to its line in the file, so that a
            place that Spark names is the place in the file.
    """

    body: str


class Header:
    """The values of one header, as they are found."""

    noun = "header"
    """What one of them is called."""

    def __init__(
        self, file: Path, examples: Mapping[str, str], defaults: Mapping[str, str]
    ) -> None:
        """Expect all keys of `examples`, and perhaps some of `defaults`."""
        self.file, self._examples, self._defaults = file, examples, defaults
        self.values: dict[str, Value] = {}

    def spelled(self, key: str) -> str:
        """A key as it is written in this kind of file."""
        return key

    def line_for(self, key: str, example: str) -> str:
        """What to write, for an error."""
        return f"add a line such as `-- {key}: {example}`"

    def add(self, key: str, value: Value) -> None:
        """Take a value.

        Raises:
            DefinitionError: the key is unknown, or was there before.
        """
        name, known = self.spelled(key), {**self._examples, **self._defaults}
        if key not in known:
            remedy = f"known are {', '.join(map(self.spelled, known))}"
            raise error_in(self.file, f"unknown {self.noun} {name}", remedy, value.line)
        if key in self.values:
            remedy = f"keep one, line {self.values[key].line}"
            what = f"the {self.noun} {name} is given twice"
            raise error_in(self.file, what, remedy, value.line)
        self.values[key] = value

    def complete(self, line: int) -> Mapping[str, Value]:
        """All values; what is left out has its default, at `line`.

        Raises:
            DefinitionError: a key is missing or empty.
        """
        left_out = {key: text for key, text in self._defaults.items() if key not in self.values}
        values = self.values | {key: Value(text, line) for key, text in left_out.items()}
        for key, example in {**self._examples, **self._defaults}.items():
            if key not in values or not values[key].text.strip():
                found = values[key].line if key in values else line
                is_what = "empty" if key in values else "missing"
                what = f"the {self.noun} {self.spelled(key)} is {is_what}"
                raise error_in(self.file, what, self.line_for(key, example), found)
        return values


def read_sql_file(
    file: Path, examples: Mapping[str, str], defaults: Mapping[str, str] | None = None
) -> SqlFile:
    """Read a file whose header has all keys of `examples`, and perhaps some of `defaults`.

    Args:
        file: what to read.
        examples: the keys that it must have, each with what it may look like.
        defaults: the keys that it may have, each with the value it has when it is left out.

    Raises:
        DefinitionError: naming the file, the line and what would be right.
    """
    text = utf8_text(file)
    lines = text.splitlines()
    end = next(
        (number for number, line in enumerate(lines) if not line.startswith("--")), len(lines)
    )
    body = "\n" * end + "\n".join(lines[end:])
    header = Header(file, examples, defaults or {})
    values = _header(header, lines[:end])
    given = {
        key: range(value.line, value.line + value.text.count("\n") + 1)
        for key, value in header.values.items()
    }
    return SqlFile(file, text, values, given, body)


def utf8_text(file: Path) -> str:
    """The text of a file.

    Raises:
        DefinitionError: it is not UTF-8.
    """
    try:
        return file.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise error_in(file, "the file is not UTF-8", "save it as UTF-8", 1) from None


def error_in(
    file: Path, what: str, do: str, line: int, column: int | None = None
) -> DefinitionError:
    """An error at a line, and column if it is known, of a file; both count from 1."""
    place = f"{file}:{line}" if column is None else f"{file}:{line}:{column}"
    return DefinitionError(what, where=place, do=do)


def _header(header: Header, lines: list[str]) -> Mapping[str, Value]:
    key = ""
    for number, line in enumerate(lines, start=1):
        if match := _HEADER.fullmatch(line):
            key = match.group(1)
            header.add(key, Value(" " * match.start(2) + match.group(2), number))
        elif key and (match := _CONTINUED.fullmatch(line)):
            before = header.values[key]
            header.values[key] = Value(f"{before.text}\n  {match.group(1)}", before.line)
        else:
            remedy = "write `-- key: value`; comments belong below the first line without --"
            raise error_in(header.file, f"not a header: {line!r}", remedy, number)
    return header.complete(max(len(lines), 1))
