"""The rows of one ledger and its frontier, which are in one partition of the table `piece`.

The frontier is derived from the rows and is in the same partition, so a lightweight transaction can
change both. The transaction that begins or plans a piece again writes its row and removes the piece
from the spans. A transaction that adds done pieces to the spans has the condition that the revision
is still the one that was read before the rows: each start of a piece sets a new revision, so a span
never includes an open piece.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import NamedTuple

from tidemark.cassandra.conditional import ROWS_IN_TRANSACTION, apply_each, refused
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import identifier, table
from tidemark.errors import LockLost
from tidemark.ledger.frontier import spans as of_spans
from tidemark.ledger.frontier.spans import Span
from tidemark.ledger.piece import Piece, PieceRow, State
from tidemark.partitioning.keys import BucketSize
from tidemark.partitioning.time_buckets import Range, TimeBuckets
from tidemark.window import from_millis

LOWEST, HIGHEST = -(2**63), 2**63 - 1
TAKEN_UP_FROM = 256
"""The least number of done pieces outside of the spans that the frontier takes up."""
LEFT_OUT = 128
"""The number of newest done pieces that stay outside: they are the likeliest to be done again."""
_KEY = "application = ? AND subject = ? AND bucket_size = ?"
_COLUMNS = (
    "time_bucket, state, reason, attempt, counts, error, definition_version, planned_at,"
    " started_at, finished_at, run_id"
)
_MOST_RANGES = 128
"""The most ranges outside of the spans that a bounded read asks for."""
_TIMES = ("planned_at", "started_at", "finished_at")


@dataclass(frozen=True)
class Frontier:
    """The spans of a partition as they were read, with their revision."""

    spans: Sequence[Span] = ()
    revision: uuid.UUID | None = None
    is_empty: bool = field(default=True)


class Outside(NamedTuple):
    """What is read of a partition by a bounded read.

    Attributes:
        spans: all spans.
        rows: the first rows outside of them, ascending.
        read_to: the last time bucket up to which all rows were read; None if there are no others.
    """

    spans: Sequence[Span]
    rows: Sequence[PieceRow]
    read_to: int | None


class Partition:
    """The pieces of one application on one subject in one bucket size, whatever the definition."""

    def __init__(
        self, control: Control, keyspace: str, application: str, subject: str, size: BucketSize
    ) -> None:
        """Bind to (application, subject, bucket size) in Tidemark's own keyspace."""
        self._control = control
        self._table = table(keyspace, "piece")
        self.size = size
        self.key = (application, subject, size.value)

    def frontier(self) -> Frontier:
        """Read the spans; `is_empty` means that there is no piece at all."""
        # From the end: the rows of the spans may all be deleted, with tombstones still in files.
        rows = self._control.execute(
            f"SELECT revision, done_spans FROM {self._table} WHERE {_KEY}"
            " ORDER BY time_bucket DESC LIMIT 1",
            self.key,
        )
        if not rows:
            return Frontier()
        spans = [Span(*values) for values in rows[0]["done_spans"] or ()]
        return Frontier(spans, rows[0]["revision"], is_empty=False)

    def entries(self, first: int = LOWEST, before: int = HIGHEST) -> list[PieceRow]:
        """Read each piece with `first <= time_bucket < before`, ascending, even without a row."""
        spans, rows = self._settled(lambda _: [(first, before)])
        entries = {
            bucket: span.row(bucket)
            for span in of_spans.within(spans, first, before)
            for bucket in range(span.first, span.before, self.size.milliseconds)
        }
        entries |= {row.time_bucket: row for row in rows}
        return [entries[bucket] for bucket in sorted(entries)]

    def outside(self, before: int = HIGHEST) -> tuple[list[Span], list[PieceRow]]:
        """Read the spans up to `before`, exclusive, and the rows of all other pieces there."""

        def ranges(spans: Sequence[Span]) -> list[Range]:
            return of_spans.buckets_of(spans, self.size.milliseconds).holes(LOWEST, before)

        spans, rows = self._settled(ranges)
        return of_spans.within(spans, LOWEST, before), rows

    def first_outside(self, most: int) -> Outside:
        """Read the spans, and the first rows of all other pieces: as `outside`, but bounded."""
        spans = self.frontier().spans
        while True:
            rows, read_to = self._first_rows(spans, most)
            spans, before = self.frontier().spans, spans
            if spans == before:
                return Outside(spans, rows, read_to)

    def _first_rows(self, spans: Sequence[Span], most: int) -> tuple[list[PieceRow], int | None]:
        rows: list[PieceRow] = []
        for first, before in self._few_holes(spans):
            left = most + 1 - len(rows)
            found = self._limited("time_bucket >= ? AND time_bucket < ?", (first, before), left)
            rows += [row for row in found if of_spans.covering(spans, row.time_bucket) is None]
            if len(found) == left:
                return rows[:most], found[-1].time_bucket - (len(rows) > most)
        return rows, None

    def _few_holes(self, spans: Sequence[Span]) -> list[Range]:
        """Return the ranges outside of the spans; many are joined over the shortest spans."""
        holes = of_spans.buckets_of(spans, self.size.milliseconds).holes(LOWEST, HIGHEST)
        longest = sorted(range(1, len(holes)), key=lambda at: holes[at - 1][1] - holes[at][0])
        cuts = [0, *sorted(longest[: _MOST_RANGES - 1]), len(holes)]
        return [(holes[at][0], holes[end - 1][1]) for at, end in pairwise(cuts)]

    def page(self, before: int, limit: int) -> list[PieceRow]:
        """Read the newest pieces before a time bucket, the newest first, each row gone or not."""
        spans = self.frontier().spans
        while True:
            newest = "time_bucket < ? ORDER BY time_bucket DESC"
            rows = {row.time_bucket: row for row in self._limited(newest, (before,), limit)}
            spans, as_read = self.frontier().spans, spans
            if spans == as_read:
                break
        in_spans = (
            (bucket, span)
            for span in reversed(of_spans.within(spans, LOWEST, before))
            for bucket in reversed(range(span.first, span.before, self.size.milliseconds))
        )
        entries = {bucket: span.row(bucket) for bucket, span in islice(in_spans, limit)} | rows
        return [entries[bucket] for bucket in sorted(entries, reverse=True)[:limit]]

    def page_outside(self, before: int, limit: int) -> tuple[list[PieceRow], int | None]:
        """Read the newest pieces before a time bucket that are in no span, the newest first.

        Returns:
            the pieces, and the time bucket before which there may be more; None if there are none.
        """
        spans = self.frontier().spans
        rows: list[PieceRow] = []
        for first, end in reversed(self._few_holes(spans)):
            if first >= before:
                continue
            left = limit - len(rows)
            newest = "time_bucket >= ? AND time_bucket < ? ORDER BY time_bucket DESC"
            found = self._limited(newest, (first, min(end, before)), left)
            rows += [row for row in found if of_spans.covering(spans, row.time_bucket) is None]
            if len(found) == left:
                return rows, found[-1].time_bucket
        return rows, None

    def _limited(self, condition: str, values: Sequence[object], limit: int) -> list[PieceRow]:
        found = self._control.execute(
            f"SELECT {_COLUMNS} FROM {self._table} WHERE {_KEY} AND {condition} LIMIT ?",
            (*self.key, *values, limit),
        )
        return [_piece_row(row) for row in found]

    def _settled(
        self, ranges: Callable[[Sequence[Span]], Sequence[Range]]
    ) -> tuple[Sequence[Span], list[PieceRow]]:
        """Read spans and rows such that no piece has moved from one to the other in between."""
        spans = self.frontier().spans
        while True:
            rows = self._rows(ranges(spans))
            spans, earlier = self.frontier().spans, spans
            if spans == earlier:
                return spans, rows

    def _rows(self, ranges: Sequence[Range]) -> list[PieceRow]:
        rows_by_range = self._control.execute_many(
            f"SELECT {_COLUMNS} FROM {self._table}"
            f" WHERE {_KEY} AND time_bucket >= ? AND time_bucket < ?",
            [(*self.key, first, before) for first, before in ranges],
        )
        return [_piece_row(row) for rows in rows_by_range for row in rows]

    def known(self, first: int, before: int) -> TimeBuckets:
        """Read the time buckets with `first <= time_bucket < before` that have a row or are done.

        The spans are read last: a piece enters a span before its row is deleted.
        """
        rows = self._rows([(first, before)])
        spans = of_spans.within(self.frontier().spans, first, before)
        done = of_spans.buckets_of(spans, self.size.milliseconds)
        return done | (row.time_bucket for row in rows)

    def count(self, ranges: Sequence[Range]) -> list[int]:
        """Count the rows of each range of time buckets."""
        counts = self._control.execute_many(
            f"SELECT count(*) AS rows FROM {self._table}"
            f" WHERE {_KEY} AND time_bucket >= ? AND time_bucket < ?",
            [(*self.key, first, before) for first, before in ranges],
        )
        return [rows[0]["rows"] for rows in counts]

    def note(self, values: Sequence[tuple[object, ...]]) -> None:
        """Insert rows (time bucket, state, reason, planned at) unless they exist."""
        apply_each(
            self._control,
            f"INSERT INTO {self._table} (application, subject, bucket_size, time_bucket, state,"
            " reason, attempt, planned_at) VALUES (?, ?, ?, ?, ?, ?, 0, ?) IF NOT EXISTS",
            [(*self.key, *row) for row in values],
        )

    def write(
        self, pieces: Sequence[Piece], values: Sequence[Mapping[str, object]], owner: str
    ) -> None:
        """Write the given columns of pieces; the spans stay as they are.

        Raises:
            LockLost: another run has started one of the pieces since it was read.
        """
        if not pieces:
            return
        columns = ", ".join(f"{identifier(name)} = ?" for name in values[0])
        lost = refused(
            self._control,
            f"UPDATE {self._table} SET {columns} WHERE {_KEY} AND time_bucket = ? IF attempt = ?",
            [
                (*row.values(), *self.key, piece.time_bucket, piece.attempt)
                for piece, row in zip(pieces, values, strict=True)
            ],
        )
        for part, current_rows in lost:
            raise _lost(pieces[part], current_rows, owner)

    def open(
        self, pieces: Sequence[Piece], values: Sequence[Mapping[str, object]], owner: str
    ) -> None:
        """Write the given columns of pieces that are no longer done.

        The same transactions remove the pieces from the spans. A piece whose row was deleted gets a
        row again; its attempt must be that of its span.

        Raises:
            LockLost: another run has started one of the pieces since it was read.
        """
        pairs = list(zip(pieces, values, strict=True))
        # A piece that was never started is in no span.
        never_begun = [pair for pair in pairs if pair[0].attempt == 0]
        self.write([piece for piece, _ in never_begun], [row for _, row in never_begun], owner)
        begun = [pair for pair in pairs if pair[0].attempt > 0]
        for first in range(0, len(begun), ROWS_IN_TRANSACTION):
            while not self._opened(begun[first : first + ROWS_IN_TRANSACTION], owner):
                pass

    def _opened(self, pairs: Sequence[tuple[Piece, Mapping[str, object]]], owner: str) -> bool:
        """Return False if the spans have changed, or another run has begun pieces, meanwhile."""
        frontier = self.frontier()
        inside = {
            piece.time_bucket: span
            for piece, _ in pairs
            if (span := of_spans.covering(frontier.spans, piece.time_bucket)) is not None
        }
        without_row: dict[int, Span] = {}
        if inside:
            existing = self._control.execute(
                f"SELECT time_bucket FROM {self._table} WHERE {_KEY} AND time_bucket IN ?",
                (*self.key, list(inside)),
            )
            without_row = {bucket: inside[bucket] for bucket in inside.keys() - _buckets(existing)}
        spans = of_spans.without(frontier.spans, inside, self.size.milliseconds)
        statements = [self._change_of(frontier, spans)]
        for piece, row in pairs:
            columns: dict[str, object] = {"attempt": piece.attempt, **row}
            if (span := without_row.get(piece.time_bucket)) is not None:
                if span.attempt != piece.attempt:
                    raise _taken(piece, owner)
                columns = {
                    "definition_version": span.version,
                    "finished_at": from_millis(span.ended_last),
                    **columns,
                }
            names = ", ".join(f"{identifier(name)} = ?" for name in columns)
            expected = None if span is not None else piece.attempt
            cql = f"UPDATE {self._table} SET {names} WHERE {_KEY} AND time_bucket = ?"
            values = (*columns.values(), *self.key, piece.time_bucket, expected)
            statements.append((f"{cql} IF attempt = ?", values))
        answer = self._control.transaction(statements)
        if answer[0]["[applied]"]:
            return True
        if self.frontier().revision != frontier.revision:
            return False
        raise _lost([piece for piece, _ in pairs], answer, owner)

    def advance(self) -> None:
        """Add done pieces to the spans if there are many; do nothing if pieces begin meanwhile."""
        frontier = self.frontier()
        bucket_ms = self.size.milliseconds
        holes = of_spans.buckets_of(frontier.spans, bucket_ms).holes(LOWEST, HIGHEST)
        done = [row for row in self._rows(holes) if row.state is State.DONE]
        if len(done) < TAKEN_UP_FROM:
            return
        spans = of_spans.extended(frontier.spans, done[: len(done) - LEFT_OUT], bucket_ms)
        if spans != frontier.spans:
            self._control.transaction([self._change_of(frontier, spans)])

    def delete_rows(self, frontier: Frontier, ranges: Sequence[Range]) -> bool:
        """Delete the rows of ranges of time buckets inside of the spans, and seal the spans there.

        `frontier` was read before the ranges were chosen. Returns False, with nothing deleted, if
        pieces were begun or added to the spans since.

        The deletes are one transaction, so their write time is not that of a local clock, which
        could hide a row that is written later.
        """
        cql = f"DELETE FROM {self._table} WHERE {_KEY} AND time_bucket >= ? AND time_bucket < ?"
        deletes = [(cql, (*self.key, *bounds)) for bounds in ranges]
        sealed = of_spans.sealed(frontier.spans, TimeBuckets(ranges, self.size.milliseconds))
        answer = self._control.transaction([self._change_of(frontier, sealed), *deletes])
        return bool(answer[0]["[applied]"])

    def forget(self) -> None:
        """Delete first the spans and then every row.

        The deletes are lightweight transactions, like the writes: a plain delete has the time of
        the local clock, and with a clock that is ahead it would hide later writes.
        """
        cql = f"UPDATE {self._table} SET revision = null, done_spans = null WHERE {_KEY}"
        while (revision := self.frontier().revision) is not None:
            self._control.transaction([(f"{cql} IF revision = ?", (*self.key, revision))])
        apply_each(
            self._control,
            f"DELETE FROM {self._table} WHERE {_KEY} AND time_bucket = ? IF EXISTS",
            [(*self.key, row.time_bucket) for row in self._rows([(LOWEST, HIGHEST)])],
        )

    def _change_of(
        self, frontier: Frontier, spans: Sequence[Span]
    ) -> tuple[str, tuple[object, ...]]:
        return (
            f"UPDATE {self._table} SET revision = ?, done_spans = ? WHERE {_KEY} IF revision = ?",
            (uuid.uuid4(), list(spans) or None, *self.key, frontier.revision),
        )


def _piece_row(row: Row) -> PieceRow:
    return PieceRow(
        time_bucket=row["time_bucket"],
        state=State(row["state"]),
        attempt=row["attempt"] or 0,
        counts=dict(row["counts"] or {}),
        error=row["error"],
        definition_version=row["definition_version"],
        finished_at=row["finished_at"],
        reason=row["reason"],
        touched_at=max((at for name in _TIMES if (at := row[name]) is not None), default=None),
        run_id=row["run_id"],
    )


def _buckets(rows: Sequence[Row]) -> set[int]:
    return {row["time_bucket"] for row in rows}


def _lost(pieces: Sequence[Piece], current_rows: Sequence[Row], owner: str) -> LockLost:
    # For a deleted row the answer has no columns.
    attempts = {row.get("time_bucket"): row.get("attempt") for row in current_rows}
    changed = (piece for piece in pieces if attempts.get(piece.time_bucket) != piece.attempt)
    return _taken(next(changed, pieces[0]), owner)


def _taken(piece: Piece, owner: str) -> LockLost:
    return LockLost(
        f"another run has taken the piece {from_millis(piece.time_bucket)}",
        where=f"owner {owner}",
        do="run again when it has ended",
    )
