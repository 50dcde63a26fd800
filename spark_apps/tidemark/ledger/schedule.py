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
        """Number of the pieces that no run had begun when they were due."""
        return sum(piece.reason is Reason.MISSED for piece in self.pieces)

    def details(self, later: Sequence[Piece] = ()) -> dict[str, int]:
        """Return for programs the numbers of missed, postponed and waiting (`later`) pieces."""
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
    """Return a line for people on pieces that a run has noted but not done; none without pieces.

    Args:
        pieces: the pieces, ascending.
        why: what the pieces wait for.
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
    history: Iterable[int] = (),
    changed: Iterable[int] = (),
    *,
    force: bool = False,
) -> list[Piece]:
    """Return wanted time buckets that are not done, and others that are due; ascending.

    Due are older open pieces, and what the last three arguments name.

    Args:
        wanted: time buckets of the window, epoch ms; a collection with a fast `in`.
        entries: ledger entries up to the end of the window.
        version: version of the definition; pieces that another version has done are done again.
        missed: time buckets (epoch ms) outside of the window that the ledger does not hold.
        history: further such time buckets, that the application begins with.
        changed: time buckets (epoch ms) in `entries` that another version has done, to do again.
        force: whether to do pieces of the window again that are done.
    """
    rows_by_bucket = {entry.time_bucket: entry for entry in entries}
    plan = [
        Piece(bucket, reason, rows_by_bucket[bucket].attempt if bucket in rows_by_bucket else 0)
        for bucket in wanted
        if (reason := _reason(rows_by_bucket.get(bucket), version, force)) is not None
    ]
    unfinished = [
        Piece(entry.time_bucket, entry.reason_if_open, entry.attempt)
        for entry in rows_by_bucket.values()
        if entry.state is not State.DONE and entry.time_bucket not in wanted
    ]
    never_begun = [Piece(bucket, Reason.MISSED) for bucket in missed]
    never_begun += [Piece(bucket, Reason.HISTORY) for bucket in history]
    again = [
        Piece(bucket, Reason.CHANGED, rows_by_bucket[bucket].attempt)
        for bucket in changed
        if bucket not in wanted
    ]
    return sorted([*plan, *unfinished, *never_begun, *again], key=lambda piece: piece.time_bucket)


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
        known: time buckets (epoch ms) that are known; those before the window that are not in
            `entries` are done.
        since: time buckets (epoch ms) begun elsewhere, such as by a projection's live version; from
            the first of them on, no time bucket is left out.
        ready: time buckets (epoch ms) that may count as missed; None for all.
        history: time buckets (epoch ms) before the window that the ledger does not hold, and that
            the application begins with.
        changed: time buckets (epoch ms) in `entries` that another version has done, to do again.
    """
    wanted = set(window)
    begun = TimeBuckets.of(known, bucket_ms) | (entry.time_bucket for entry in entries)
    begun_elsewhere = TimeBuckets.of(since, bucket_ms) | history
    missed = unknown(begun, window[-1] + bucket_ms, bucket_ms, begun_elsewhere)
    missed = missed - wanted - history
    if ready is not None:
        missed &= ready
    pieces = planned(wanted, entries, version, missed, history, changed, force=force)
    if len(pieces) <= most:
        return Schedule(pieces)
    turns = sorted(pieces, key=lambda piece: (piece.attempt, piece.time_bucket))
    chosen = {piece.time_bucket for piece in turns[:most]} | (wanted if force else set())
    return Schedule(
        [piece for piece in pieces if piece.time_bucket in chosen],
        [piece for piece in pieces if piece.time_bucket not in chosen],
    )


def unknown(known: TimeBuckets, end: int, bucket_ms: int, since: Iterable[int] = ()) -> TimeBuckets:
    """Return the time buckets that are not known, from the first known or in `since` to `end`.

    Args:
        known: the time buckets of the ledger, epoch ms.
        end: end of the time buckets, exclusive, epoch ms.
        bucket_ms: bucket size in milliseconds.
        since: further time buckets to begin at, epoch ms.
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
