"""Which payloads are read how. Nothing here needs Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tidemark.errors import DefinitionError
from tidemark.headed_files.header import error_in
from tidemark.installation import users_files

MODULES_DIR = users_files("projections")
"""Where the modules of `python` rules are that do not lie beside their definition."""


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


@dataclass(frozen=True)
class DecoderRule:
    """One rule.

    Attributes:
        serializer_id: of the events that it takes; None for events of every serializer.
        manifest: the serializer's manifest of the events that it takes; None for every manifest.
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
    def modules_dir(self) -> Path:
        """The directory that the module of a `python` rule is imported from."""
        assert self.path is not None  # noqa: S101 - the kind has a file
        module, _ = self.function
        return self.path.parents[module.count(".") + (self.path.name == "__init__.py")]

    @property
    def function(self) -> tuple[str, str]:
        """Module and function of a `python` rule."""
        module, _, name = self.arguments[0].partition(":")
        return module, name

    def takes_all_of(self, other: DecoderRule) -> bool:
        """Return whether the rule leaves nothing for a rule after it."""
        takes_id = self.serializer_id in (None, other.serializer_id)
        return takes_id and self.manifest in (None, other.manifest)

    def error(self, what: str, do: str) -> DefinitionError:
        """Return an error at the place of this rule."""
        return error_in(self.file, what, do, self.line, self.column)


def is_plain_json(rules: Sequence[DecoderRule]) -> bool:
    """Tell whether every event, whatever its serializer, is read as JSON."""
    first = rules[0]
    return first.kind is Kind.JSON and first.serializer_id is None and first.manifest is None
