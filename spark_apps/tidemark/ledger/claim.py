"""Claims on pieces: one block that holds their locks and records their states in the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from tidemark.context import RunContext
from tidemark.errors import LockHeld, TidemarkError, reason_of
from tidemark.ledger.locks import Locks
from tidemark.ledger.piece import Piece, State
from tidemark.ledger.pieces import Pieces, days
from tidemark.ledger.runs import note_progress


class DayLocks:
    """The locks of days under one resource; a holder may add more days.

    Use as a context manager: the end of the block releases all locks.
    """

    def __init__(self, resource: str, lock: Callable[[list[str]], Locks]) -> None:
        """Bind to a resource and lock nothing yet; `lock` makes the locks of given names."""
        self._resource, self._lock = resource, lock
        self._stack = ExitStack()
        self._locks: dict[str, Locks] = {}

    def __enter__(self) -> Self:
        """Enter the block; lock nothing yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release every lock that this run still holds."""
        self._stack.__exit__(kind, error, trace)

    def add(self, buckets: Iterable[int]) -> None:
        """Lock the days of time buckets (epoch ms) that are not locked yet.

        Raises:
            LockHeld: another run works on one of the days; no further day is locked.
        """
        names = [name for name in days(buckets, self._resource) if name not in self._locks]
        if names:
            locks = self._stack.enter_context(self._lock(names))
            self._locks |= dict.fromkeys(names, locks)

    def check(self) -> None:
        """Check every lock; call before each kind of write."""
        for locks in set(self._locks.values()):
            locks.check()


class Recorder(Protocol):
    """A record of the start and the end of pieces."""

    def start(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """Record the start of pieces; return the pieces that the run holds from now on."""

    def finish(
        self,
        pieces: Sequence[Piece],
        state: State,
        counts: Mapping[int, Mapping[str, int]],
        error: str | None,
    ) -> None:
        """Record how pieces ended."""


@dataclass(frozen=True)
class LedgerRecorder:
    """A recorder that writes the start and the end of a run's pieces to the ledger."""

    ledger: Pieces
    run: RunContext

    def start(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """Start pieces in the ledger."""
        started = self.ledger.start(pieces, owner=self.run.owner, run_id=self.run.run_id)
        self.run.progress.planned += len(started)
        note_progress(self.run)
        return started

    def finish(
        self,
        pieces: Sequence[Piece],
        state: State,
        counts: Mapping[int, Mapping[str, int]],
        error: str | None,
    ) -> None:
        """Finish pieces in the ledger."""
        self.ledger.finish(pieces, state, owner=self.run.owner, counts=counts, error=error)
        if state is State.DONE:
            self.run.progress.done += len(pieces)
        for of_piece in counts.values():
            self.run.counted.update(of_piece)
        note_progress(self.run)


@dataclass
class Claim:
    """The pieces that this run holds."""

    pieces: Sequence[Piece]
    locks: Locks | DayLocks
    recorder: Recorder

    def check(self) -> None:
        """Check the locks; call before each kind of write.

        Raises:
            LockLost: a lock expired or was taken; the run must not write any more.
            Ended: the run was ended.
        """
        self.locks.check()

    def cover(self, buckets: Iterable[int]) -> None:
        """Lock the days of further time buckets (epoch ms); call before the first write to them.

        A lock on the whole resource already covers every day.
        """
        if isinstance(self.locks, DayLocks):
            self.locks.add(buckets)

    def extend(self, pieces: Sequence[Piece]) -> None:
        """Start further pieces, which the held locks must already cover."""
        self.check()
        self.pieces = [*self.pieces, *self.recorder.start(pieces)]

    def finish(
        self, state: State, counts: Mapping[int, Mapping[str, int]], error: str | None = None
    ) -> None:
        """Record the end of all pieces; this must be the last write."""
        self.check()
        self.recorder.finish(self.pieces, state, counts, error)
        self.pieces = []

    def finish_some(
        self,
        buckets: set[int],
        state: State,
        counts: Mapping[int, Mapping[str, int]],
        error: str | None = None,
    ) -> None:
        """Record the end of the pieces in `buckets` (epoch ms); the other pieces stay claimed."""
        self.check()
        ended = [piece for piece in self.pieces if piece.time_bucket in buckets]
        self.recorder.finish(ended, state, counts, error)
        self.pieces = [piece for piece in self.pieces if piece.time_bucket not in buckets]

    @contextmanager
    def failed_on_error(self) -> Iterator[None]:
        """Record the pieces that the run still holds as failed if the block raises an error.

        If the run was ended, the pieces stay as they are, and the next run takes them up.
        """
        try:
            yield
        except Exception as error:
            # A second failure here (lock lost, Cassandra down) must not hide the first.
            with suppress(TidemarkError):
                self.finish(State.FAILED, {}, reason_of(error))
            raise


@contextmanager
def claim(
    run: RunContext,
    ledger: Pieces,
    pieces: Sequence[Piece],
    *,
    resource: str,
    by_day: bool = True,
    remember: bool = True,
) -> Iterator[Claim]:
    """Lock pieces by day under `resource`, mark them as running, and on any error as failed.

    With `by_day=False` the lock covers the whole resource, for pieces that share state, such as
    offsets, that two runs must not move at once. With `remember`, a run that does not get the lock
    notes its pieces as planned if the ledger is still empty: only time buckets after the ledger's
    first entry count as missed, so a later run would not find these pieces otherwise.

    Raises:
        LockHeld: another run works on one of the days, or on the resource.
        LockLost: another run has started a piece since it was planned.
    """

    def lock(resources: list[str]) -> Locks:
        return Locks.of(run, resources)

    locks: Locks | DayLocks = DayLocks(resource, lock) if by_day else lock([resource])
    with ExitStack() as held_locks:
        try:
            held_locks.enter_context(locks)
            if isinstance(locks, DayLocks):
                locks.add(piece.time_bucket for piece in pieces)
        except LockHeld:
            if remember and not ledger.standing():
                ledger.note(pieces)
            raise
        recorder = LedgerRecorder(ledger, run)
        claimed = Claim(recorder.start(pieces), locks, recorder)
        with claimed.failed_on_error():
            yield claimed
