"""Working on pieces: locks, the ledger's states and the end of both, in one block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from tidemark.context import RunContext
from tidemark.errors import LockHeld, TidemarkError, reason_of
from tidemark.ledger.locks import Locks
from tidemark.ledger.pieces import Piece, Pieces, State, days


class DayLocks:
    """The locks of days under one resource, to which more days may be added while they are held.

    Use as a context manager; leaving it gives all of them back.
    """

    def __init__(self, resource: str, lock: Callable[[list[str]], Locks]) -> None:
        """Nothing is locked yet; `lock` makes the locks of some names."""
        self._resource, self._lock = resource, lock
        self._stack = ExitStack()
        self._held: dict[str, Locks] = {}

    def __enter__(self) -> Self:
        """Nothing is locked yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give back every lock that is still ours."""
        self._stack.__exit__(kind, error, trace)

    def add(self, buckets: Iterable[int]) -> None:
        """Lock the days of these time buckets, epoch ms, as far as they are not held.

        Raises:
            LockHeld: somebody else works on one of them; none was locked.
        """
        names = [name for name in days(buckets, self._resource) if name not in self._held]
        if names:
            locks = self._stack.enter_context(self._lock(names))
            self._held |= dict.fromkeys(names, locks)

    def check(self) -> None:
        """As `Locks.check`.

        Raises:
            LockLost: the run must not write any more.
        """
        for locks in set(self._held.values()):
            locks.check()


class Recorder(Protocol):
    """Where the beginning and the end of pieces are written."""

    def start(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """Write that pieces are begun; returns those that are held from now on."""

    def finish(
        self,
        pieces: Sequence[Piece],
        state: State,
        counts: Mapping[int, Mapping[str, int]],
        error: str | None,
    ) -> None:
        """Write how pieces ended."""


@dataclass(frozen=True)
class LedgerRecorder:
    """Writes the beginning and the end of a run's pieces into the ledger."""

    ledger: Pieces
    run: RunContext

    def start(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """Start pieces.

        Raises:
            LockLost: another run has started one of them since it was planned.
        """
        return self.ledger.start(pieces, owner=self.run.owner, run_id=self.run.run_id)

    def finish(
        self,
        pieces: Sequence[Piece],
        state: State,
        counts: Mapping[int, Mapping[str, int]],
        error: str | None,
    ) -> None:
        """Finish pieces.

        Raises:
            LockLost: another run has taken a piece over.
        """
        self.ledger.finish(pieces, state, owner=self.run.owner, counts=counts, error=error)


@dataclass
class Claim:
    """Pieces that this run holds."""

    pieces: Sequence[Piece]
    locks: Locks | DayLocks
    recorder: Recorder

    def check(self) -> None:
        """Call before each kind of write.

        Raises:
            LockLost: the run must not write any more.
        """
        self.locks.check()

    def cover(self, buckets: Iterable[int]) -> None:
        """Lock the days of further time buckets, epoch ms, before anything is written into them.

        Where the resource is locked as a whole they are locked already.

        Raises:
            LockHeld: somebody else works on one of them.
        """
        if isinstance(self.locks, DayLocks):
            self.locks.add(buckets)

    def extend(self, pieces: Sequence[Piece]) -> None:
        """Start further pieces, which the locks cover.

        Raises:
            LockLost: another run has started one of them since it was planned.
        """
        self.check()
        self.pieces = [*self.pieces, *self.recorder.start(pieces)]

    def finish(
        self, state: State, counts: Mapping[int, Mapping[str, int]], error: str | None = None
    ) -> None:
        """Write the pieces' end, last of all writes.

        Raises:
            LockLost: another run has taken a piece over.
        """
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
        """Write the end of those pieces only; the others stay claimed.

        Raises:
            LockLost: another run has taken a piece over.
        """
        self.check()
        ended = [piece for piece in self.pieces if piece.time_bucket in buckets]
        self.recorder.finish(ended, state, counts, error)
        self.pieces = [piece for piece in self.pieces if piece.time_bucket not in buckets]

    @contextmanager
    def failed_on_error(self) -> Iterator[None]:
        """Write the pieces that are still held as failed if the block raises anything."""
        try:
            yield
        except BaseException as error:
            # A second failure here (lock lost, Cassandra gone) must not hide the first.
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
    """Lock the pieces by day under `resource`, mark them running, and on any error failed.

    With `by_day=False` the resource is locked as a whole: its pieces share something, such as
    offsets, that two runs must not move at once. With `remember`, what a first run was refused is
    noted: what later ones are refused counts as missed, but only since the ledger's first entry.

    Raises:
        LockHeld: somebody else works on one of those days, or on the resource.
        LockLost: another run has started a piece since it was planned.
    """

    def lock(resources: list[str]) -> Locks:
        return Locks.of(run, resources)

    locks: Locks | DayLocks = DayLocks(resource, lock) if by_day else lock([resource])
    with ExitStack() as held:
        try:
            held.enter_context(locks)
            if isinstance(locks, DayLocks):
                locks.add(piece.time_bucket for piece in pieces)
        except LockHeld:
            if remember and not ledger.entries():
                ledger.note(pieces)
            raise
        recorder = LedgerRecorder(ledger, run)
        claimed = Claim(recorder.start(pieces), locks, recorder)
        with claimed.failed_on_error():
            yield claimed
