"""The choice of the pieces that a run takes up, from the ledger's entries. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from tidemark.ledger.piece import Piece, PieceRow, Reason, State
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.text import counted
from tidemark.window import from_millis, iso


@dataclass(frozen=True)
class Schedule:
    """The pieces of a run.

    Attributes:
        pieces: pieces to do, ascending.
        postponed: pieces that are due but exceed the bound of one run.
    """

    pieces: list[Piece]
    postponed: list[Piece] = field(default_factory=list)

    @property
    def missed(self) -> int:
        """The number of pieces that no run had begun when they were due."""
        return sum(piece.reason is Reason.MISSED for piece in self.pieces)

    def details(self, later: Sequence[Piece] = ()) -> dict[str, int]:
        """Return the numbers of missed, postponed and waiting (`later`) pieces, for programs."""
        return {
            "missed": self.missed,
            "postponed": len(self.postponed),
            "left_for_later": len(later),
        }

    def lines(self) -> list[str]:
        """Return lines for people on the missed and the postponed pieces."""
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
    """Return a number with its noun: `1 time bucket`, `2 time buckets`."""
    return counted(number, "time bucket")


def left_for_later(pieces: Sequence[Piece], why: str) -> list[str]:
    """Return a line for people on the ascending pieces that a run has noted but not done.

    `why` says what they wait for. Without pieces there is no line.
    """
    if not pieces:
        return []
    first = iso(from_millis(pieces[0].time_bucket))
    return [f"{time_buckets(len(pieces))} from {first} on left for later: {why}"]


def planned(
    window: Collection[int],
    entries: Iterable[PieceRow],
    version: str,
    missed: Iterable[int] = (),
    history: Iterable[int] = (),
    changed: Iterable[int] = (),
    *,
    force: bool = False,
) -> list[Piece]:
    """Return the pieces of a window that are not done, and other pieces that are due; ascending.

    Older open pieces are due, and the time buckets in `missed`, `history` and `changed`.

    Args:
        window: time buckets of the window, epoch ms; a collection with a fast `in`.
        entries: ledger entries up to the end of the window.
        version: version of the definition; pieces that another version has done are done again.
        missed: time buckets (epoch ms) outside of the window that the ledger does not have.
        history: further such time buckets, with which the application begins.
        changed: time buckets (epoch ms) in `entries` done by another version, to do again.
        force: whether to do pieces of the window again that are done.
    """
    rows_by_bucket = {entry.time_bucket: entry for entry in entries}
    plan = [
        Piece(bucket, reason, rows_by_bucket[bucket].attempt if bucket in rows_by_bucket else 0)
        for bucket in window
        if (reason := _reason(rows_by_bucket.get(bucket), version, force)) is not None
    ]
    unfinished = [
        Piece(entry.time_bucket, entry.reason_if_open, entry.attempt)
        for entry in rows_by_bucket.values()
        if entry.state is not State.DONE and entry.time_bucket not in window
    ]
    never_begun = [Piece(bucket, Reason.MISSED) for bucket in missed]
    never_begun += [Piece(bucket, Reason.HISTORY) for bucket in history]
    done_by_others = [
        Piece(bucket, Reason.CHANGED, rows_by_bucket[bucket].attempt)
        for bucket in changed
        if bucket not in window
    ]
    return sorted(
        [*plan, *unfinished, *never_begun, *done_by_others], key=lambda piece: piece.time_bucket
    )


def scheduled(
    window: Sequence[int],
    entries: Sequence[PieceRow],
    version: str,
    *,
    bucket_ms: int,
    most: int,
    force: bool = False,
    known: Iterable[int] = (),
    since: Iterable[int] = (),
    ready: Collection[int] | None = None,
    history: Collection[int] = (),
    changed: Collection[int] = (),
) -> Schedule:
    """Return the schedule of a run, by the rules of `Pieces.schedule`.

    Args:
        window: time buckets of the window, epoch ms, ascending, not empty.
        entries: ledger entries up to the end of the window.
        version: version of the definition.
        bucket_ms: bucket size in milliseconds.
        most: highest number of pieces for one run.
        force: whether to do pieces of the window again that are done; the run then takes its whole
            window, whatever `most` is.
        known: time buckets (epoch ms) of the ledger; those before the window that are not in
            `entries` are done.
        since: time buckets (epoch ms) begun elsewhere, such as by a projection's live version; from
            the first of them on, no time bucket is left out.
        ready: time buckets (epoch ms) that may count as missed; None for all.
        history: time buckets (epoch ms) before the window that the ledger does not have, with
            which the application begins.
        changed: time buckets (epoch ms) in `entries` done by another version, to do again.
    """
    window_buckets = set(window)
    begun = TimeBuckets.of(known, bucket_ms) | (entry.time_bucket for entry in entries)
    begun_elsewhere = TimeBuckets.of(since, bucket_ms) | history
    missed = unknown(begun, window[-1] + bucket_ms, bucket_ms, begun_elsewhere)
    missed = missed - window_buckets - history
    if ready is not None:
        missed &= ready
    pieces = planned(window_buckets, entries, version, missed, history, changed, force=force)
    if len(pieces) <= most:
        return Schedule(pieces)
    by_priority = sorted(pieces, key=lambda piece: (piece.attempt, piece.time_bucket))
    chosen = {piece.time_bucket for piece in by_priority[:most]} | (
        window_buckets if force else set()
    )
    return Schedule(
        [piece for piece in pieces if piece.time_bucket in chosen],
        [piece for piece in pieces if piece.time_bucket not in chosen],
    )


def unknown(known: TimeBuckets, end: int, bucket_ms: int, since: Iterable[int] = ()) -> TimeBuckets:
    """Return the time buckets before `end` that are not in `known`, all in epoch ms.

    The result covers the time from the first time bucket of `known` and `since`.
    """
    first = (known | since).first
    holes = [] if first is None else known.holes(first, end)
    return TimeBuckets(holes, bucket_ms)


def _reason(entry: PieceRow | None, version: str, force: bool) -> Reason | None:
    if entry is None:
        return Reason.NEW
    if entry.state is not State.DONE:
        return entry.reason_if_open
    if (entry.definition_version or "") != version:
        return Reason.CHANGED
    return Reason.FORCED if force else None
