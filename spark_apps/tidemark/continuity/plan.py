"""What validate works on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

from tidemark import clock
from tidemark.application import Run
from tidemark.ledger import applications
from tidemark.ledger.pieces import Piece, Pieces, State
from tidemark.ledger.schedule import unknown
from tidemark.window import to_millis

APPLICATION = applications.VALIDATE


def ledger(run: Run) -> Pieces:
    """The pieces of validate: one for each time bucket of the journal, all checks together."""
    settings = run.settings
    return Pieces.of(run.control, settings, APPLICATION)


def owed_by_tag_write(run: Run) -> set[int]:
    """The time buckets (epoch ms) that tag-write has taken up, or missed, and is not done with.

    Its next runs do them; until then tagged events without rows are no loss. Where tag-write never
    ran, since Pekko writes the tags, it owes nothing.

    Raises:
        CassandraUnavailable: the statement failed.
    """
    settings = run.settings
    entries = Pieces.of(run.control, settings, applications.TAG_WRITE).entries()
    if not entries:
        return set()
    still_open = {entry.time_bucket for entry in entries if entry.state is not State.DONE}
    end = entries[-1].time_bucket
    return still_open | set(unknown(entries, end, settings.bucket_size.milliseconds))


def write_time(pieces_ledger: Pieces, pieces: Sequence[Piece]) -> int:
    """The write time of this run's findings, microseconds: now, and after those it replaces.

    The ledger's own times stand in for those of the older findings: a run ends a piece after it
    has written its findings. So a clock behind that of the run before cannot hide what is new.

    Raises:
        CassandraUnavailable: the statement failed.
    """
    buckets = [piece.time_bucket for piece in pieces]
    ended = [
        to_millis(entry.finished_at.replace(tzinfo=UTC)) + 1
        for entry in pieces_ledger.entries(min(buckets), max(buckets) + 1)
        if entry.finished_at is not None
    ]
    return max([clock.now_micros(), *(one * 1000 for one in ended)])
