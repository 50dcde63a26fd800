"""Which pieces a run takes up, by what the ledger knows. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from tidemark.ledger.piece import Piece, PieceRow, Reason, State
from tidemark.text import counted
from tidemark.window import from_millis, iso


@dataclass(frozen=True)
class Schedule:
    """The pieces of a run.

    Attributes:
        pieces: what is to do, ascending.
        postponed: what is owed as well, but beyond what one run takes up.
    """

    pieces: list[Piece]
    postponed: list[Piece] = field(default_factory=list)

    @property
    def missed(self) -> int:
        """How many of the pieces no run had begun when it was their turn."""
        return sum(piece.reason is Reason.MISSED for piece in self.pieces)

    def details(self, later: Sequence[Piece] = ()) -> dict[str, int]:
        """For programs: how many were missed, are left to the next run, and must wait (`later`)."""
        return {
            "missed": self.missed,
            "postponed": len(self.postponed),
            "left_for_later": len(later),
        }

    def lines(self) -> list[str]:
        """For people: what is made good, and what is left."""
        lines = []
        if self.missed:
            lines.append(f"{time_buckets(self.missed)} missed: no run had begun them")
        if self.postponed:
            lines.append(
                f"{time_buckets(len(self.postponed))} more left for the next run: one takes up"
                " TIDEMARK_CATCH_UP_BUCKETS at most"
            )
        return lines


def time_buckets(number: int) -> str:
    """`1 time bucket`, `2 time buckets`."""
    return counted(number, "time bucket")


def left_for_later(pieces: Sequence[Piece], why: str) -> list[str]:
    """For people: pieces, ascending, that a run has noted and not done; nothing if there are none.

    Args:
        pieces: they.
        why: what they wait for.
    """
    if not pieces:
        return []
    first = iso(from_millis(pieces[0].time_bucket))
    return [f"{time_buckets(len(pieces))} from {first} on left for later: {why}"]


def planned(
    wanted: Collection[int],
    entries: Iterable[PieceRow],
    version: str,
    missed: Iterable[int] = (),
    *,
    force: bool = False,
) -> list[Piece]:
    """The wanted time buckets that are not done, older open pieces and what was missed; ascending.

    Args:
        wanted: the time buckets of the window, epoch ms; with a fast `in`.
        entries: what the ledger knows up to the end of the window.
        version: of the definition; what another one has done is to be done again.
        missed: time buckets outside of the window that the ledger does not know.
        force: do those of the window again even if they are done.
    """
    known = {entry.time_bucket: entry for entry in entries}
    plan = [
        Piece(bucket, reason, known[bucket].attempt if bucket in known else 0)
        for bucket in wanted
        if (reason := _reason(known.get(bucket), version, force)) is not None
    ]
    unfinished = [
        Piece(entry.time_bucket, entry.reason_if_open, entry.attempt)
        for entry in known.values()
        if entry.state is not State.DONE and entry.time_bucket not in wanted
    ]
    never_begun = [Piece(bucket, Reason.MISSED) for bucket in missed]
    return sorted([*plan, *unfinished, *never_begun], key=lambda piece: piece.time_bucket)


def scheduled(
    window: Sequence[int],
    entries: Sequence[PieceRow],
    version: str,
    *,
    bucket_ms: int,
    most: int,
    force: bool = False,
    since: Iterable[int] = (),
    ready: Collection[int] | None = None,
) -> Schedule:
    """See `Pieces.schedule`.

    Args:
        window: its time buckets, epoch ms, ascending, not empty.
        entries: what the ledger knows up to the end of the window.
        version: of the definition.
        bucket_ms: the bucket size in milliseconds.
        most: the most pieces of one run.
        force: as of a run; the window's pieces are for this run in any case.
        since: time buckets that somebody else began: none after the first of them is left out.
        ready: if given, nothing else is taken for missed.
    """
    wanted = set(window)
    missed = set(unknown(entries, window[-1] + bucket_ms, bucket_ms, since)) - wanted
    if ready is not None:
        missed &= set(ready)
    pieces = planned(wanted, entries, version, missed, force=force)
    if len(pieces) <= most:
        return Schedule(pieces)
    turns = sorted(pieces, key=lambda piece: (piece.attempt, piece.time_bucket))
    chosen = {piece.time_bucket for piece in turns[:most]} | (wanted if force else set())
    return Schedule(
        [piece for piece in pieces if piece.time_bucket in chosen],
        [piece for piece in pieces if piece.time_bucket not in chosen],
    )


def unknown(
    entries: Iterable[PieceRow], end: int, bucket_ms: int, since: Iterable[int] = ()
) -> list[int]:
    """The time buckets between the first that is known, or in `since`, and `end` without an entry.

    Args:
        entries: what the ledger knows.
        end: exclusive, epoch ms.
        bucket_ms: the bucket size in milliseconds.
        since: further time buckets to begin at, epoch ms.
    """
    known = {entry.time_bucket for entry in entries}
    first = min([*known, *since], default=end)
    return [bucket for bucket in range(first, end, bucket_ms) if bucket not in known]


def _reason(entry: PieceRow | None, version: str, force: bool) -> Reason | None:
    if entry is None:
        return Reason.NEW
    if entry.state is not State.DONE:
        return entry.reason_if_open
    if (entry.definition_version or "") != version:
        return Reason.CHANGED
    return Reason.FORCED if force else None
