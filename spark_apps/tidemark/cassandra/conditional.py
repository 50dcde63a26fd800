"""Lightweight transactions: rows that others may be changing, too.

Each transaction costs rounds of its own, and those of one partition wait for each other, or fail
each other: a year of Hour buckets, piece by piece, would take longer than what is done with them.
So those of one partition are few, and sent one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import identifier

_TOGETHER = 100
"""Rows of one transaction."""


def compare_and_set(
    control: Control,
    name: str,
    key: Mapping[str, object],
    values: Mapping[str, object],
    *,
    expected: Mapping[str, object] | None,
) -> bool:
    """Write a row if it is as it was read; return whether it was written.

    Args:
        control: the session to Cassandra.
        name: the table, as `cassandra.schema.table` writes it.
        key: the whole primary key, by column.
        values: what to write, by column.
        expected: what was read of it, by column; None if there was no row.
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


def refused(
    control: Control, cql: str, rows: Sequence[Sequence[object]]
) -> list[tuple[slice, list[Row]]]:
    """Run a conditional statement for rows of one partition, a hundred at once.

    Of each hundred all are applied, or none. Returns each part of `rows` of which none was, with
    what its conditions met. After an error other parts may be applied.
    """
    parts = [slice(first, first + _TOGETHER) for first in range(0, len(rows), _TOGETHER)]
    answers = control.transactions(cql, (rows[part] for part in parts))
    pairs = zip(parts, answers, strict=True)
    return [(part, answer) for part, answer in pairs if not answer[0]["[applied]"]]


def apply_each(control: Control, cql: str, rows: Sequence[Sequence[object]]) -> None:
    """Run a conditional statement for rows of one partition; what a condition refuses stays."""
    for part, _ in refused(control, cql, rows):
        control.transactions(cql, ([row] for row in rows[part]))


def _equal(columns: Mapping[str, object], between: str) -> str:
    return between.join(f"{identifier(name)} = ?" for name in columns)
