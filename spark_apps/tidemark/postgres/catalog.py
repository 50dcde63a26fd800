"""Tables as PostgreSQL's catalog describes them: columns, primary key, rights of the user."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.postgres.identifiers import TableName
from tidemark.postgres.session import Session

_COLUMNS = """
SELECT a.attname, format_type(coalesce(nullif(t.typbasetype, 0), t.oid), NULL),
    a.attnotnull AND NOT a.atthasdef AND a.attidentity = '', a.attgenerated <> ''
    OR a.attidentity = 'a'
FROM pg_attribute a
JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_type t ON t.oid = a.atttypid
WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')
    AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
_PRIMARY_KEY = """
SELECT a.attname
FROM pg_index i
JOIN pg_class c ON c.oid = i.indrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (attnum, position)
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
WHERE n.nspname = %s AND c.relname = %s AND i.indisprimary
ORDER BY k.position
"""
_RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        type: the type as `format_type` shows it, without its limits; of a domain its base type.
        is_required: whether each new row must give it a value.
        is_computed: whether no row may give it a value.
    """

    name: str
    type: str
    is_required: bool = False
    is_computed: bool = False


def columns(session: Session, table: TableName) -> list[Column]:
    """Return the columns of a table in their order; empty if there is no such table."""
    rows = session.execute(_COLUMNS, (table.schema, table.table)).fetchall()
    return [Column(*row) for row in rows]


def primary_key(session: Session, table: TableName) -> list[str]:
    """Return the columns of the primary key in their order; empty if there is none."""
    rows = session.execute(_PRIMARY_KEY, (table.schema, table.table)).fetchall()
    return [name for (name,) in rows]


def exists(session: Session, table: TableName) -> bool:
    """Return whether there is a table of this name."""
    return bool(columns(session, table))


def tables_like(session: Session, schema: str, prefix: str) -> list[TableName]:
    """Return the tables of a schema whose names begin with a prefix."""
    rows = session.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = %s AND starts_with(tablename, %s)"
        " ORDER BY tablename",
        (schema, prefix),
    ).fetchall()
    return [TableName(schema, name) for (name,) in rows]


def missing_rights(session: Session, table: TableName) -> list[str]:
    """Return the rights on a table that the user of the session lacks for writing rows."""
    quoted = table.quoted
    return [
        right
        for right in _RIGHTS
        if not _is_true(session, "SELECT has_table_privilege(%s, %s)", quoted, right)
    ]


def has_schema(session: Session, schema: str) -> bool:
    """Return whether there is a schema of this name."""
    return _is_true(
        session, "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = %s)", schema
    )


def may_create(session: Session, schema: str) -> bool:
    """Return whether the user of the session may create tables in an existing schema."""
    return _is_true(session, "SELECT has_schema_privilege(%s, 'CREATE')", schema)


def _is_true(session: Session, query: str, *values: str) -> bool:
    row = session.execute(query.encode(), values).fetchone()
    return bool(row and row[0])
