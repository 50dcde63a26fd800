"""What validate works on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from enum import StrEnum

from tidemark import clock
from tidemark.context import RunContext
from tidemark.ledger import applications
from tidemark.ledger.pieces import Piece, Pieces, Reason, State
from tidemark.ledger.schedule import unknown
from tidemark.window import to_millis

APPLICATION = applications.VALIDATE


class Scope(StrEnum):
    """What a run looks at."""

    NEW = "new"
    """What is new, if that shows that it is whole; else everything, for what is planned."""
    ALL = "all"
    """Everything, for the time buckets that have passed, too."""


def passed(
    pieces_ledger: Pieces, planned: Sequence[Piece], owed: Collection[int]
) -> dict[int, Piece]:
    """The time buckets that have passed, by epoch ms, as pieces that may be begun again.

    Without those that are planned, and those that tag-write owes something.
    """
    others = {piece.time_bucket for piece in planned} | set(owed)
    return {
        entry.time_bucket: Piece(entry.time_bucket, Reason.RESTATED, entry.attempt)
        for entry in pieces_ledger.entries()
        if entry.state is State.DONE and entry.time_bucket not in others
    }


def ledger(run: RunContext) -> Pieces:
    """The pieces of validate: one for each time bucket of the journal, all checks together."""
    settings = run.settings
    return Pieces.of(run.control, settings, APPLICATION)


@dataclass(frozen=True)
class Owed:
    """The time buckets (epoch ms) whose rows tag-write has yet to write.

    Attributes:
        buckets: what it has taken up, or missed, and is not done with.
        since: the first that it has not come to, as all after it; None if it never ran.
    """

    buckets: frozenset[int] = frozenset()
    since: int | None = None

    def without(self, time_buckets: Collection[int]) -> Owed:
        """The same, but for those time buckets."""
        return replace(self, buckets=self.buckets.difference(time_buckets))


def owed_by_tag_write(run: RunContext) -> Owed:
    """What tag-write owes: until its next runs have come, tagged events without rows are no loss.

    Where it never ran, since Pekko writes the tags, it owes nothing.
    """
    settings = run.settings
    entries = Pieces.of(run.control, settings, applications.TAG_WRITE).entries()
    if not entries:
        return Owed()
    bucket_ms = settings.bucket_size.milliseconds
    still_open = {entry.time_bucket for entry in entries if entry.state is not State.DONE}
    end = entries[-1].time_bucket
    missed = unknown(entries, end, bucket_ms)
    return Owed(frozenset(still_open.union(missed)), end + bucket_ms)


def write_time(pieces_ledger: Pieces, pieces: Sequence[Piece]) -> int:
    """The write time of this run's findings, microseconds: now, and after those it replaces.

    The ledger's own times stand in for those of the older findings: a run ends a piece after it
    has written its findings. So a clock behind that of the run before cannot hide what is new.
    """
    buckets = [piece.time_bucket for piece in pieces]
    ended = [
        to_millis(entry.finished_at.replace(tzinfo=UTC)) + 1
        for entry in pieces_ledger.entries(min(buckets), max(buckets) + 1)
        if entry.finished_at is not None
    ]
    return max([clock.now_micros(), *(one * 1000 for one in ended)])
