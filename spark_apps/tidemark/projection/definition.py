"""A projection as its file defines it: a header of `-- key: value` lines, then one SELECT.

Nothing here needs Spark: `tidemark.projection.analysis` checks the SQL and the event's fields.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from tidemark.cassandra.schema import identifier
from tidemark.errors import DefinitionError, InvalidInput
from tidemark.projection import checks
from tidemark.projection.checks import Check
from tidemark.projection.decoding.rules import Rule, parse
from tidemark.projection.statement import StatementError, single_select
from tidemark.sqlfile import Value, error_in, read_sql_file

MESSAGES_SOURCE = "messages"
MAX_VERSION = 999
"""Three decimal digits: `transform.newest` keeps the version in the write timestamp."""


_HEADERS = {
    "name": "daily_punctuality",
    "version": "1",
    "source": "messages",
    "mode": "bucket",
    "target": "flights.daily_punctuality",
    "event": "kind STRING, dep_delay INT",
}
"""The headers that every file has, with what they may look like."""
_DEFAULTS = {"decoder": "json", "checks": checks.NONE, "release": "in-place"}
"""The headers that may be left out, with the value that they have then."""
_BESIDE = ("checks", "release")
"""The headers that do not change the result."""


class Mode(StrEnum):
    """How a result goes into its target."""

    BUCKET = "bucket"
    UPSERT = "upsert"
    APPEND = "append"
    EXPORT = "export"

    @property
    def is_versioned(self) -> bool:
        """Whether the version decides between two rows of one key, in their write timestamps."""
        return self in {Mode.UPSERT, Mode.APPEND}

    @property
    def replaces_buckets(self) -> bool:
        """Whether what a time bucket had before goes when it is processed again."""
        return self in {Mode.BUCKET, Mode.EXPORT}


class Release(StrEnum):
    """Where a new version of a projection is written."""

    IN_PLACE = "in-place"
    BLUE_GREEN = "blue-green"


@dataclass(frozen=True)
class Definition:
    """One projection.

    Attributes:
        file: where it is defined.
        name: unique among the files.
        version: 1..999, raised by the author when the result changes its meaning.
        tags: the tags to read; None reads `messages`.
        mode: how the result is stored.
        keyspace: of the target; empty in mode export.
        table: of the target; empty in mode export. A blue/green version has its own.
        template: the table as the file names it; the same unless the release is blue/green.
        is_blue_green: whether each version has a table, a ledger and offsets of its own.
        path: the target's directory as the file has it, in mode export; empty otherwise.
        event: Spark DDL of the payload's fields, padded to its place in the file.
        decoders: how payloads are read; the first rule that takes an event does it.
        checks: what must be true of the result.
        body: the SELECT, padded to its place in the file, without a semicolon at its end.
        fingerprint: `<version>-<hash>` of the file, without what does not change the result, and
            of the files that its decoders name; the ledger keeps it with each piece.
        header_lines: the line of each header.
    """

    file: Path
    name: str
    version: int
    tags: tuple[str, ...] | None
    mode: Mode
    keyspace: str
    table: str
    template: str
    is_blue_green: bool
    path: str
    event: str
    decoders: tuple[Rule, ...]
    checks: tuple[Check, ...]
    body: str
    fingerprint: str
    header_lines: Mapping[str, int]

    @property
    def target(self) -> str:
        """`keyspace.table` or the directory, for people."""
        return self.path or f"{self.keyspace}.{self.table}"

    @property
    def template_target(self) -> str:
        """`keyspace.table` as the file names it."""
        return f"{self.keyspace}.{self.template}"

    @property
    def body_line(self) -> int:
        """The line of the file in which the SQL starts."""
        return self.body.count("\n", 0, len(self.body) - len(self.body.lstrip())) + 1

    def error(self, what: str, do: str, line: int, column: int | None = None) -> DefinitionError:
        """An error at a line, and column if it is known, of this file; both count from 1."""
        return error_in(self.file, what, do, line, column)

    def subject(self, journal_keyspace: str) -> str:
        """Its name in the ledger and in the offsets: it consumes one journal."""
        version = f"@v{self.version}" if self.is_blue_green else ""
        return f"{self.identity(journal_keyspace)}{version}"

    def identity(self, journal_keyspace: str) -> str:
        """The same whatever the version."""
        return f"{journal_keyspace}/{self.name}"


def read(file: Path) -> Definition:
    """The definition in one file.

    Raises:
        DefinitionError: naming the file, the line and what would be right.
    """
    parts = read_sql_file(file, _HEADERS, _DEFAULTS)
    values = parts.header
    version = _version(file, values["version"])
    mode = _mode(file, values["mode"])
    keyspace, template, path = _target(file, values["target"], mode)
    is_blue_green = _release(file, values["release"], mode) is Release.BLUE_GREEN
    table = f"{template}_v{version}" if is_blue_green else template
    decoders = parse(file, values["decoder"])
    return Definition(
        file=file,
        name=_name(file, values["name"].text.strip(), values["name"].line, "name"),
        version=version,
        tags=_tags(file, values["source"]),
        mode=mode,
        keyspace=keyspace,
        table=_name(file, table, values["target"].line, "target's table") if table else "",
        template=template,
        is_blue_green=is_blue_green,
        path=path,
        event=parts.padded("event"),
        decoders=decoders,
        checks=checks.parse(file, values["checks"]),
        body=_body(file, parts.body),
        fingerprint=f"{version}-{_hash(parts.without(_BESIDE), decoders)}",
        header_lines={key: value.line for key, value in values.items()},
    )


def _hash(text: str, decoders: Sequence[Rule]) -> str:
    whole = hashlib.sha256(text.encode())
    for rule in decoders:
        if rule.path is not None:
            whole.update(rule.path.read_bytes())
    return whole.hexdigest()[:12]


def _name(file: Path, text: str, line: int, what: str) -> str:
    try:
        identifier(text)
    except InvalidInput as error:
        raise error_in(file, f"the {what} {text!r} is not an identifier", error.do, line) from None
    return text


def _version(file: Path, value: Value) -> int:
    text = value.text.strip()
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_VERSION):
        remedy = f"write a whole number from 1 to {MAX_VERSION}"
        raise error_in(file, f"the version {text!r} cannot be used", remedy, value.line)
    return int(text)


def _tags(file: Path, value: Value) -> tuple[str, ...] | None:
    kind, _, rest = value.text.strip().partition(" ")
    if kind == MESSAGES_SOURCE and not rest:
        return None
    tags = tuple(part.strip() for part in rest.split(","))
    if kind != "tags" or not all(tags) or len(set(tags)) < len(tags):
        raise error_in(
            file,
            f"the source {value.text.strip()!r} cannot be used",
            "write `messages`, or `tags` and different tags with commas between them",
            value.line,
        )
    return tags


def _mode(file: Path, value: Value) -> Mode:
    text = value.text.strip()
    if text not in list(Mode):
        raise error_in(file, f"unknown mode {text!r}", f"known are {', '.join(Mode)}", value.line)
    return Mode(text)


def _release(file: Path, value: Value, mode: Mode) -> Release:
    text = value.text.strip()
    if text not in list(Release):
        known = f"known are {', '.join(Release)}"
        raise error_in(file, f"unknown release {text!r}", known, value.line)
    if text == Release.BLUE_GREEN and mode is Mode.EXPORT:
        remedy = "write the new version to another directory by another definition"
        raise error_in(file, "mode export is not released blue/green", remedy, value.line)
    return Release(text)


def _target(file: Path, value: Value, mode: Mode) -> tuple[str, str, str]:
    """Keyspace, table and path; what the mode does not have is empty."""
    text = value.text.strip()
    if mode is Mode.EXPORT:
        return "", "", _directory(file, text, value.line)
    keyspace, dot, table = text.partition(".")
    if not dot:
        what = f"the target {keyspace!r} has no keyspace"
        raise error_in(file, what, "write `keyspace.table`", value.line)
    return (
        _name(file, keyspace, value.line, "target's keyspace"),
        _name(file, table, value.line, "target's table"),
        "",
    )


def _directory(file: Path, text: str, line: int) -> str:
    if "@" in text and urlsplit(text).password is not None:
        # Not repeated: the error is logged.
        remedy = "leave user and password to Spark's own settings, and replace them"
        raise error_in(file, "the target has a password in it", remedy, line)
    if not text.isprintable() or ".." in text.split("/"):
        remedy = "write a directory, or a URI such as `hdfs://name/directory`, in one line"
        raise error_in(file, f"the target {text!r} is not a directory's name", remedy, line)
    return text


def _body(file: Path, text: str) -> str:
    try:
        return single_select(text)
    except StatementError as error:
        line = text.count("\n", 0, error.offset) + 1
        column = error.offset - text.rfind("\n", 0, error.offset)
        remedy = "write one SELECT over the table events"
        raise error_in(file, error.what, remedy, line, column) from None
