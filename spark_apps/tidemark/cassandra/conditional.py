"""Lightweight transactions on rows that other runs may change at the same time.

Each transaction costs several round trips, and transactions on one partition delay or fail each
other: a year of Hour buckets, one transaction per piece, would take longer than the work on the
pieces. This module therefore batches the rows of a partition into few transactions and sends them
one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import identifier

_AT_A_TIME = 32
"""Transactions on different partitions that run at a time."""
TOGETHER = 100
"""The most rows in one transaction."""


def compare_and_set(
    control: Control,
    name: str,
    key: Mapping[str, object],
    values: Mapping[str, object],
    *,
    expected: Mapping[str, object] | None,
) -> bool:
    """Write a row unless it has changed since it was read; return whether it was written.

    Args:
        control: the session to Cassandra.
        name: quoted name of the table, as `cassandra.schema.table` returns it.
        key: values of the whole primary key, by column.
        values: values to write, by column.
        expected: values that were read, by column; None if there was no row.
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


def applied_to_each(control: Control, cql: str, values: Sequence[Sequence[object]]) -> list[bool]:
    """Run a conditional statement for each set of values, each of a partition of its own.

    Many run at a time. After an error, other transactions may have been applied.
    """
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return list(pool.map(lambda one: control.applied(cql, one)[0], values))


def refused(
    control: Control, cql: str, rows: Sequence[Sequence[object]]
) -> list[tuple[slice, list[Row]]]:
    """Run a conditional statement for rows of one partition; return the refused parts.

    Each part has up to a hundred rows and is applied as a whole or not at all. The result names
    each refused part of `rows`, with the rows that its conditions met. After an error, other parts
    may have been applied.
    """
    parts = [slice(first, first + TOGETHER) for first in range(0, len(rows), TOGETHER)]
    answers = control.transactions(cql, (rows[part] for part in parts))
    pairs = zip(parts, answers, strict=True)
    return [(part, answer) for part, answer in pairs if not answer[0]["[applied]"]]


def apply_each(control: Control, cql: str, rows: Sequence[Sequence[object]]) -> None:
    """Run a conditional statement for rows of one partition; leave refused rows as they are."""
    for part, _ in refused(control, cql, rows):
        control.transactions(cql, ([row] for row in rows[part]))


def _equal(columns: Mapping[str, object], between: str) -> str:
    return between.join(f"{identifier(name)} = ?" for name in columns)
