"""A table made like another one. Cassandra copies tables by itself only from 5.1 on."""

from __future__ import annotations

from collections.abc import Mapping

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import identifier, table
from tidemark.errors import SchemaMismatch

_MAPS = ("compaction", "compression", "caching")
_NUMBERS = ("default_time_to_live", "gc_grace_seconds", "bloom_filter_fp_chance")


def create_like(control: Control, keyspace: str, template: str, name: str) -> None:
    """Make a table with the columns, the key and the storage options of another; no indexes.

    A table that exists stays as it is.

    Raises:
        SchemaMismatch: there is no such template.
        InvalidInput: a name could be anything but an identifier.
        CassandraUnavailable: a statement failed.
    """
    control.execute_ddl(statement(control, keyspace, template, name))


def statement(control: Control, keyspace: str, template: str, name: str) -> str:
    """What `create_like` sends; errors as there."""
    where = " WHERE keyspace_name = ? AND table_name = ?"
    columns = control.execute(
        "SELECT column_name, kind, position, type, clustering_order"
        f" FROM system_schema.columns{where}",
        (keyspace, template),
    )
    options = control.execute(
        f"SELECT {', '.join([*_MAPS, *_NUMBERS])} FROM system_schema.tables{where}",
        (keyspace, template),
    )
    if not columns or not options:
        raise SchemaMismatch(
            f"the table {keyspace}.{template} does not exist", do="create the table first"
        )
    columns.sort(key=lambda row: row["position"])
    named = [
        f"{identifier(row['column_name'])} {row['type']}"
        + (" static" if row["kind"] == "static" else "")
        for row in columns
    ]
    key = [identifier(row["column_name"]) for row in columns if row["kind"] == "partition_key"]
    clustering = [row for row in columns if row["kind"] == "clustering"]
    primary = [f"({', '.join(key)})", *(identifier(row["column_name"]) for row in clustering)]
    order = ", ".join(
        f"{identifier(row['column_name'])} {row['clustering_order']}" for row in clustering
    )
    properties = [
        *([f"CLUSTERING ORDER BY ({order})"] if order else []),
        *(f"{name} = {_literal(options[0][name])}" for name in _MAPS),
        *(f"{name} = {options[0][name]}" for name in _NUMBERS),
    ]
    return (
        f"CREATE TABLE IF NOT EXISTS {table(keyspace, name)}"
        f" ({', '.join(named)}, PRIMARY KEY ({', '.join(primary)}))"
        f" WITH {' AND '.join(properties)}"
    )


def _literal(values: Mapping[str, str]) -> str:
    """Values of system_schema; a schema statement binds none."""
    parts = [f"{_text(key)}: {_text(value)}" for key, value in sorted(values.items())]
    return f"{{{', '.join(parts)}}}"


def _text(value: str) -> str:
    doubled = value.replace("'", "''")
    return f"'{doubled}'"
