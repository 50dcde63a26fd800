"""Changing one row that others may be changing, too."""

from __future__ import annotations

from collections.abc import Mapping

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import identifier


def compare_and_set(
    control: Control,
    name: str,
    key: Mapping[str, object],
    values: Mapping[str, object],
    *,
    expected: Mapping[str, object] | None,
) -> bool:
    """Write a row if it is as it was read, by a lightweight transaction; whether it was written.

    Args:
        control: the session to Cassandra.
        name: the table, as `cassandra.schema.table` writes it.
        key: the whole primary key, by column.
        values: what to write, by column.
        expected: what was read of it, by column; None if there was no row.

    Raises:
        CassandraUnavailable: the statement failed.
    """
    if expected is None:
        row = {**key, **values}
        columns = ", ".join(map(identifier, row))
        cql = f"INSERT INTO {name} ({columns}) VALUES ({', '.join('?' * len(row))}) IF NOT EXISTS"
        applied, _ = control.applied(cql, list(row.values()))
        return applied
    cql = (
        f"UPDATE {name} SET {_equal(values, ', ')}"
        f" WHERE {_equal(key, ' AND ')} IF {_equal(expected, ' AND ')}"
    )
    applied, _ = control.applied(cql, [*values.values(), *key.values(), *expected.values()])
    return applied


def _equal(columns: Mapping[str, object], between: str) -> str:
    return between.join(f"{identifier(name)} = ?" for name in columns)
