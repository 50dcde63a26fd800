"""What validate works on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

from tidemark import clock
from tidemark.application import Run
from tidemark.ledger import applications
from tidemark.ledger.pieces import Piece, Pieces
from tidemark.window import to_millis

APPLICATION = applications.VALIDATE


def ledger(run: Run) -> Pieces:
    """The pieces of validate: one for each time bucket of the journal, all checks together."""
    settings = run.settings
    return Pieces(
        run.control,
        settings.keyspace,
        APPLICATION,
        settings.journal_keyspace,
        settings.bucket_size,
    )


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
