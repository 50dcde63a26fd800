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

_CONCURRENT = 32
"""The most transactions on different partitions at the same time."""
ROWS_IN_TRANSACTION = 100
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

    `name` is the quoted name of the table (`cassandra.schema.table`), `key` the complete primary
    key, `expected` the values that were read, or None if there was no row.
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
    """Run a conditional statement for each set of values, each for a different partition.

    They run concurrently. After an error, other transactions may have been applied.
    """
    with ThreadPoolExecutor(_CONCURRENT) as pool:
        return list(pool.map(lambda row: control.applied(cql, row)[0], values))


def refused(
    control: Control, cql: str, rows: Sequence[Sequence[object]]
) -> list[tuple[slice, list[Row]]]:
    """Run a conditional statement for rows of one partition; return the parts not applied.

    Each part has up to a hundred rows and is applied completely or not at all. The result has the
    slice of `rows` of each part that was not applied, with the rows that its conditions met. After
    an error, other parts may have been applied.
    """
    parts = [
        slice(first, first + ROWS_IN_TRANSACTION)
        for first in range(0, len(rows), ROWS_IN_TRANSACTION)
    ]
    answers = control.transactions(cql, (rows[part] for part in parts))
    pairs = zip(parts, answers, strict=True)
    return [(part, answer) for part, answer in pairs if not answer[0]["[applied]"]]


def apply_each(control: Control, cql: str, rows: Sequence[Sequence[object]]) -> None:
    """Run a conditional statement for rows of one partition; skip rows whose condition fails."""
    for part, _ in refused(control, cql, rows):
        control.transactions(cql, ([row] for row in rows[part]))


def _equal(columns: Mapping[str, object], separator: str) -> str:
    return separator.join(f"{identifier(name)} = ?" for name in columns)
