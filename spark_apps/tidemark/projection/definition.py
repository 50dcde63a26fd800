"""A projection as its file defines it: a header of `-- key: value` lines, then one SELECT.

Or, in Python, the same header as the arguments of a decorator, and the function below it. Nothing
here needs Spark, nor runs what the file has: `tidemark.projection.analysis` checks the SQL or the
function, and the event's fields.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from tidemark.cassandra.schema import identifier
from tidemark.errors import DefinitionError, InvalidInput
from tidemark.projection import body, on_error
from tidemark.projection.body import Body
from tidemark.projection.decoding.rules import Kind, Rule, parse
from tidemark.projection.on_error import OnError
from tidemark.projection.source import KafkaJournal, Messages, Source, Tags
from tidemark.projection.source import parse as parse_source
from tidemark.projection.start import Start
from tidemark.projection.start import parse as parse_start
from tidemark.pythonfile import PythonFile, read_python_file
from tidemark.sqlfile import SqlFile, Value, error_in, read_sql_file

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
RESET = "accept-sequence-number-reset-after"
_NO_STATE = "none"
_DEFAULTS = {
    "start": "first-event",
    "decoder": "json",
    "on-error": "skip",
    "state": _NO_STATE,
    RESET: "off",
}
"""The headers that may be left out, with the value that they have then."""


_DURATION = re.compile(r"(\d{1,9}) ?([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Mode(StrEnum):
    """How a result goes into its target."""

    BUCKET = "bucket"
    UPSERT = "upsert"
    FOLD = "fold"
    APPEND = "append"
    EXPORT = "export"

    @property
    def is_versioned(self) -> bool:
        """Whether the version decides between two rows of one key, in their write timestamps."""
        return self in {Mode.UPSERT, Mode.FOLD, Mode.APPEND}

    @property
    def is_one_row(self) -> bool:
        """Whether each persistence id has one row, that of its newest event."""
        return self in {Mode.UPSERT, Mode.FOLD}

    @property
    def replaces_buckets(self) -> bool:
        """Whether what a time bucket had before goes when it is processed again."""
        return self in {Mode.BUCKET, Mode.EXPORT}

    @property
    def is_by_persistence_id(self) -> bool:
        """Whether no row is made of two persistence ids' events: slices are independent."""
        return self in {Mode.UPSERT, Mode.FOLD, Mode.APPEND}


@dataclass(frozen=True)
class Definition:
    """One projection.

    Attributes:
        file: where it is defined.
        name: unique among the files.
        version: 1..999, raised by the author when the result changes its meaning.
        source: which events it reads.
        start: what a persistence id begins with.
        mode: how the result is stored.
        keyspace: of the target; empty in mode export.
        table: of the target; empty in mode export.
        path: the target's directory as the file has it, in mode export; empty otherwise.
        event: Spark DDL of the payload's fields, padded to its place in the file.
        reset_after: seconds behind the stored timestamp from which on a lower sequence nr is that
            of a persistence id that began anew; None takes it for a duplicate.
        decoders: how payloads are read; the first rule that takes an event does it.
        on_error: what becomes of an event that cannot be read or folded.
        state: of mode fold, Spark DDL of the state's fields, padded to its place in the file; empty
            otherwise.
        body: the SELECT, or the function.
        fingerprint: `<version>-<hash>` of the file and of those that its decoders name, which the
            ledger keeps with each piece.
        header_lines: the line of each header.
    """

    file: Path
    name: str
    version: int
    source: Source
    start: Start
    mode: Mode
    keyspace: str
    table: str
    path: str
    event: str
    reset_after: int | None
    decoders: tuple[Rule, ...]
    on_error: OnError
    state: str
    body: Body
    fingerprint: str
    header_lines: Mapping[str, int]

    @property
    def tags(self) -> tuple[str, ...] | None:
        """The tags whose views it reads; None if it reads none."""
        return self.source.names if isinstance(self.source, Tags) else None

    @property
    def entity_types(self) -> tuple[str, ...] | None:
        """Of the persistence ids that it reads; None for all of them."""
        return self.source.entity_types if isinstance(self.source, Messages) else None

    @property
    def starts_from_snapshots(self) -> bool:
        """Whether a persistence id begins with its newest snapshot, if it has one."""
        return self.start is Start.SNAPSHOT

    @property
    def target(self) -> str:
        """`keyspace.table` or the directory, for people."""
        return self.path or f"{self.keyspace}.{self.table}"

    def error(self, what: str, do: str, line: int, column: int | None = None) -> DefinitionError:
        """An error at a line, and column if it is known, of this file; both count from 1."""
        return error_in(self.file, what, do, line, column)

    def subject(self, journal_keyspace: str) -> str:
        """Its name in the ledger and in the offsets: it consumes one journal."""
        return f"{journal_keyspace}/{self.name}"


