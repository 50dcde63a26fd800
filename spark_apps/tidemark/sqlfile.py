"""A SQL file of the user's: a header of `-- key: value` lines, then SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidemark.errors import DefinitionError

_HEADER = re.compile(r"--\s(\w+):(.*)")
_CONTINUED = re.compile(r"--(\s{2,}\S.*)")


@dataclass(frozen=True)
class Value:
    """The text of one header and the line it starts in."""

    text: str
    line: int


@dataclass(frozen=True)
class SqlFile:
    """A file, taken apart.

    Attributes:
        file: where it is.
        text: all of it.
        header: the values by key, padded with blanks to their column in the file.
        given: the keys that are in the file; the others have their defaults.
        body: what follows, padded with empty lines to its line in the file, so that a place that
            Spark names is the place in the file.
    """

    file: Path
    text: str
    header: Mapping[str, Value]
    given: frozenset[str]
    body: str

    def padded(self, key: str) -> str:
        """A header's text with as many line ends before it as it has lines above it."""
        return "\n" * (self.header[key].line - 1) + self.header[key].text

    def without(self, keys: Sequence[str]) -> str:
        """The file's text without the lines of those headers."""
        lines = self.text.splitlines(keepends=True)
        for value in (self.header[key] for key in keys if key in self.given):
            first = value.line - 1
            end = first + value.text.count("\n") + 1
            lines[first:end] = [""] * (end - first)
        return "".join(lines)


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
    try:
        text = file.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise error_in(file, "the file is not UTF-8", "save it as UTF-8", 1) from None
    lines = text.splitlines()
    end = next(
        (number for number, line in enumerate(lines) if not line.startswith("--")), len(lines)
    )
    body = "\n" * end + "\n".join(lines[end:])
    values = _header(file, lines[:end], {**examples, **(defaults or {})})
    given = frozenset(values)
    header = _complete(file, values, max(end, 1), examples, defaults or {})
    return SqlFile(file, text, header, given, body)


def error_in(
    file: Path, what: str, do: str, line: int, column: int | None = None
) -> DefinitionError:
    """An error at a line, and column if it is known, of a file; both count from 1."""
    place = f"{file}:{line}" if column is None else f"{file}:{line}:{column}"
    return DefinitionError(what, where=place, do=do)


def _header(file: Path, lines: list[str], known: Mapping[str, str]) -> dict[str, Value]:
    """The values that the file gives."""
    values: dict[str, Value] = {}
    key = ""
    for number, line in enumerate(lines, start=1):
        if match := _HEADER.fullmatch(line):
            key = match.group(1)
            _require_new(file, key, number, values, known)
            values[key] = Value(" " * match.start(2) + match.group(2), number)
        elif key and (match := _CONTINUED.fullmatch(line)):
            values[key] = Value(f"{values[key].text}\n  {match.group(1)}", values[key].line)
        else:
            remedy = "write `-- key: value`; comments belong below the first line without --"
            raise error_in(file, f"not a header: {line!r}", remedy, number)
    return values


def _complete(
    file: Path,
    given: Mapping[str, Value],
    last: int,
    examples: Mapping[str, str],
    defaults: Mapping[str, str],
) -> Mapping[str, Value]:
    """Those values and the defaults; `last` is the line that stands for what is not given."""
    values = {key: Value(text, last) for key, text in defaults.items()} | dict(given)
    for key, example in {**examples, **defaults}.items():
        if key not in values or not values[key].text.strip():
            line_number = values[key].line if key in values else last
            what = f"the header {key} is {'empty' if key in values else 'missing'}"
            raise error_in(file, what, f"add a line such as `-- {key}: {example}`", line_number)
    return values


def _require_new(
    file: Path, key: str, line: int, values: Mapping[str, Value], known: Mapping[str, str]
) -> None:
    if key not in known:
        raise error_in(file, f"unknown header {key}", f"known are {', '.join(known)}", line)
    if key in values:
        raise error_in(
            file, f"the header {key} is given twice", f"keep one, line {values[key].line}", line
        )
