"""The ledger of pieces, which are planned, running, done, failed or held.

A piece is (application, subject, bucket size, time bucket). Its `attempt` is the fencing number: a
run raises it by a lightweight transaction when it starts the piece, and only the run that raised it
last can record how the piece ended.
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
        """Bind to (application, subject, bucket size); `version` is that of the definition."""
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
        """Bind to the bucket size of the settings; the default subject is the journal keyspace."""
        return cls(
            control,
            settings.keyspace,
            application,
            subject or settings.journal_keyspace,
            settings.bucket_size,
            version,
        )

    def entries(self, first: int | None = None, before: int | None = None) -> list[PieceRow]:
        """Read the ledger's rows with `first <= time_bucket < before` (epoch ms), ascending.

        The result includes time buckets that only rows of other bucket sizes cover (see
        `rebucketed`).
        """
        low = -(2**63) if first is None else first
        high = 2**63 - 1 if before is None else before
        day = BucketSize.DAY.milliseconds
        rows_of_other_sizes = {
            size: self._stored(size, max(low - day, -(2**63)), min(high + day, 2**63 - 1))
            for size in BucketSize
            if size is not self._size
        }
        own = self._stored(self._size, low, high)
        rows = (
            with_other_sizes(own, rows_of_other_sizes, self._size)
            if any(rows_of_other_sizes.values())
            else own
        )
        return [entry for entry in rows if low <= entry.time_bucket < high]

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
        """Delete every row of the application and subject, in all bucket sizes.

        The deletes are lightweight transactions, as the writes were: a plain delete carries the
        time of the local clock, and a clock that is ahead would hide later writes.
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
        """Return the time buckets (epoch ms) that this version of the definition has done."""
        return {entry.time_bucket for entry in self.entries() if entry.is_done(self._version)}

    def plan(self, buckets: Iterable[int], *, force: bool = False) -> list[Piece]:
        """Return the pieces to do: time buckets that are not done, and older unfinished pieces.

        A piece that failed, or whose run died, stays in the ledger until a run whose window ends
        after the piece takes it up.

        Args:
            buckets: time buckets of the window, epoch ms.
            force: whether to do pieces of the window again that are done.
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
        history: Collection[int] = (),
    ) -> Schedule:
        """Return the pieces of `plan` and the missed pieces, up to a bound.

        A missed piece lies between the ledger's first entry and the window, and no run has begun
        it: Airflow or Cassandra was down, or another run held the lock before the ledger had a row.
        The ledger does not hold these time buckets, so no other run would do them.

        The run takes at most `most` pieces: first the pieces with the fewest attempts, then the
        oldest, so that a piece that keeps failing does not displace new ones. With `force`, the run
        takes its whole window in any case.

        Args:
            window: whole time buckets.
            most: highest number of pieces for one run.
            force: whether to do pieces of the window again that are done.
            since: time buckets (epoch ms) begun elsewhere, such as by a projection's live version;
                from the first of them on, no time bucket may be left out.
            ready: time buckets (epoch ms) that may count as missed; None for all.
            history: time buckets (epoch ms) before the window that the ledger does not hold, and
                that the application begins with.
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
            history=history,
        )

    def note(self, pieces: Iterable[Piece]) -> None:
        """Write unknown pieces as planned, so that a later run takes them up."""
        noted = list(pieces)
        if not noted:
            return
        buckets = [piece.time_bucket for piece in noted]
        # Leave known pieces out: Cassandra would refuse each in a transaction of its own.
        known_buckets = {
            entry.time_bucket for entry in self._stored(self._size, min(buckets), max(buckets) + 1)
        }
        now = clock.now()
        apply_each(
            self._control,
            f"INSERT INTO {self._table} (application, subject, bucket_size, time_bucket, state,"
            " reason, attempt, planned_at) VALUES (?, ?, ?, ?, ?, ?, 0, ?) IF NOT EXISTS",
            [
                (*self._key, piece.time_bucket, State.PLANNED, piece.reason, now)
                for piece in noted
                if piece.time_bucket not in known_buckets
            ],
        )

    def _note_never_started(self, pieces: Iterable[Piece]) -> None:
        self.note(
            piece
            for piece in pieces
            if piece.attempt == 0 and piece.reason is not Reason.UNFINISHED
        )

    def restate(self, pieces: Sequence[Piece], *, owner: str) -> None:
        """Write done pieces as planned again, each for its reason.

        The next run whose window ends after the pieces does them; their counts stay until then.

        Raises:
            LockLost: another run has started one of the pieces since it was read.
        """
        self._note_never_started(pieces)
        now = clock.now()
        planned = [
            {"state": State.PLANNED, "reason": piece.reason, "planned_at": now} for piece in pieces
        ]
        self._write(pieces, planned, owner)

    def start(self, pieces: Sequence[Piece], *, owner: str, run_id: str) -> list[Piece]:
        """Write every piece as planned, then as running; return the pieces with the new attempt.

        Raises:
            LockLost: another run has started one of the pieces since it was planned.
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
        """Write how each piece ended, with its counts (by time bucket, epoch ms).

        Raises:
            LockLost: another run has started one of the pieces since this run did.
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
        """Write the given columns of each piece, unless another run has started a piece."""
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
            # For a deleted row the answer has no columns.
            attempts = {row.get("time_bucket"): row.get("attempt") for row in met}
            taken = next(
                own for own in pieces[part] if attempts.get(own.time_bucket) != own.attempt
            )
            raise LockLost(
                f"another run has taken the piece {from_millis(taken.time_bucket)}",
                where=f"owner {owner}",
                do="run again when it has ended",
            )


def days(buckets: Iterable[int], prefix: str) -> Iterator[str]:
    """Yield the lock names of time buckets (epoch ms), one for each UTC day that they touch.

    Locks are by day and not by time bucket, so that a month of Minute buckets costs 31 locks and
    not 44,640.
    """
    for day in sorted({bucket // 86_400_000 for bucket in buckets}):
        yield f"{prefix}/{from_millis(day * 86_400_000):%Y-%m-%d}"


def describe(pieces: Iterable[Piece]) -> list[str]:
    """Return a plan for people: a line for each piece, with its reason."""
    return [f"{from_millis(piece.time_bucket):%Y-%m-%d %H:%M}  {piece.reason}" for piece in pieces]
