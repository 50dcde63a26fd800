"""The plan of validate: which time buckets are checked, and which wait for tag-write."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC
from enum import StrEnum

from tidemark import clock
from tidemark.context import RunContext
from tidemark.ledger import applications
from tidemark.ledger.pieces import Piece, Pieces, Reason
from tidemark.ledger.schedule import unknown
from tidemark.partitioning.keys import BucketSize
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.window import to_millis

APPLICATION = applications.VALIDATE


class ValidationScope(StrEnum):
    """The part of the journal that a run looks at."""

    NEW = "new"
    """What is new, if that proves the planned buckets whole; else everything."""
    ALL = "all"
    """Everything, also for the time buckets that have passed."""


def passed(pieces_ledger: Pieces, planned: Sequence[Piece], pending: Set[int]) -> TimeBuckets:
    """Return the time buckets (epoch ms) that have passed.

    Planned time buckets, and those in which tag-write owes rows, are left out.
    """
    return pieces_ledger.standing().done - [piece.time_bucket for piece in planned] - pending


def begun_again(pieces_ledger: Pieces, time_buckets: Collection[int]) -> list[Piece]:
    """Return time buckets (epoch ms) that have passed as pieces to begin again."""
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
        buckets: those that tag-write has taken up or missed, and is not done with.
        since: the first one that tag-write has not reached; all from there on are pending. None if
            it never ran.
    """

    buckets: Set[int] = frozenset()
    since: int | None = None

    def without(self, time_buckets: Collection[int]) -> PendingTagWrites:
        """Return what is pending outside the time buckets."""
        return replace(self, buckets=self.buckets - frozenset(time_buckets))


def pending_tag_writes(run: RunContext) -> PendingTagWrites:
    """Return where tagged events may lack rows until the next runs of tag-write.

    Where tag-write never ran, since Pekko writes the tags, nothing is pending.
    """
    settings = run.settings
    standing = Pieces.of(run.control, settings, applications.TAG_WRITE).standing()
    known = standing.known
    if known.last is None:
        return PendingTagWrites()
    bucket_ms = settings.bucket_size.milliseconds
    still_open = {entry.time_bucket for entry in standing.open_rows}
    missed = unknown(known, known.last, bucket_ms)
    return PendingTagWrites(missed | still_open, known.last + bucket_ms)


def write_time(pieces_ledger: Pieces, pieces: Sequence[Piece]) -> int:
    """Return the write time (microseconds) of this run's findings: now, but after older findings.

    The times of the ledger bound those of the older findings: a run ends a piece after it has
    written its findings. So a clock behind that of the previous run cannot hide new findings.
    """
    if not pieces:
        return clock.now_micros()
    # An old piece beside new ones must not have all those in between read.
    day = BucketSize.DAY.milliseconds
    buckets = {piece.time_bucket: piece.time_bucket + day for piece in pieces}
    ended = [
        to_millis(entry.finished_at.replace(tzinfo=UTC)) + 1
        for first, before in TimeBuckets(buckets.items(), 1).ranges
        for entry in pieces_ledger.entries(first, before)
        if entry.finished_at is not None
    ]
    return max([clock.now_micros(), *(millis * 1000 for millis in ended)])
