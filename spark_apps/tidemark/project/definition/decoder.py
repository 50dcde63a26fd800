"""Rules that choose how payloads are decoded. This module does not need Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tidemark.errors import DefinitionError
from tidemark.installation import users_files
from tidemark.user_files.header import error_in

MODULES_DIR = users_files("projections")
"""Modules of `python` rules that are not in their definition's directory."""


class DecoderKind(StrEnum):
    """How a rule decodes payloads."""

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


@dataclass(frozen=True)
class DecoderRule:
    """A rule that selects events and says how to decode their payloads.

    Attributes:
        serializer_id: serializer id of the events; None for all serializers.
        manifest: serializer's manifest of the events; None for all manifests.
        kind: how payloads are decoded.
        arguments: arguments of the kind, such as the path of a schema.
        file: definition that has the rule.
        line: line of the rule's start in that file, from 1.
        column: column of the rule's start, from 1.
    """

    serializer_id: int | None
    manifest: str | None
    kind: DecoderKind
    arguments: tuple[str, ...]
    file: Path
    line: int
    column: int

    @property
    def path(self) -> Path | None:
        """The schema or Python module that the rule needs; None if it needs no file."""
        if self.kind in (DecoderKind.AVRO, DecoderKind.PROTOBUF):
            return self.file.parent / self.arguments[0]
        if self.kind is not DecoderKind.PYTHON:
            return None
        module = self.function[0].replace(".", "/")
        candidates = [
            directory / name
            for directory in (self.file.parent, MODULES_DIR)
            for name in (f"{module}.py", f"{module}/__init__.py")
        ]
        return next((path for path in candidates if path.is_file()), candidates[0])

    @property
    def modules_dir(self) -> Path:
        """The directory from which the module of a `python` rule is imported."""
        assert self.path is not None  # noqa: S101 - the kind has a file
        module, _ = self.function
        return self.path.parents[module.count(".") + (self.path.name == "__init__.py")]

    @property
    def function(self) -> tuple[str, str]:
        """The module and the function of a `python` rule."""
        module, _, name = self.arguments[0].partition(":")
        return module, name

    def takes_all_of(self, other: DecoderRule) -> bool:
        """Return whether this rule selects every event that `other` selects."""
        matches_id = self.serializer_id in (None, other.serializer_id)
        return matches_id and self.manifest in (None, other.manifest)

    def error(self, what: str, do: str) -> DefinitionError:
        """Return an error at the place of this rule."""
        return error_in(self.file, what, do, self.line, self.column)


def is_plain_json(rules: Sequence[DecoderRule]) -> bool:
    """Tell whether the events of all serializers are decoded as JSON."""
    first = rules[0]
    return first.kind is DecoderKind.JSON and first.serializer_id is None and first.manifest is None
