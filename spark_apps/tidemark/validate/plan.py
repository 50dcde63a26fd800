"""The plan of validate: the time buckets to check, and those that wait for tag-write."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC
from enum import StrEnum

from tidemark import clock
from tidemark.context import RunContext
from tidemark.ledger import applications
from tidemark.ledger.piece import Piece, Reason
from tidemark.ledger.pieces import Pieces
from tidemark.ledger.schedule import unknown
from tidemark.partitioning.keys import BucketSize, time_bucket
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.window import to_millis

APPLICATION = applications.VALIDATE


class ValidationScope(StrEnum):
    """The part of the journal that a run checks."""

    NEW = "new"
    """New events, if that proves the planned buckets consistent; otherwise everything."""
    ALL = "all"
    """Everything, also time buckets that have passed."""


def passed(pieces_ledger: Pieces, planned: Sequence[Piece], pending: Set[int]) -> TimeBuckets:
    """Return the time buckets (epoch ms) that have passed, without planned and pending ones."""
    return pieces_ledger.standing().done - [piece.time_bucket for piece in planned] - pending


def restated_pieces(pieces_ledger: Pieces, time_buckets: Collection[int]) -> list[Piece]:
    """Return passed time buckets (epoch ms) as pieces to check again."""
    return [
        Piece(entry.time_bucket, Reason.RESTATED, entry.attempt)
        for entry in pieces_ledger.entries_of(time_buckets)
    ]


def ledger(run: RunContext) -> Pieces:
    """Return the pieces of validate: one for each time bucket of the journal, for all checks."""
    settings = run.settings
    return Pieces.of(run.control, settings, APPLICATION)


@dataclass(frozen=True)
class PendingTagWrites:
    """The time buckets (epoch ms) whose rows tag-write has yet to write.

    Attributes:
        buckets: time buckets that tag-write has begun or missed, and not finished.
        since: the first time bucket that tag-write has not reached; from there on all are pending.
            None if it never ran.
    """

    buckets: Set[int] = frozenset()
    since: int | None = None

    def without(self, time_buckets: Collection[int]) -> PendingTagWrites:
        """Return the pending time buckets without these."""
        return replace(self, buckets=self.buckets - frozenset(time_buckets))


def pending_tag_writes(run: RunContext) -> PendingTagWrites:
    """Return the time buckets in which tagged events may lack rows until tag-write's next runs.

    If tag-write never ran, since Pekko writes the tags, nothing is pending.
    """
    settings = run.settings
    ledger_state = Pieces.of(run.control, settings, applications.TAG_WRITE).standing()
    known_buckets = ledger_state.known
    if known_buckets.last is None:
        return PendingTagWrites()
    bucket_ms = settings.bucket_size.milliseconds
    unfinished = {entry.time_bucket for entry in ledger_state.open_rows}
    missed = unknown(known_buckets, known_buckets.last, bucket_ms)
    return PendingTagWrites(missed | unfinished, known_buckets.last + bucket_ms)


@dataclass(frozen=True)
class JudgedBuckets:
    """The time buckets that validate judges: they are past, and tag-write has written their rows.

    Attributes:
        pending: the time buckets that tag-write has yet to write.
        passed: the time buckets that have passed before.
        newest: the newest time bucket that is judged, epoch ms.
        named: ascending, epoch ms; if empty, all that have events, rows or progress of the scope.
    """

    pending: PendingTagWrites
    passed: Collection[int]
    newest: int
    named: Sequence[int] = ()

    @classmethod
    def until_now(cls, run: RunContext) -> JudgedBuckets:
        """Return all time buckets that can be judged now."""
        settings, pending = run.settings, pending_tag_writes(run)
        delay = round(settings.events_by_tag_eventual_consistency_delay * 1000)
        end = time_bucket(to_millis(clock.now()) - delay, settings.bucket_size)
        if pending.since is not None:
            end = min(end, pending.since)
        newest = end - settings.bucket_size.milliseconds
        return cls(pending, passed(ledger(run), [], pending.buckets), newest)

    def __contains__(self, bucket: int) -> bool:
        """Whether a time bucket (epoch ms) is judged, if none are named."""
        return bucket <= self.newest and bucket not in self.pending.buckets


def write_time(pieces_ledger: Pieces, pieces: Sequence[Piece]) -> int:
    """Return the write time (microseconds) of this run's findings: now, but after older findings.

    Older findings were written before their pieces were finished in the ledger. So a clock that is
    behind that of the previous run cannot hide new findings.
    """
    if not pieces:
        return clock.now_micros()
    # Only ranges near the pieces, so that not everything between an old and a new piece is read.
    day = BucketSize.DAY.milliseconds
    buckets = {piece.time_bucket: piece.time_bucket + day for piece in pieces}
    finished = [
        to_millis(entry.finished_at.replace(tzinfo=UTC)) + 1
        for first, end in TimeBuckets(buckets.items(), 1).ranges
        for entry in pieces_ledger.entries(first, end)
        if entry.finished_at is not None
    ]
    return max([clock.now_micros(), *(millis * 1000 for millis in finished)])
