"""Many rows of one partition, changed by few lightweight transactions.

Each transaction costs rounds of its own, and those of one partition wait for each other: a year of
Hour buckets, piece by piece, would take longer than what is done with them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.cassandra.control import Control, Row

_TOGETHER = 100


def refused(
    control: Control, cql: str, rows: Sequence[Sequence[object]]
) -> list[tuple[range, list[Row]]]:
    """Run a conditional statement for rows of one partition, a hundred at once.

    Of each hundred all are applied, or none. Returns where in `rows` those stand of which none was,
    with what their conditions met.

    Raises:
        CassandraUnavailable: a transaction failed or timed out; others may be done.
    """
    places = range(len(rows))
    batches = [places[first : first + _TOGETHER] for first in places[::_TOGETHER]]
    answers = control.execute_batches(cql, ([rows[place] for place in batch] for batch in batches))
    pairs = zip(batches, answers, strict=True)
    return [(batch, answer) for batch, answer in pairs if not answer[0]["[applied]"]]


def apply_each(control: Control, cql: str, rows: Sequence[Sequence[object]]) -> None:
    """Run a conditional statement for rows of one partition; what a condition refuses stays.

    Raises:
        CassandraUnavailable: a transaction failed or timed out; others may be done.
    """
    for places, _ in refused(control, cql, rows):
        control.execute_many(cql, [rows[place] for place in places])
