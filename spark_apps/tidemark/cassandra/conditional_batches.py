"""Many rows of one partition, changed by few lightweight transactions.

Each transaction costs rounds of its own, and those of one partition wait for each other, or fail
each other: a year of Hour buckets, piece by piece, would take longer than what is done with them.
So they are few, and one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.cassandra.control import Control, Row

_TOGETHER = 100


def refused(
    control: Control, cql: str, rows: Sequence[Sequence[object]]
) -> list[tuple[slice, list[Row]]]:
    """Run a conditional statement for rows of one partition, a hundred at once.

    Of each hundred all are applied, or none. Returns each part of `rows` of which none was, with
    what its conditions met.

    Raises:
        CassandraUnavailable: a transaction failed or timed out; others may be done.
    """
    parts = [slice(first, first + _TOGETHER) for first in range(0, len(rows), _TOGETHER)]
    answers = control.transactions(cql, (rows[part] for part in parts))
    pairs = zip(parts, answers, strict=True)
    return [(part, answer) for part, answer in pairs if not answer[0]["[applied]"]]


def apply_each(control: Control, cql: str, rows: Sequence[Sequence[object]]) -> None:
    """Run a conditional statement for rows of one partition; what a condition refuses stays.

    Raises:
        CassandraUnavailable: a transaction failed or timed out; others may be done.
    """
    for part, _ in refused(control, cql, rows):
        control.transactions(cql, ([row] for row in rows[part]))
