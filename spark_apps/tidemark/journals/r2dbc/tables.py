"""Names, columns, rights and index of the tables of akka-persistence-r2dbc.

Source: akka-persistence-r2dbc 1.1.2 on PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from tidemark.errors import InvalidInput, SchemaMismatch
from tidemark.partitioning.keys import NUMBER_OF_SLICES, SliceRange
from tidemark.postgres.connections import PostgresConnection, connection
from tidemark.postgres.identifiers import TableName, quoted
from tidemark.postgres.session import session
from tidemark.settings import Settings

JOURNAL: Mapping[str, str] = {
    "slice": "integer",
    "entity_type": "character varying",
    "persistence_id": "character varying",
    "seq_nr": "bigint",
    "db_timestamp": "timestamp with time zone",
    "event_ser_id": "integer",
    "event_ser_manifest": "character varying",
    "event_payload": "bytea",
    "deleted": "boolean",
    "writer": "character varying",
    "adapter_manifest": "character varying",
    "tags": "text[]",
    "meta_ser_id": "integer",
    "meta_ser_manifest": "character varying",
    "meta_payload": "bytea",
}
"""The columns of the journal, with PostgreSQL's types."""
SNAPSHOT: Mapping[str, str] = {
    "slice": "integer",
    "entity_type": "character varying",
    "persistence_id": "character varying",
    "seq_nr": "bigint",
    "write_timestamp": "bigint",
    "ser_id": "integer",
    "ser_manifest": "character varying",
    "snapshot": "bytea",
}
"""The columns of the snapshots; newer releases have further ones."""
INDEX = ("slice", "entity_type", "db_timestamp", "seq_nr")
_INDEX_PREFIX = INDEX[:3]
"""The leading columns that a read of a time bucket needs."""
_SAME = {"text": "character varying"}
_MIB = 1024 * 1024


@dataclass(frozen=True)
class JournalTable:
    """A table of the journal, and the slices whose rows it has."""

    name: TableName
    slices: SliceRange


def journal_connection(settings: Settings) -> PostgresConnection:
    """Return the connection to the journal of the run.

    Raises:
        InvalidInput: the environment has no such connection.
    """
    return connection(settings, settings.r2dbc_connection)


def journal_tables(settings: Settings) -> list[JournalTable]:
    """Return the tables of the journal, by their slices.

    Raises:
        InvalidInput: the data partitions have no equal numbers of slices.
    """
    return _tables(settings, settings.r2dbc_journal_table)


def snapshot_tables(settings: Settings) -> list[JournalTable]:
    """Return the tables of the snapshots, by their slices.

    Raises:
        InvalidInput: the data partitions have no equal numbers of slices.
    """
    return _tables(settings, settings.r2dbc_snapshot_table)


def _tables(settings: Settings, name: str) -> list[JournalTable]:
    number = settings.r2dbc_data_partitions
    if NUMBER_OF_SLICES % number:
        raise InvalidInput(
            f"{number} data partitions cannot share {NUMBER_OF_SLICES} slices equally",
            where="TIDEMARK_R2DBC_DATA_PARTITIONS",
            do="set it to data-partition.number-of-partitions of the actors' configuration",
        )
    width = NUMBER_OF_SLICES // number
    return [
        JournalTable(
            TableName(settings.r2dbc_schema, name if number == 1 else f"{name}_{nr}"),
            SliceRange(nr * width, (nr + 1) * width - 1),
        )
        for nr in range(number)
    ]


def require_journal(settings: Settings) -> None:
    """Require tables of the journal that have the expected columns, the index and the rights.

    Raises:
        InvalidInput: there is no such connection, or its user may not read a table.
        PostgresUnavailable: the server does not answer.
        SchemaMismatch: a table is absent, lacks a column or the index, or a column has another
            type; the message has the statement that creates the index, and what it costs.
    """
    server = journal_connection(settings)
    with session(server) as opened:
        for table in journal_tables(settings):
            require_columns(opened, server, table.name, JOURNAL, "TIDEMARK_R2DBC_JOURNAL_TABLE")
            _require_index(opened, server, table.name)


def require_snapshots(settings: Settings) -> None:
    """Require tables of the snapshots that have the expected columns and the rights.

    Raises:
        InvalidInput: there is no such connection, or its user may not read a table.
        PostgresUnavailable: the server does not answer.
        SchemaMismatch: a table is absent, lacks a column, or a column has another type.
    """
    server = journal_connection(settings)
    with session(server) as opened:
        for table in snapshot_tables(settings):
            require_columns(opened, server, table.name, SNAPSHOT, "TIDEMARK_R2DBC_SNAPSHOT_TABLE")


