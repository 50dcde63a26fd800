"""Parses YAML into nodes, each with its place; every scalar stays a text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
)

from tidemark.user_files.header import Header, Node, Place, error_in, utf8_text

_DEPTH = 24
"""Levels of lists and mappings: a header has five, a group in the hook of another group six."""
_NULLS = ("null", "Null", "NULL", "~", "")
_NO_CHARACTER = re.compile(r"\\U(?!00(?:0|10))[0-9a-fA-F]{8}")
"""An escape with a number higher than the last character's."""


class WrittenNull(str):
    """A null of YAML or JSON as text, without quotes. Forms with nullable keys check for it."""


def mapping_of(file: Path, text: str, empty: tuple[str, str]) -> Node:
    """Return the mapping in a text.

    Args:
        file: origin of the text, for errors.
        text: YAML, padded to its place in the file.
        empty: description and remedy of the error if the text has no keys.

    Raises:
        DefinitionError: the text is not YAML, or uses more of YAML than a header needs.
    """
    return _Yaml(file, _without_tabs(text)).root(empty)


def read_yaml_file(file: Path, empty: tuple[str, str]) -> Header:
    """Read a file that has only a header; arguments and errors are those of `mapping_of`."""
    return Header(file, mapping_of(file, utf8_text(file), empty))


def _without_tabs(text: str) -> str:
    """Replace tabs by blanks in JSON, since YAML allows tabs only in texts; keep other text."""
    if "\t" not in text or not text.lstrip().startswith("{"):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    # JSON has tabs in its texts only as `\t`.
    return text.replace("\t", " ")


class _Yaml:
    """A converter from the events of PyYAML's parser to nodes."""

    def __init__(self, file: Path, text: str) -> None:
        self._file, self._text = file, text
        self._events = self._parsed()

    def _parsed(self) -> Iterator[Event]:
        try:
            yield from yaml.parse(self._text, Loader=yaml.BaseLoader)
        except yaml.MarkedYAMLError as error:
            place = _place(mark) if (mark := error.problem_mark or error.context_mark) else (1, 1)
            do = "correct it; a text with `: ` or ` #` in it, or odd characters first, needs quotes"
            raise error_in(self._file, f"not YAML: {error.problem}", do, *place) from None
        except yaml.reader.ReaderError as error:
            what = f"not YAML: the character {chr(error.character)!r}"
            place = self._place_of(error.position)
            raise error_in(self._file, what, "leave it out", *place) from None
        except (ValueError, OverflowError):
            # PyYAML does not check the numbers of characters and versions.
            out_of_range = _NO_CHARACTER.search(self._text)
            what = "not YAML: the number of a character is too large"
            place = self._place_of(out_of_range.start() if out_of_range else 0)
            raise error_in(self._file, what, "correct it", *place) from None

    def _place_of(self, position: int) -> Place:
        line = self._text.count("\n", 0, position) + 1
        return line, position - self._text.rfind("\n", 0, position)

    def root(self, empty: tuple[str, str]) -> Node:
        """Return the mapping in the text; see `mapping_of`."""
        documents = 0
        for event in self._events:
            documents += isinstance(event, DocumentStartEvent)
            if isinstance(event, NodeEvent):
                root = self._node(event, _DEPTH)
            elif documents > 1:
                raise self._error(event, "there is more than one document", "leave out the `---`")
        if not documents or not isinstance(root.value, dict):
            line = len(self._text) - len(self._text.lstrip("\n"))
            raise error_in(self._file, *empty, line, 1)
        return root

    def _node(self, event: Event, depth: int) -> Node:
        if not depth:
            raise self._error(event, "the lists go too deep", "write fewer levels")
        if isinstance(event, AliasEvent) or getattr(event, "anchor", None):
            raise self._error(event, "a header has no anchors", "write the value out")
        if tag := getattr(event, "tag", None):
            raise self._error(event, f"a header has no tags such as {tag}", "leave it out")
        place = _place(event.start_mark)
        if isinstance(event, ScalarEvent):
            event.value = self._without_surrogates(event)
            is_null = event.implicit[0] and event.value in _NULLS
            value = WrittenNull(event.value) if is_null else event.value
            return Node(value, place, padded=self._padded(event))
        if isinstance(event, MappingStartEvent):
            return self._mapping(place, depth)
        items = [self._node(item, depth - 1) for item in self._until(SequenceEndEvent)]
        return Node(items, place)

    def _without_surrogates(self, event: ScalarEvent) -> str:
        """Return a scalar with surrogate pairs joined: JSON writes some characters as pairs."""
        try:
            return str(event.value).encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            what = "half of a character, without its other half"
            raise self._error(event, what, "write the character itself") from None

    def _mapping(self, place: Place, depth: int) -> Node:
        values: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        for event in self._until(MappingEndEvent):
            if not isinstance(event, ScalarEvent):
                raise self._error(event, "a key is not a word", "write `key: value`")
            key = str(self._node(event, depth).value)
            if key in values:
                do = f"keep one, line {keys[key][0]}"
                raise self._error(event, f"the key {key} is given twice", do)
            keys[key] = _place(event.start_mark)
            values[key] = self._node(next(self._events), depth - 1)
        return Node(values, place, keys)

    def _until(self, end: type[Event]) -> Iterator[Event]:
        for event in self._events:
            if isinstance(event, end):
                return
            yield event

    def _padded(self, event: ScalarEvent) -> str:
        """Return the text padded to its place; with escapes in it, to the start of the scalar."""
        start, end = _mark(event.start_mark), _mark(event.end_mark)
        line, column, first = start.line, start.column, start.index
        if event.style in ("'", '"'):
            column, first = column + 1, first + 1
        elif event.style:
            line, column, first = line + 1, 0, self._text.find("\n", first) + 1
        raw = self._text[first : end.index - (1 if event.style in ("'", '"') else 0)]
        text = raw if raw.split() == event.value.split() else event.value
        return "\n" * line + " " * column + text

    def _error(self, event: Event, what: str, do: str) -> Exception:
        return error_in(self._file, what, do, *_place(event.start_mark))


def _place(mark: Any) -> Place:
    return _mark(mark).line + 1, _mark(mark).column + 1


def _mark(mark: Any) -> yaml.Mark:
    """Return a mark of an event, which always exists for parsed text, despite its type."""
    return cast(yaml.Mark, mark)
