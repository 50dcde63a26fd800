"""A projection as its file defines it. `tidemark.project.definition.file` reads it."""

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
"""Three decimal digits: `transform.newest` keeps the version in the write timestamp."""


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
        places: line and column, both from 1, of each of them.
    """

    columns: tuple[str, ...]
    places: tuple[tuple[int, int], ...]

    def difference(self, actual: Sequence[str]) -> tuple[int, int]:
        """Return the place of the first column that the real key does not have there."""
        pairs = enumerate(zip(self.columns, actual, strict=False))
        first = next((number for number, (mine, other) in pairs if mine != other), len(actual))
        return self.places[min(first, len(self.places) - 1)]


@dataclass(frozen=True)
class Definition:
    """One projection.

    Attributes:
        file: where it is defined.
        name: unique among the files.
        version: 1..999, raised by the author when the result changes its meaning.
        source: which events it reads; in mode rollup the read model.
        start: what a persistence id begins with.
        begin: the first time bucket that is processed; None for the first that validate knows.
        mode: how the result is stored.
        keyspace: of the target; empty in mode export.
        table: of the target; empty in mode export. A blue/green version has its own.
        template: the table as the file names it; the same unless the release is blue/green.
        is_blue_green: whether each version has a table, a ledger and offsets of its own.
        is_promoted_by_hand: whether a blue/green version that has caught up is live only after
            `project.py promote`.
        path: the target's directory as the file has it, in mode export; empty otherwise.
        event: Spark DDL of the payload's fields, padded to its place in the file; empty in mode
            rollup.
        tables: of Cassandra that events are joined with, as keyspace.table by name.
        formats: of its TIMESTAMP fields, see `time_formats.with_formats`.
        reset_after: seconds behind the stored timestamp from which on a lower sequence nr is that
            of a persistence id that began anew; None takes it for a duplicate.
        look_back: time buckets before each planned one in which late events are looked for; None
            leaves it to the setting.
        decoders: how payloads are read; the first rule that takes an event does it.
        on_error: what becomes of an event that cannot be read or folded, and how many may be
            skipped.
        if_deleted: what becomes of a persistence id whose events were deleted before they were
            consumed.
        state: of mode fold, Spark DDL of the state's fields, padded to its place in the file; empty
            otherwise.
        checks: what must be true of the result.
        key: the primary key that the target must have; None leaves it to the table.
        body: the SELECT, or the function.
        fingerprint: `<version>-<hash>` of what the header says, without what does not change the
            result, of the body, and of the files that its decoders name; the ledger keeps it with
            each piece.
        header_lines: the line of each key of the header.
    """

    file: Path
    name: str
    version: int
    source: Source
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
        """Return an error at a line of this file, and at a known column; both count from 1."""
        return error_in(self.file, what, do, line, column)

    def subject(self, journal_keyspace: str) -> str:
        """Return the name in the ledger and in the offsets, which depends on the journal."""
        version = f"@v{self.version}" if self.is_blue_green else ""
        return f"{self.identity(journal_keyspace)}{version}"

    def identity(self, journal_keyspace: str) -> str:
        """Return the name that all versions of the projection have."""
        return f"{journal_keyspace}/{self.name}"