def read(file: Path) -> Definition:
    """The definition in one file.

    Raises:
        DefinitionError: naming the file, the line and what would be right.
    """
    parts = _taken_apart(file)
    values = parts.header
    version = _version(file, values["version"])
    mode = _mode(file, values["mode"])
    source = parse_source(file, values["source"])
    keyspace, table, path = _target(file, values["target"], mode)
    decoders = parse(file, values["decoder"])
    runs_python = mode is Mode.FOLD or any(rule.kind is Kind.PYTHON for rule in decoders)
    _require_foldable(file, values, mode, source)
    return Definition(
        file=file,
        name=_name(file, values["name"].text.strip(), values["name"].line, "name"),
        version=version,
        source=source,
        start=parse_start(file, values["start"], source, mode, is_one_row=mode.is_one_row),
        mode=mode,
        keyspace=keyspace,
        table=table,
        path=path,
        event=parts.padded("event"),
        reset_after=_reset_after(file, values[RESET], source, mode),
        decoders=decoders,
        on_error=on_error.parse(file, values["on-error"], runs_python=runs_python),
        state=parts.padded("state") if mode is Mode.FOLD else "",
        body=body.of(parts, is_fold=mode is Mode.FOLD),
        fingerprint=f"{version}-{_hash(parts.text, decoders)}",
        header_lines={key: value.line for key, value in values.items()},
    )


def _taken_apart(file: Path) -> SqlFile | PythonFile:
    if file.suffix == ".py":
        return read_python_file(file, _HEADERS, _DEFAULTS)
    return read_sql_file(file, _HEADERS, _DEFAULTS)


def _require_foldable(file: Path, values: Mapping[str, Value], mode: Mode, source: Source) -> None:
    """What the header of mode fold must say, and that of no other mode may."""
    has_state = values["state"].text.strip() != _NO_STATE
    if has_state != (mode is Mode.FOLD):
        if has_state:
            what = f"mode {mode} has no state"
            raise error_in(file, what, "leave state out", values["state"].line)
        remedy = "give it as Spark DDL, such as `balance DECIMAL(9,2), moves INT`"
        raise error_in(file, "mode fold needs the fields of its state", remedy, values["mode"].line)
    if mode is Mode.FOLD and isinstance(source, Tags | KafkaJournal):
        # A tag numbers its own events: those of another tag, or a row that comes late to one, may
        # have a lower sequence nr than what was folded. And the history of a persistence id is
        # read from messages by its key.
        kind = "tags" if isinstance(source, Tags) else "kafka-journal"
        remedy = "write `messages`; what the fold does not need it can ignore by the tags"
        raise error_in(file, f"mode fold does not read {kind}", remedy, values["source"].line)


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


def _mode(file: Path, value: Value) -> Mode:
    text = value.text.strip()
    if text not in list(Mode):
        raise error_in(file, f"unknown mode {text!r}", f"known are {', '.join(Mode)}", value.line)
    return Mode(text)


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


def _reset_after(file: Path, value: Value, source: Source, mode: Mode) -> int | None:
    text = value.text.strip()
    if text == "off":
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        what = f"{RESET} cannot be {text!r}"
        raise error_in(
            file, what, "write `off`, or a time such as `10 s`, `5 m`, `1 h`", value.line
        )
    if isinstance(source, Tags):
        remedy = "leave it out, or read messages: tag pid sequence nrs do not begin anew"
        raise error_in(file, f"{RESET} does not fit the source tags", remedy, value.line)
    if not mode.replaces_buckets:
        remedy = "leave it out: the rows of the former events would stay, or win over new ones"
        raise error_in(file, f"{RESET} does not fit the mode {mode}", remedy, value.line)
    return int(match[1]) * _SECONDS[match[2]]


def _directory(file: Path, text: str, line: int) -> str:
    if "@" in text and urlsplit(text).password is not None:
        # Not repeated: the error is logged.
        remedy = "leave user and password to Spark's own settings, and replace them"
        raise error_in(file, "the target has a password in it", remedy, line)
    if not text.isprintable() or ".." in text.split("/"):
        remedy = "write a directory, or a URI such as `hdfs://name/directory`, in one line"
        raise error_in(file, f"the target {text!r} is not a directory's name", remedy, line)
    return text