def has_snapshots(settings: Settings) -> bool:
    """Return whether a table of snapshots exists; the plugin needs none without snapshots."""
    with session(journal_connection(settings)) as opened:
        return any(
            _rows(opened, "SELECT to_regclass(%s) IS NOT NULL", table.name.quoted)[0][0]
            for table in snapshot_tables(settings)
        )


def require_columns(
    opened: psycopg.Connection,
    server: PostgresConnection,
    name: TableName,
    columns: Mapping[str, str],
    setting: str,
) -> None:
    """Require a table with columns of some types, which the user may read.

    Raises:
        InvalidInput: the user may not read the table.
        SchemaMismatch: the table is absent or has another shape; the message has each difference.
    """
    found = _rows(
        opened,
        "SELECT a.attname, format_type(a.atttypid, NULL), has_schema_privilege(n.oid, 'USAGE'),"
        " has_table_privilege(c.oid, 'SELECT')"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
        " WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
        name.schema,
        name.table,
    )
    if not found:
        raise SchemaMismatch(
            f"the table {name} does not exist",
            where=f"{server}, TIDEMARK_R2DBC_SCHEMA, {setting}",
            do="create it with the statements of akka-persistence-r2dbc, or correct the settings",
        )
    types = {column: _SAME.get(kind, kind) for column, kind, _, _ in found}
    differences = [
        f"{column} is {types[column]} and not {kind}" if column in types else f"{column} is absent"
        for column, kind in columns.items()
        if types.get(column) != kind
    ]
    if differences:
        raise SchemaMismatch(
            f"the table {name} has not the columns of akka-persistence-r2dbc:"
            f" {', '.join(differences)}",
            where=f"{server}, {setting}",
            do="correct the settings, or bring the table to the schema of the plugin",
        )
    _, _, may_enter, may_read = found[0]
    if not may_enter:
        _refuse(server, f"USAGE ON SCHEMA {quoted(name.schema)}", f"the schema {name.schema}")
    if not may_read:
        _refuse(server, f"SELECT ON {name.quoted}", f"the table {name}")


def _refuse(server: PostgresConnection, right: str, what: str) -> None:
    raise InvalidInput(
        f"the user {server.user} may not read {what}",
        where=str(server),
        do=f"GRANT {right} TO {quoted(server.user)}",
    )


def _require_index(opened: psycopg.Connection, server: PostgresConnection, name: TableName) -> None:
    indexes = _rows(
        opened,
        "SELECT array_agg(a.attname::text ORDER BY k.position), i.indexrelid::regclass::text,"
        " i.indisvalid"
        " FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid"
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        " CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(attnum, position)"
        " LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum"
        " WHERE n.nspname = %s AND c.relname = %s AND k.position <= i.indnkeyatts"
        " AND i.indpred IS NULL"
        " GROUP BY i.indexrelid, i.indisvalid",
        name.schema,
        name.table,
    )
    fitting = {
        index: is_valid
        for columns, index, is_valid in indexes
        if tuple(columns[: len(_INDEX_PREFIX)]) == _INDEX_PREFIX
    }
    if any(fitting.values()):
        return
    if fitting:
        raise SchemaMismatch(
            f"the index {min(fitting)} of the table {name} is not complete",
            where=str(server),
            do="wait for the CREATE INDEX that runs, or if none does, build it again:"
            f" REINDEX INDEX CONCURRENTLY {min(fitting)}",
        )
    size = _rows(
        opened,
        "SELECT pg_table_size(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s",
        name.schema,
        name.table,
    )
    mib = size[0][0] / _MIB
    raise SchemaMismatch(
        f"the table {name} has no index on {', '.join(INDEX)}: every read of a time bucket would"
        f" read all {mib:,.1f} MiB of the table",
        where=str(server),
        do=f"CREATE INDEX CONCURRENTLY {quoted(f'{name.table}_slice_idx')} ON {name.quoted}"
        f" ({', '.join(INDEX)}); it reads the table once",
    )


def _rows(opened: psycopg.Connection, query: str, *values: str) -> Sequence[tuple[Any, ...]]:
    return opened.execute(query.encode(), values).fetchall()
