"""The ledger of pieces: what is planned, running, done, failed or held.

A piece is (application, subject, bucket size, time bucket). Its `attempt` is the fencing number: it
is raised by a lightweight transaction when a run starts the piece, and only the run that raised it
last can say how the piece ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Self

from tidemark import __version__, clock
from tidemark.cassandra.conditional import apply_each, refused
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.errors import LockLost
from tidemark.ledger import schedule
from tidemark.ledger.piece import GAP_ERROR, Piece, PieceRow, Reason, State
from tidemark.ledger.rebucketed import with_other_sizes
from tidemark.ledger.schedule import Schedule
from tidemark.partitioning.keys import BucketSize
from tidemark.settings import Settings
from tidemark.window import Window, from_millis, to_millis

__all__ = ["GAP_ERROR", "Piece", "PieceRow", "Pieces", "Reason", "State"]


_TIMES = ("planned_at", "started_at", "finished_at")


class Pieces:
    """The pieces of one application on one subject, in time buckets of one size."""

    def __init__(
        self,
        control: Control,
        keyspace: str,
        application: str,
        subject: str,
        size: BucketSize,
        version: str = "",
    ) -> None:
        """Bind to (application, subject, bucket size); `version` is the definition's."""
        self._control = control
        self._names = (application, subject)
        self._size = size
        self._key = (application, subject, size.value)
        self._version = version
        self._table = table(keyspace, "piece")

    @classmethod
    def of(
        cls,
        control: Control,
        settings: Settings,
        application: str,
        subject: str = "",
        version: str = "",
    ) -> Self:
        """The pieces in the settings' bucket size; without a subject those of the journal."""
        return cls(
            control,
            settings.keyspace,
            application,
            subject or settings.journal_keyspace,
            settings.bucket_size,
            version,
        )

    def entries(self, first: int | None = None, before: int | None = None) -> list[PieceRow]:
        """The ledger's rows with `first <= time_bucket < before`, ascending.

        Time buckets of which only rows of other bucket sizes speak are among them, see
        `rebucketed`.
        """
        low = -(2**63) if first is None else first
        high = 2**63 - 1 if before is None else before
        day = BucketSize.DAY.milliseconds
        others = {
            size: self._stored(size, max(low - day, -(2**63)), min(high + day, 2**63 - 1))
            for size in BucketSize
            if size is not self._size
        }
        own = self._stored(self._size, low, high)
        found = with_other_sizes(own, others, self._size) if any(others.values()) else own
        return [entry for entry in found if low <= entry.time_bucket < high]

    def _stored(self, size: BucketSize, first: int, before: int) -> list[PieceRow]:
        rows = self._control.execute(
            "SELECT time_bucket, state, reason, attempt, counts, error, definition_version,"
            f" planned_at, started_at, finished_at FROM {self._table}"
            " WHERE application = ? AND subject = ? AND bucket_size = ?"
            " AND time_bucket >= ? AND time_bucket < ?",
            (*self._names, size.value, first, before),
        )
        return [
            PieceRow(
                time_bucket=row["time_bucket"],
                state=State(row["state"]),
                attempt=row["attempt"] or 0,
                counts=dict(row["counts"] or {}),
                error=row["error"],
                definition_version=row["definition_version"],
                finished_at=row["finished_at"],
                reason=row["reason"],
                touched_at=max(
                    (at for name in _TIMES if (at := row[name]) is not None), default=None
                ),
            )
            for row in rows
        ]

    def forget(self) -> None:
        """Delete every row, of each bucket size.

        By lightweight transactions, as they were written: a plain delete carries the time of our
        clock, and one that is ahead would hide what is written afterwards.
        """
        for size in BucketSize:
            rows = self._stored(size, -(2**63), 2**63 - 1)
            apply_each(
                self._control,
                f"DELETE FROM {self._table} WHERE application = ? AND subject = ?"
                " AND bucket_size = ? AND time_bucket = ? IF EXISTS",
                [(*self._names, size.value, row.time_bucket) for row in rows],
            )

    def done(self) -> set[int]:
        """The time buckets that are done, by this version of the definition."""
        return {entry.time_bucket for entry in self.entries() if entry.is_done(self._version)}

    def plan(self, buckets: Iterable[int], *, force: bool = False) -> list[Piece]:
        """What is to do: the buckets that are not done, and older pieces left unfinished.

        A piece that failed, or whose run died, stays in the ledger and is taken up by the next
        run whose window ends after it: gaps heal themselves.

        Args:
            buckets: the time buckets of the window, epoch milliseconds.
            force: do those of the window again even if they are done.
        """
        wanted = set(buckets)
        if not wanted:
            return []
        return schedule.planned(
            wanted, self.entries(before=max(wanted) + 1), self._version, force=force
        )

    def schedule(
        self,
        window: Window,
        *,
        most: int,
        force: bool = False,
        since: Iterable[int] = (),
        ready: Collection[int] | None = None,
    ) -> Schedule:
        """The same, and what no run has begun between the ledger's first entry and the window.

        Airflow was down, Cassandra was, or another run held the lock before the ledger was told:
        the time buckets of such a run are in no ledger, and nobody else would do them.

        At most `most` pieces are for this run, those tried least first, then the oldest: what fails
        again and again must not keep a run from what is new. `force` does its window all the same.

        Args:
            window: whole time buckets.
            most: the bound.
            force: do those of the window again even if they are done.
            since: time buckets that somebody else began, epoch ms: none from the first of them on
                may be left out.
            ready: if given, nothing else is taken for missed.
        """
        return schedule.scheduled(
            list(window.buckets(self._size)),
            self.entries(before=to_millis(window.end)),
            self._version,
            bucket_ms=self._size.milliseconds,
            most=most,
            force=force,
            since=since,
            ready=ready,
        )

    def note(self, pieces: Iterable[Piece]) -> None:
        """Write pieces as planned unless they are known: a later run takes them up."""
        wanted = list(pieces)
        if not wanted:
            return
        buckets = [piece.time_bucket for piece in wanted]
        # Those that are known would be refused one by one, each by a transaction of its own.
        known = {
            entry.time_bucket for entry in self._stored(self._size, min(buckets), max(buckets) + 1)
        }
        now = clock.now()
        apply_each(
            self._control,
            f"INSERT INTO {self._table} (application, subject, bucket_size, time_bucket, state,"
            " reason, attempt, planned_at) VALUES (?, ?, ?, ?, ?, ?, 0, ?) IF NOT EXISTS",
            [
                (*self._key, piece.time_bucket, State.PLANNED, piece.reason, now)
                for piece in wanted
                if piece.time_bucket not in known
            ],
        )

    def _note_never_started(self, pieces: Iterable[Piece]) -> None:
        self.note(
            piece
            for piece in pieces
            if piece.attempt == 0 and piece.reason is not Reason.UNFINISHED
        )

    def restate(self, pieces: Sequence[Piece], *, owner: str) -> None:
        """Write pieces that are done as planned again, for the reason given.

        The next run whose window ends after them does them; their counts stay until then.

        Raises:
            LockLost: another run has started one of them since it was read.
        """
        self._note_never_started(pieces)
        now = clock.now()
        planned = [
            {"state": State.PLANNED, "reason": piece.reason, "planned_at": now} for piece in pieces
        ]
        self._write(pieces, planned, owner)

    def start(self, pieces: Sequence[Piece], *, owner: str, run_id: str) -> list[Piece]:
        """Write every piece as planned, then as running; returns them with their new attempt.

        Raises:
            LockLost: another run started one of them since it was planned.
        """
        self._note_never_started(pieces)
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
            " WHERE application = ? AND subject = ? AND bucket_size = ? AND time_bucket = ?"
            " IF attempt = ?",
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


def days(buckets: Iterable[int], prefix: str) -> Iterator[str]:
    """The locks of time buckets (epoch ms): one for each UTC day that they touch.

    A day and not a bucket, so that a month of Minute buckets costs 31 locks and not 44,640.
    """
    for day in sorted({bucket // 86_400_000 for bucket in buckets}):
        yield f"{prefix}/{from_millis(day * 86_400_000):%Y-%m-%d}"


def describe(pieces: Iterable[Piece]) -> list[str]:
    """A plan for people: each piece and why it is in it."""
    return [f"{from_millis(piece.time_bucket):%Y-%m-%d %H:%M}  {piece.reason}" for piece in pieces]
