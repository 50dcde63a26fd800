"""The model of a projection's definition, which `tidemark.project.definition.file` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from tidemark.errors import DefinitionError
from tidemark.project.definition.decoder import DecoderRule
from tidemark.project.definition.on_error import OnError
from tidemark.project.definition.query import Body
from tidemark.project.definition.source import Source
from tidemark.user_files.header import error_in
from tidemark.user_sql.row_check import RowCheck

MAX_VERSION = 999
"""Three decimal digits: `transform.newest` puts the version into the write timestamp."""


class Mode(StrEnum):
    """How a result goes into its target."""

    BUCKET = "bucket"
    UPSERT = "upsert"
    FOLD = "fold"
    APPEND = "append"
    EXPORT = "export"
    ROLLUP = "rollup"

    @property
    def is_versioned(self) -> bool:
        """Whether write timestamps contain the version, which decides between rows of one key."""
        return self in {Mode.UPSERT, Mode.FOLD, Mode.APPEND}

    @property
    def is_one_row(self) -> bool:
        """Whether each persistence id has only the row of its newest event."""
        return self in {Mode.UPSERT, Mode.FOLD}

    @property
    def replaces_buckets(self) -> bool:
        """Whether processing a time bucket again deletes its previous rows."""
        return self in {Mode.BUCKET, Mode.EXPORT}

    @property
    def is_by_persistence_id(self) -> bool:
        """Whether each row has events of only one persistence id, so slices are independent."""
        return self in {Mode.UPSERT, Mode.FOLD, Mode.APPEND}


class Start(StrEnum):
    """What comes first of a persistence id that the projection has not met before."""

    FIRST_EVENT = "first-event"
    SNAPSHOT = "snapshot"


class IfDeleted(StrEnum):
    """What becomes of a persistence id whose events were deleted before they were consumed."""

    HOLD = "hold"
    ACCEPT = "accept"
    FAIL = "fail"


class Release(StrEnum):
    """Where a new version of a projection is written."""

    IN_PLACE = "in-place"
    BLUE_GREEN = "blue-green"


class Promote(StrEnum):
    """How a blue/green version that has caught up becomes the live one."""

    AUTOMATIC = "automatic"
    MANUAL = "manual"


@dataclass(frozen=True)
class Key:
    """The primary key that a definition expects of its table.

    Attributes:
        columns: partition key and clustering columns, in order.
        places: line and column of each, both from 1.
    """

    columns: tuple[str, ...]
    places: tuple[tuple[int, int], ...]

    def difference(self, actual: Sequence[str]) -> tuple[int, int]:
        """Return the place of the first column that differs from the table's key."""
        pairs = enumerate(zip(self.columns, actual, strict=False))
        first = next(
            (number for number, (expected, actual_column) in pairs if expected != actual_column),
            len(actual),
        )
        return self.places[min(first, len(self.places) - 1)]


@dataclass(frozen=True)
class Definition:
    """The definition of a projection.

    Attributes:
        name: name, unique among the files.
        version: 1..999, raised by the author when the result changes its meaning.
        source: events that are read; in mode rollup the read model.
        journal: journal that the events are in; empty for that of any run.
        start: what a persistence id begins with.
        begin: first time bucket to process; None for the first that validate has recorded.
        mode: how the result is stored.
        keyspace: keyspace of the target; empty in mode export.
        table: table of the target; empty in mode export. A blue/green version has its own.
        template: table as the file names it; differs from `table` only if blue/green.
        is_blue_green: whether each version has a table, a ledger and offsets of its own.
        is_promoted_by_hand: whether a blue/green version that has caught up becomes live only by
            `project.py promote`.
        path: directory of the target as the file names it; empty except in mode export.
        event: Spark DDL of the payload's fields, padded to its place in the file; empty in mode
            rollup.
        tables: tables of Cassandra to join events with, as keyspace.table by name.
        formats: formats of the TIMESTAMP fields, see `time_formats.with_formats`.
        reset_after: seconds after the stored timestamp from which a lower sequence nr means that
            the persistence id began anew; if None, a lower sequence nr is always a duplicate.
        look_back: number of time buckets before each planned one to search for late events; None
            for the setting's.
        fresh_within: seconds within which events are promised to be in the result; None without a
            promise.
        decoders: rules for decoding; the first rule that selects an event is used.
        on_error: treatment of events that cannot be decoded or folded.
        if_deleted: treatment of persistence ids with events deleted before they were consumed.
        state: in mode fold, Spark DDL of the state's fields, padded to its place in the file; empty
            otherwise.
        checks: conditions that the result must meet.
        key: primary key that the target must have; None for any.
        body: the SELECT, or the function.
        fingerprint: `<version>-<hash>` of everything that determines the result: keys of the
            header, the body, and files of decoders; the ledger stores it with each piece.
        header_lines: line of each key of the header.
    """

    file: Path
    name: str
    version: int
    source: Source
    journal: str
    start: Start
    begin: datetime | None
    mode: Mode
    keyspace: str
    table: str
    template: str
    is_blue_green: bool
    is_promoted_by_hand: bool
    path: str
    event: str
    formats: Mapping[str, str]
    tables: Mapping[str, str]
    reset_after: int | None
    look_back: int | None
    fresh_within: int | None
    decoders: tuple[DecoderRule, ...]
    on_error: OnError
    if_deleted: IfDeleted
    state: str
    checks: tuple[RowCheck, ...]
    key: Key | None
    body: Body
    fingerprint: str
    header_lines: Mapping[str, int]

    @property
    def starts_from_snapshots(self) -> bool:
        """Whether a persistence id begins with its newest snapshot, if it has one."""
        return self.start is Start.SNAPSHOT

    @property
    def target(self) -> str:
        """`keyspace.table` or the directory, for people."""
        return self.path or f"{self.keyspace}.{self.table}"

    @property
    def template_target(self) -> str:
        """`keyspace.table` as the file names it."""
        return f"{self.keyspace}.{self.template}"

    def error(self, what: str, do: str, line: int, column: int | None = None) -> DefinitionError:
        """Return an error at a line and, if known, a column of this file; both count from 1."""
        return error_in(self.file, what, do, line, column)

    def subject(self, journal_keyspace: str) -> str:
        """Return the projection's name in the ledger and in offsets, different per journal."""
        version = f"@v{self.version}" if self.is_blue_green else ""
        return f"{self.identity(journal_keyspace)}{version}"

    def identity(self, journal_keyspace: str) -> str:
        """Return the name that all versions of the projection share."""
        return f"{journal_keyspace}/{self.name}"
