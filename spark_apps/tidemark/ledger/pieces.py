"""The ledger of pieces, which are planned, running, done, failed or held.

A piece is (application, subject, bucket size, time bucket). Its `attempt` is the fencing number: a
run raises it by a lightweight transaction when it starts the piece, and only the run that raised it
last can record how the piece ended.

A frontier (`frontier/`) sums up the done pieces: plans read it instead of the rows of all pieces,
and rows that it covers may be deleted (`frontier/retention.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Self

from tidemark import __version__, clock
from tidemark.cassandra.control import Control
from tidemark.errors import TidemarkError
from tidemark.ledger import schedule
from tidemark.ledger.frontier.partition import HIGHEST, LOWEST, Partition
from tidemark.ledger.frontier.state import LedgerState
from tidemark.ledger.piece import Piece, PieceRow, Reason, State
from tidemark.ledger.rebucketed import with_other_sizes
from tidemark.ledger.schedule import Schedule
from tidemark.partitioning.keys import BucketSize
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.settings import Settings
from tidemark.window import Window, from_millis, to_millis


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
        """Bind to a ledger; `version` is the version of the definition."""
        self._control, self._keyspace = control, keyspace
        self._names = (application, subject)
        self._size = size
        self._version = version
        self._partition = self._of_size(size)

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
        """Read the ledger's pieces with `first <= time_bucket < before` (epoch ms), ascending.

        The result includes time buckets that only rows of other bucket sizes cover (see
        `rebucketed`). Without bounds it grows with the ledger; `standing` does not.
        """
        low = LOWEST if first is None else first
        high = HIGHEST if before is None else before
        day = BucketSize.DAY.milliseconds
        rows_of_other_sizes = {
            other.size: other.entries(max(low - day, LOWEST), min(high + day, HIGHEST))
            for other in self._of_other_sizes()
        }
        own_rows = self._partition.entries(low, high)
        rows = (
            with_other_sizes(own_rows, rows_of_other_sizes, self._size)
            if any(rows_of_other_sizes.values())
            else own_rows
        )
        return [entry for entry in rows if low <= entry.time_bucket < high]

    def entries_of(self, time_buckets: Iterable[int]) -> list[PieceRow]:
        """Read the ledger's pieces of some time buckets (epoch ms), ascending."""
        buckets = TimeBuckets.of(time_buckets, self._size.milliseconds)
        return [row for first, before in buckets.ranges for row in self.entries(first, before)]

    def standing(self, before: int | None = None) -> LedgerState:
        """Read the state of the pieces with `time_bucket < before` (epoch ms).

        Done pieces are read as spans, so the cost does not grow with the age of the ledger. If the
        subject has pieces of several bucket sizes, every piece is read instead.
        """
        if not all(other.frontier().is_empty for other in self._of_other_sizes()):
            return LedgerState((), self.entries(before=before), self._size.milliseconds)
        high = HIGHEST if before is None else before
        return LedgerState(*self._partition.outside(high), self._size.milliseconds)

    def _of_other_sizes(self) -> list[Partition]:
        return [self._of_size(size) for size in BucketSize if size is not self._size]

    def _of_size(self, size: BucketSize) -> Partition:
        return Partition(self._control, self._keyspace, *self._names, size)

    def forget(self) -> None:
        """Delete every row of the application and subject, in all bucket sizes."""
        for size in BucketSize:
            self._of_size(size).forget()

    def done(self) -> TimeBuckets:
        """Return the time buckets (epoch ms) that this version of the definition has done."""
        return self.standing().done_by(self._version)

    def plan(self, buckets: Iterable[int], *, force: bool = False) -> list[Piece]:
        """Return the pieces to do: time buckets that are not done, and older unfinished pieces.

        `buckets` are the time buckets of the window (epoch ms); `force` repeats those that are
        done. A piece that failed, or whose run died, stays in the ledger until a run whose window
        ends after the piece takes it up.
        """
        window = set(buckets)
        if not window:
            return []
        _, entries = self._around(min(window), max(window) + 1)
        return schedule.planned(window, entries, self._version, force=force)

    def _around(self, first: int, before: int) -> tuple[TimeBuckets, list[PieceRow]]:
        """Read the known time buckets before `before`, and their pieces.

        Pieces before `first` that are in spans are left out.
        """
        state = self.standing(before)
        in_window = self.entries(first, before)
        older = [row for row in state.rows if row.time_bucket < first]
        return state.known, [*older, *in_window]

    def schedule(
        self,
        window: Window,
        *,
        most: int,
        force: bool = False,
        since: Iterable[int] = (),
        ready: Collection[int] | None = None,
        history: Collection[int] = (),
        changed: Collection[int] = (),
    ) -> Schedule:
        """Return the pieces of `plan` and the missed pieces, up to a bound.

        A missed piece is one between the ledger's first entry and the window that no run has begun:
        Airflow or Cassandra was down, or another run held the lock before the ledger had a row. The
        ledger does not have these time buckets, so no other run would do them.

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
            history: time buckets (epoch ms) before the window that the ledger does not have, with
                which the application begins.
            changed: time buckets (epoch ms) done by another version, to do again.
        """
        known_buckets, entries = self._around(to_millis(window.start), to_millis(window.end))
        entries += self.entries_of(changed)
        return schedule.scheduled(
            list(window.buckets(self._size)),
            entries,
            self._version,
            bucket_ms=self._size.milliseconds,
            known=known_buckets,
            most=most,
            force=force,
            since=since,
            ready=ready,
            history=history,
            changed=changed,
        )

    def note(self, pieces: Iterable[Piece]) -> None:
        """Write unknown pieces as planned, so that a later run takes them up."""
        pieces_by_bucket = {piece.time_bucket: piece for piece in pieces if piece.attempt == 0}
        if not pieces_by_bucket:
            return
        # Leave known pieces out: Cassandra would reject each in a separate transaction.
        known_buckets = self._partition.known(min(pieces_by_bucket), max(pieces_by_bucket) + 1)
        now = clock.now()
        self._partition.note(
            [
                (piece.time_bucket, State.PLANNED, piece.reason, now)
                for piece in pieces_by_bucket.values()
                if piece.time_bucket not in known_buckets
            ]
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
        """
        self._note_never_started(pieces)
        now = clock.now()
        planned = [
            {"state": State.PLANNED, "reason": piece.reason, "planned_at": now} for piece in pieces
        ]
        self._partition.open(pieces, planned, owner)

    def start(self, pieces: Sequence[Piece], *, owner: str, run_id: str) -> list[Piece]:
        """Write every piece as planned, then as running; return the pieces with the new attempt."""
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
        self._partition.open(pieces, running, owner)
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
        """Write how each piece ended, with its counts (by time bucket, epoch ms)."""
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
        if state is not State.DONE:
            self._partition.open(pieces, ended, owner)
            return
        self._partition.write(pieces, ended, owner)
        # The next run can derive the spans from the rows as well.
        with suppress(TidemarkError):
            self._partition.advance()


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
