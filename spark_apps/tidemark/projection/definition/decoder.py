"""The header `decoder:` of a definition: which payloads are read how. Nothing here needs Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from tidemark.errors import DefinitionError
from tidemark.headed_files.sql_file import Value, error_in
from tidemark.projection.definition import tokens
from tidemark.projection.definition.tokens import UnclosedQuote, Word
from tidemark.settings import REPOSITORY

MODULES_DIR = REPOSITORY / "include" / "projections"
"""Where the modules of `python` rules are that do not lie beside their definition."""
FORM = "write `[serializer id[/manifest]] kind [argument]`, with commas between the rules"
_INT32 = range(-(2**31), 2**31)


class Kind(StrEnum):
    """What a rule does with the payloads that it takes."""

    JSON = "json"
    JACKSON_JSON = "jackson-json"
    JACKSON_CBOR = "jackson-cbor"
    STRING = "string"
    BYTES = "bytes"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    PYTHON = "python"
    SKIP = "skip"
    FAIL = "fail"


_USAGE = {
    Kind.STRING: ("string [field]", range(2)),
    Kind.BYTES: ("bytes [field]", range(2)),
    Kind.AVRO: ("avro schema.avsc", range(1, 2)),
    Kind.PROTOBUF: ("protobuf descriptors.desc package.Message", range(2, 3)),
    Kind.PYTHON: ("python module:function", range(1, 2)),
}
"""How a kind is written, and how many arguments it may have; the others have none."""
_PYTHON = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)", re.ASCII)


@dataclass(frozen=True)
class DecoderRule:
    """One rule.

    Attributes:
        serializer_id: of the events that it takes; None takes those of every serializer.
        manifest: the serializer's manifest of the events that it takes; None takes every one.
        kind: how their payloads are read.
        arguments: what the kind needs to know.
        file: the definition that has the rule.
        line: of its first character in that file, from 1.
        column: of its first character, from 1.
    """

    serializer_id: int | None
    manifest: str | None
    kind: Kind
    arguments: tuple[str, ...]
    file: Path
    line: int
    column: int

    @property
    def path(self) -> Path | None:
        """The file that it reads by: a schema, or the Python module; None if it needs none."""
        if self.kind in (Kind.AVRO, Kind.PROTOBUF):
            return self.file.parent / self.arguments[0]
        if self.kind is not Kind.PYTHON:
            return None
        module = self.function[0].replace(".", "/")
        candidates = [
            directory / name
            for directory in (self.file.parent, MODULES_DIR)
            for name in (f"{module}.py", f"{module}/__init__.py")
        ]
        return next((path for path in candidates if path.is_file()), candidates[0])

    @property
    def function(self) -> tuple[str, str]:
        """Module and function of a `python` rule."""
        module, _, name = self.arguments[0].partition(":")
        return module, name

    def takes_all_of(self, other: DecoderRule) -> bool:
        """Whether it leaves nothing for a rule after it."""
        if self.serializer_id is None:
            return True
        same_id = self.serializer_id == other.serializer_id
        return same_id and self.manifest in (None, other.manifest)

    def error(self, what: str, do: str) -> DefinitionError:
        """An error at the place of this rule."""
        return error_in(self.file, what, do, self.line, self.column)


def parse(file: Path, value: Value) -> tuple[DecoderRule, ...]:
    """The rules of a header in their order; the first that takes an event reads it.

    Raises:
        DefinitionError: naming line, column and what would be right; a file that a rule names
            does not exist.
    """
    header = _Header(file, value)
    rules: list[DecoderRule] = []
    for offset, group in header.groups():
        rule = header.rule(offset, group)
        for earlier in rules:
            if earlier.takes_all_of(rule):
                raise rule.error(
                    f"no event reaches this rule: that of {earlier.line}:{earlier.column}"
                    " takes them all",
                    "put the narrower rule first, or drop one",
                )
        if rule.path is not None and not rule.path.is_file():
            raise _missing(rule, rule.path)
        rules.append(rule)
    return tuple(rules)


def is_plain_json(rules: Sequence[DecoderRule]) -> bool:
    """Whether every event, whatever its serializer, is read as JSON."""
    return rules[0].kind is Kind.JSON and rules[0].serializer_id is None


def _missing(rule: DecoderRule, path: Path) -> DefinitionError:
    if rule.kind is Kind.PYTHON:
        remedy = f"put the module beside the definition or into {MODULES_DIR}"
        return rule.error(f"there is no module {rule.function[0]}", remedy)
    return rule.error(f"there is no file {path}", "name it relative to the definition's own file")


@dataclass(frozen=True)
class _Header:
    file: Path
    value: Value

    def refuse(self, offset: int, what: str, do: str) -> NoReturn:
        raise error_in(self.file, what, do, *tokens.place(self.value, offset))

    def groups(self) -> Iterator[tuple[int, list[Word]]]:
        """The words of each rule, with the offset at which it starts, or should."""
        try:
            yield from tokens.groups(self.value.text)
        except UnclosedQuote as error:
            self.refuse(error.offset, "a quote is not closed", "close it with '")

    def rule(self, offset: int, group: list[Word]) -> DecoderRule:
        if not group:
            self.refuse(offset, "a rule is empty", FORM)
        has_selector = re.match(r"-?\d", group[0].text)
        serializer_id, manifest = self._selector(group[0]) if has_selector else (None, None)
        rest = group[1:] if has_selector else group
        if not rest:
            self.refuse(offset, f"the rule for {group[0].text} names no decoder", FORM)
        kind = self._kind(rest[0])
        arguments = tuple(word.unquoted for word in rest[1:])
        self._require_arguments(kind, arguments, rest[0].offset)
        line, column = tokens.place(self.value, offset)
        return DecoderRule(serializer_id, manifest, kind, arguments, self.file, line, column)

    def _selector(self, word: Word) -> tuple[int, str | None]:
        number, slash, _ = word.text.partition("/")
        manifest = Word(word.text[len(number) + 1 :], word.offset)
        if not re.fullmatch(r"-?\d{1,10}", number, re.ASCII) or int(number) not in _INT32:
            remedy = f"write a whole number from {_INT32.start} to {_INT32.stop - 1}"
            self.refuse(word.offset, f"the serializer id {number!r} cannot be used", remedy)
        if slash and not manifest.text:
            remedy = f"leave out the /, or write {number}/'' for events without a manifest"
            self.refuse(word.offset, f"the manifest after {number}/ is missing", remedy)
        return int(number), manifest.unquoted if slash else None

    def _kind(self, word: Word) -> Kind:
        if word.text not in list(Kind):
            what = f"unknown decoder {word.text!r}"
            self.refuse(word.offset, what, f"known are {', '.join(Kind)}")
        return Kind(word.text)

    def _require_arguments(self, kind: Kind, arguments: tuple[str, ...], offset: int) -> None:
        usage, counts = _USAGE.get(kind, (str(kind), range(1)))
        if len(arguments) not in counts:
            given = " ".join(arguments) or "nothing"
            self.refuse(offset, f"{kind} cannot be used with {given}", f"write `{usage}`")
        if kind is Kind.PYTHON and not _PYTHON.fullmatch(arguments[0]):
            what = f"{arguments[0]!r} does not name a function"
            self.refuse(offset, what, f"write `{usage}`")
