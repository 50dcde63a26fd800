"""A table like another, with everything that system_schema says about it."""

from __future__ import annotations

from collections.abc import Mapping

from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import identifier, table
from tidemark.errors import SchemaMismatch

_OPTIONS = (
    "additional_write_policy",
    "allow_auto_snapshot",
    "bloom_filter_fp_chance",
    "caching",
    "cdc",
    "comment",
    "compaction",
    "compression",
    "crc_check_chance",
    "default_time_to_live",
    "gc_grace_seconds",
    "incremental_backups",
    "max_index_interval",
    "memtable",
    "memtable_flush_period_in_ms",
    "min_index_interval",
    "read_repair",
    "speculative_retry",
)
"""What CREATE TABLE takes; system_schema.tables holds more, and nulls for what is not set."""


def create_like(control: Control, keyspace: str, source: str, name: str) -> str:
    """The statement that makes the table `name` with the columns, keys and options of `source`.

    Indexes and materialized views of the source are not repeated.

    Raises:
        SchemaMismatch: there is no such source.
        InvalidInput: a name is not an identifier.
        CassandraUnavailable: a statement failed.
    """
    where = " WHERE keyspace_name = ? AND table_name = ?"
    columns = control.execute(f"SELECT * FROM system_schema.columns{where}", (keyspace, source))
    tables = control.execute(f"SELECT * FROM system_schema.tables{where}", (keyspace, source))
    if not tables:
        raise SchemaMismatch(f"table {source} does not exist", where=keyspace)
    partition_key = _ordered(columns, "partition_key")
    clustering = _ordered(columns, "clustering")
    key = [f"({_names(partition_key)})", *(identifier(row["column_name"]) for row in clustering)]
    parts = [
        *(f"{identifier(row['column_name'])} {_type(row)}" for row in columns),
        f"PRIMARY KEY ({', '.join(key)})",
    ]
    options = [
        f"{option} = {_literal(value)}"
        for option in _OPTIONS
        if (value := tables[0].get(option)) is not None
    ]
    if clustering:
        order = ", ".join(
            f"{identifier(row['column_name'])} {row['clustering_order'].upper()}"
            for row in clustering
        )
        options.insert(0, f"CLUSTERING ORDER BY ({order})")
    return (
        f"CREATE TABLE IF NOT EXISTS {table(keyspace, name)} ({', '.join(parts)})"
        f" WITH {' AND '.join(options)}"
    )


def _ordered(columns: list[Row], kind: str) -> list[Row]:
    return sorted((row for row in columns if row["kind"] == kind), key=lambda row: row["position"])


def _names(rows: list[Row]) -> str:
    return ", ".join(identifier(row["column_name"]) for row in rows)


def _type(row: Row) -> str:
    return f"{row['type']} STATIC" if row["kind"] == "static" else str(row["type"])


def _literal(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_literal(k)}: {_literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, bool | int | float):
        return str(value).lower()
    return "'" + str(value).replace("'", "''") + "'"
