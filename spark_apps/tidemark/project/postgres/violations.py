"""Finds the rows of a batch that PostgreSQL rejects, by bisection on the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from uuid import uuid4

from tidemark.errors import RowRefused, RowsRefused, TidemarkError
from tidemark.postgres.identifiers import TableName
from tidemark.postgres.session import session
from tidemark.postgres.staged import ATTEMPT
from tidemark.postgres.statements import statement
from tidemark.postgres.transaction import begun
from tidemark.project.definition.model import Definition
from tidemark.project.postgres.fence import Fence
from tidemark.project.postgres.merges import ROW, Merge

MOST = 1000
"""Most rows to find: if more are rejected, the events are hardly the cause."""
_EVENT = ("persistence_id", "sequence_nr")
_IDLE_S = 600


def found(fence: Fence, merge: Merge, definition: Definition, error: RowRefused) -> TidemarkError:
    """Return the error of a merge that was rolled back, with the rows that are the cause.

    If a row belongs to no single event, or no row is rejected alone, it is an error of the batch.
    """
    with _numbered(fence, merge) as numbered:
        causes = _search(fence, replace(merge, source=numbered), definition)
        if causes and set(_EVENT) <= merge.types.keys():
            return RowsRefused(_of_events(fence, numbered, causes), definition.target)
    return TidemarkError(
        f"{definition.target} rejects {len(causes) or ''} rows of the result: {error.what}".replace(
            "  ", " "
        ),
        where=str(definition.file),
        do="correct the events, the result or the constraint",
    )


@contextmanager
def _numbered(fence: Fence, merge: Merge) -> Iterator[TableName]:
    """Yield a copy of the staging table whose rows that count have numbers, in order of the key."""
    place = fence.place
    numbered = TableName(place.schema, f"{fence.staging}{uuid4().hex[:12]}")
    with session(place.connection) as opened:
        opened.execute(
            statement(
                "CREATE UNLOGGED TABLE {numbered} AS"
                " SELECT s.*, row_number() OVER (ORDER BY {key}) AS {row} FROM {source} s"
                " WHERE s.{attempt} = ANY(%s)",
                numbered=numbered,
                key=[*merge.key],
                row=ROW,
                source=merge.source,
                attempt=ATTEMPT,
            ),
            (merge.attempts,),
        )
        try:
            opened.execute(
                statement(
                    "ALTER TABLE {numbered} ADD PRIMARY KEY ({row})", numbered=numbered, row=ROW
                )
            )
            yield numbered
        finally:
            opened.execute(statement("DROP TABLE {numbered}", numbered=numbered))


def _search(fence: Fence, merge: Merge, definition: Definition) -> dict[int, str]:
    """Return the cause of each rejected row by its number, in a transaction that is rolled back.

    Of two rows that exclude each other, the one with the higher key is rejected.
    """
    place, causes = fence.place, dict[int, str]()
    with begun(place.connection, idle_s=_IDLE_S) as transaction:
        fence.hold(transaction, 0)
        for text, values in merge.preparation(definition.mode):
            transaction.execute(text, values)
        row = transaction.execute(
            statement("SELECT max({row}) FROM {source}", row=ROW, source=merge.source)
        ).fetchone()
        ranges = [(1, row[0])] if row and row[0] else []
        while ranges:
            first, last = ranges.pop()
            text, values = replace(merge, within=(first, last)).insertion(definition.mode)
            try:
                with transaction.savepoint():
                    transaction.execute(text, values)
            except RowRefused as error:
                middle = (first + last) // 2
                if first == last:
                    causes[first] = error.what
                else:
                    ranges += [(middle + 1, last), (first, middle)]
            if len(causes) > MOST:
                raise TidemarkError(
                    f"{definition.target} rejects more than {MOST:,} rows of a batch:"
                    f" {causes[min(causes)]}",
                    where=str(definition.file),
                    do="correct the result or the constraint",
                )
    return causes


def _of_events(
    fence: Fence, numbered: TableName, causes: Mapping[int, str]
) -> dict[tuple[str, int], str]:
    with session(fence.place.connection) as opened:
        rows = opened.execute(
            statement(
                "SELECT {row}, persistence_id, sequence_nr FROM {numbered} WHERE {row} = ANY(%s)",
                row=ROW,
                numbered=numbered,
            ),
            ([*causes],),
        ).fetchall()
    return {(persistence_id, number): causes[row] for row, persistence_id, number in rows}
