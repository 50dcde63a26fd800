"""The ledger of pieces: what is planned, running, done, failed or held.

A piece is (application, subject, time bucket). Its `attempt` is the fencing number: it is raised
by a lightweight transaction when a run starts the piece, and only the run that raised it last can
say how the piece ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from tidemark import __version__, clock
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.errors import LockLost
from tidemark.ledger.together import apply_each, refused
from tidemark.window import from_millis


class State(StrEnum):
    """The life of a piece."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    HELD = "held"


class Reason(StrEnum):
    """Why a piece is in a plan."""

    NEW = "new"
    UNFINISHED = "unfinished"
    CHANGED = "changed definition"
    FORCED = "forced"
    LATE = "late"
    GAP = "gap"
    RESTATED = "restated"


GAP_ERROR = "gap:"
"""What the error of a piece begins with that is held because events are missing."""


@dataclass(frozen=True)
class Piece:
    """A piece in a plan, with the attempt that the ledger knew when it was planned."""

    time_bucket: int
    reason: Reason
    attempt: int = 0


@dataclass(frozen=True)
class Entry:
    """A row of the ledger."""

    time_bucket: int
    state: State
    attempt: int
    counts: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None
    definition_version: str | None = None
    finished_at: datetime | None = None
    reason: str | None = None

    @property
    def has_gap(self) -> bool:
        """Whether it waits for missing events."""
        return self.state is State.HELD and (self.error or "").startswith(GAP_ERROR)

    def is_done(self, version: str) -> bool:
        """Whether this version of the definition has processed the piece."""
        return self.state is State.DONE and (self.definition_version or "") == version


