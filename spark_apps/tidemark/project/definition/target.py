"""The target of a definition, and what each kind of target supports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from tidemark.cassandra.schema import identifier
from tidemark.errors import InvalidInput
from tidemark.postgres.connections import is_name
from tidemark.postgres.identifiers import TableName
from tidemark.project.definition.header import ProjectionHeader
from tidemark.project.definition.model import FileFormat, Mode, Release
from tidemark.user_files.header import Header

_POSTGRES = ("postgres://", "postgresql://")


class TargetKind(StrEnum):
    """Where results are stored."""

    CASSANDRA = "Cassandra"
    POSTGRES = "PostgreSQL"
    FILES = "files"


@dataclass(frozen=True)
class Capabilities:
    """What a kind of target supports; docs/postgres.md has the same table.

    Attributes:
        modes: modes that write to it.
        releases: ways in which a new version is released.
        feeds_rollups: whether a projection of mode rollup can read it.
        is_atomic: whether rows and offsets change in one transaction.
    """

    modes: frozenset[Mode]
    releases: frozenset[Release]
    feeds_rollups: bool
    is_atomic: bool


CAPABILITIES: Mapping[TargetKind, Capabilities] = {
    TargetKind.CASSANDRA: Capabilities(
        frozenset(Mode) - {Mode.EXPORT}, frozenset(Release), feeds_rollups=True, is_atomic=False
    ),
    TargetKind.POSTGRES: Capabilities(
        frozenset({Mode.BUCKET, Mode.UPSERT, Mode.FOLD, Mode.APPEND}),
        frozenset({Release.IN_PLACE}),
        feeds_rollups=False,
        is_atomic=True,
    ),
    TargetKind.FILES: Capabilities(
        frozenset({Mode.EXPORT}),
        frozenset({Release.IN_PLACE}),
        feeds_rollups=False,
        is_atomic=False,
    ),
}


@dataclass(frozen=True)
class DefinedTarget:
    """The target that a file names; parts that it does not have are empty.

    Attributes:
        connection: the connection to PostgreSQL.
        keyspace: the keyspace, or the schema in PostgreSQL.
        template: the table as the file names it.
        table: the table of this version.
        path: the directory, or the Iceberg table.
    """

    connection: str = ""
    keyspace: str = ""
    template: str = ""
    table: str = ""
    path: str = ""


def kind_of(mode: Mode, target: str) -> TargetKind:
    """Return the kind of a target as a file names it."""
    if target.startswith(_POSTGRES):
        return TargetKind.POSTGRES
    return TargetKind.FILES if mode is Mode.EXPORT else TargetKind.CASSANDRA


def target_of(header: Header, form: ProjectionHeader) -> DefinedTarget:
    """Return the target that a header names.

    Raises:
        DefinitionError: it is not a table or directory that mode and format need, or does not
            support something that the header asks for.
    """
    kind = kind_of(form.mode, form.target)
    _require_capable(header, form, kind)
    if kind is TargetKind.FILES:
        if form.file_format is FileFormat.ICEBERG:
            _require_iceberg_table(header, form.target)
        else:
            _require_directory(header, form.target)
        return DefinedTarget(path=form.target)
    if kind is TargetKind.POSTGRES:
        return _in_postgres(header, form.target)
    return _in_cassandra(header, form)


def _require_capable(header: Header, form: ProjectionHeader, kind: TargetKind) -> None:
    capable = CAPABILITIES[kind]
    if form.mode not in capable.modes:
        modes = ", ".join(sorted(capable.modes))
        what = f"mode {form.mode} does not write to {kind}"
        raise header.error(what, f"choose another target, or one of the modes {modes}", "mode")
    if form.release not in capable.releases:
        raise header.error(
            f"release {form.release} does not fit a target in {kind}",
            "leave release out, or write the new version to another table by another definition",
            "release",
        )


def _in_postgres(header: Header, text: str) -> DefinedTarget:
    connection, slash, table = text.partition("://")[2].partition("/")
    schema, dot, name = table.partition(".")
    if "@" in connection or ":" in connection:
        # The message does not repeat the target, which may have a password.
        raise header.error(
            "the target has an address in it, and needs the name of a connection",
            "write `postgres://connection/schema.table`; TIDEMARK_POSTGRES_<CONNECTION>_URL has the"
            " address",
            "target",
        )
    if not (slash and dot and is_name(connection)):
        what = f"the target {text!r} is not `postgres://connection/schema.table`"
        raise header.error(what, "write the name of a connection, a schema and a table", "target")
    try:
        TableName(schema, name)
    except InvalidInput as error:
        raise header.error(f"the target's table is {error.what}", error.do, "target") from None
    return DefinedTarget(connection, schema, name, name)


def _in_cassandra(header: Header, form: ProjectionHeader) -> DefinedTarget:
    keyspace, dot, template = form.target.partition(".")
    if not dot:
        what = f"the target {keyspace!r} has no keyspace"
        raise header.error(what, "write `keyspace.table`", "target")
    is_blue_green = form.release is Release.BLUE_GREEN
    table = f"{template}_v{form.version}" if is_blue_green else template
    for text, noun in ((keyspace, "keyspace"), (template, "table"), (table, "table")):
        try:
            identifier(text)
        except InvalidInput as error:
            what = f"the target's {noun} {text!r} is not an identifier"
            raise header.error(what, error.do, "target") from None
    return DefinedTarget("", keyspace, template, table)


def _require_iceberg_table(header: Header, text: str) -> None:
    parts = text.split(".")
    if len(parts) == 1:
        what = f"the target {text!r} has no namespace"
        raise header.error(what, "write `namespace.table`, such as `lake.flights`", "target")
    for part in parts:
        try:
            identifier(part)
        except InvalidInput as error:
            what = f"{part!r} in the target is not a name of an Iceberg namespace or table"
            raise header.error(what, error.do, "target") from None


def _require_directory(header: Header, text: str) -> None:
    if "@" in text and _has_password(text):
        # The message does not repeat the target, because errors are logged.
        remedy = "leave user and password to Spark's own settings, and replace them"
        raise header.error("the target has a password in it", remedy, "target")
    if not text.isprintable() or ".." in text.split("/"):
        remedy = "write a directory, or a URI such as `hdfs://name/directory`, in one line"
        what = f"the target {text!r} is not a directory's name"
        raise header.error(what, remedy, "target")


def _has_password(text: str) -> bool:
    try:
        return urlsplit(text).password is not None
    except ValueError:
        # Not a URI: it may contain a password.
        return True