class Pieces:
    """The pieces of one application on one subject."""

    def __init__(
        self, control: Control, keyspace: str, application: str, subject: str, version: str = ""
    ) -> None:
        """Bind to the partition (application, subject); `version` is the definition's."""
        self._control = control
        self._key = (application, subject)
        self._version = version
        self._table = table(keyspace, "piece")

    def entries(self, first: int | None = None, before: int | None = None) -> list[Entry]:
        """The ledger's rows with `first <= time_bucket < before`, ascending.

        Raises:
            CassandraUnavailable: the statement failed.
        """
        rows = self._control.execute(
            "SELECT time_bucket, state, reason, attempt, counts, error, definition_version,"
            f" finished_at FROM {self._table} WHERE application = ? AND subject = ?"
            " AND time_bucket >= ? AND time_bucket < ?",
            (
                *self._key,
                -(2**63) if first is None else first,
                2**63 - 1 if before is None else before,
            ),
        )
        return [
            Entry(
                time_bucket=row["time_bucket"],
                state=State(row["state"]),
                attempt=row["attempt"] or 0,
                counts=dict(row["counts"] or {}),
                error=row["error"],
                definition_version=row["definition_version"],
                finished_at=row["finished_at"],
                reason=row["reason"],
            )
            for row in rows
        ]

    def done(self) -> set[int]:
        """The time buckets that are done, by this version of the definition.

        Raises:
            CassandraUnavailable: the statement failed.
        """
        return {entry.time_bucket for entry in self.entries() if entry.is_done(self._version)}

    def plan(self, buckets: Iterable[int], *, force: bool = False) -> list[Piece]:
        """What is to do: the buckets that are not done, and older pieces left unfinished.

        A piece that failed, or whose run died, stays in the ledger and is taken up by the next
        run whose window ends after it: gaps heal themselves.

        Args:
            buckets: the time buckets of the window, epoch milliseconds.
            force: do those of the window again even if they are done.

        Raises:
            CassandraUnavailable: the statement failed.
        """
        wanted = sorted(buckets)
        if not wanted:
            return []
        known = {entry.time_bucket: entry for entry in self.entries(before=wanted[-1] + 1)}
        plan = [
            Piece(bucket, reason, known[bucket].attempt if bucket in known else 0)
            for bucket in wanted
            if (reason := self._reason(known.get(bucket), force)) is not None
        ]
        unfinished = [
            Piece(entry.time_bucket, _reason_of_open(entry), entry.attempt)
            for entry in known.values()
            if entry.time_bucket not in set(wanted) and entry.state is not State.DONE
        ]
        return sorted(unfinished + plan, key=lambda piece: piece.time_bucket)

    def _reason(self, entry: Entry | None, force: bool) -> Reason | None:
        if entry is None:
            return Reason.NEW
        if entry.state is not State.DONE:
            return _reason_of_open(entry)
        if (entry.definition_version or "") != self._version:
            return Reason.CHANGED
        return Reason.FORCED if force else None

    def note(self, pieces: Iterable[Piece]) -> None:
        """Write pieces as planned unless they are known: a later run takes them up.

        Raises:
            CassandraUnavailable: a statement failed.
        """
        now = clock.now()
        apply_each(
            self._control,
            f"INSERT INTO {self._table} (application, subject, time_bucket, state, reason, attempt,"
            " planned_at) VALUES (?, ?, ?, ?, ?, 0, ?) IF NOT EXISTS",
            [(*self._key, piece.time_bucket, State.PLANNED, piece.reason, now) for piece in pieces],
        )

    def restate(self, pieces: Sequence[Piece], *, owner: str) -> None:
        """Write pieces that are done as planned again, for the reason given.

        The next run whose window ends after them does them; their counts stay until then.

        Raises:
            LockLost: another run has started one of them since it was read.
            CassandraUnavailable: a statement failed.
        """
        now = clock.now()
        planned = [
            {"state": State.PLANNED, "reason": piece.reason, "planned_at": now} for piece in pieces
        ]
        self._write(pieces, planned, owner)

    def start(self, pieces: Sequence[Piece], *, owner: str, run_id: str) -> list[Piece]:
        """Write every piece as planned, then as running; returns them with their new attempt.

        Raises:
            LockLost: another run started one of them since it was planned.
            CassandraUnavailable: a statement failed.
        """
        self.note(piece for piece in pieces if piece.reason is Reason.NEW)
        now = clock.now()
        running = [
            {
                "state": State.RUNNING,
                "reason": piece.reason,
                "attempt": piece.attempt + 1,
                "owner": owner,
                "run_id": run_id,
                "code_version": __version__,
                "definition_version": self._version,
                "started_at": now,
                "error": None,
            }
            for piece in pieces
        ]
        self._write(pieces, running, owner)
        return [Piece(piece.time_bucket, piece.reason, piece.attempt + 1) for piece in pieces]

    def finish(
        self,
        pieces: Sequence[Piece],
        state: State,
        *,
        owner: str,
        counts: Mapping[int, Mapping[str, int]] | None = None,
        error: str | None = None,
    ) -> None:
        """Write how each piece ended, with its counts by time bucket.

        Raises:
            LockLost: another run has started one of them since.
            CassandraUnavailable: a statement failed.
        """
        now = clock.now()
        ended = [
            {
                "state": state,
                "counts": dict((counts or {}).get(piece.time_bucket, {})),
                "error": error,
                "finished_at": now,
            }
            for piece in pieces
        ]
        self._write(pieces, ended, owner)

    def _write(
        self, pieces: Sequence[Piece], values: Sequence[Mapping[str, object]], owner: str
    ) -> None:
        """Write those columns of each piece, unless another run has started one of them."""
        if not pieces:
            return
        columns = ", ".join(f"{name} = ?" for name in values[0])
        lost = refused(
            self._control,
            f"UPDATE {self._table} SET {columns}"
            " WHERE application = ? AND subject = ? AND time_bucket = ? IF attempt = ?",
            [
                (*row.values(), *self._key, piece.time_bucket, piece.attempt)
                for piece, row in zip(pieces, values, strict=True)
            ],
        )
        for part, met in lost:
            # Of rows that are gone the answer has no columns.
            attempts = {row.get("time_bucket"): row.get("attempt") for row in met}
            taken = next(
                one for one in pieces[part] if attempts.get(one.time_bucket) != one.attempt
            )
            raise LockLost(
                f"another run has taken the piece {from_millis(taken.time_bucket)}",
                where=f"owner {owner}",
                do="run again when it has ended",
            )


def _reason_of_open(entry: Entry) -> Reason:
    """Why a piece that is not done is in a plan."""
    if entry.has_gap:
        return Reason.GAP
    if entry.state is State.PLANNED and entry.reason not in (None, Reason.NEW):
        return Reason(entry.reason)
    return Reason.UNFINISHED


def days(pieces: Iterable[Piece], prefix: str) -> Iterator[str]:
    """The locks of pieces: one for each UTC day that they touch.

    A day and not a bucket, so that a month of Minute buckets costs 31 locks and not 44,640.
    """
    for day in sorted({piece.time_bucket // 86_400_000 for piece in pieces}):
        yield f"{prefix}/{from_millis(day * 86_400_000):%Y-%m-%d}"


def describe(pieces: Iterable[Piece]) -> list[str]:
    """A plan for people: each piece and why it is in it."""
    return [f"{from_millis(piece.time_bucket):%Y-%m-%d %H:%M}  {piece.reason}" for piece in pieces]
