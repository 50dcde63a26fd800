"""What validate works on, and which rows of tag_views may rightly be absent."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC

from tidemark.application import Run
from tidemark.ledger import applications
from tidemark.ledger.pieces import Piece, Pieces
from tidemark.retention.purged import purged_buckets
from tidemark.window import to_millis

APPLICATION = applications.VALIDATE


@dataclass(frozen=True)
class Removed:
    """The time buckets whose tag-view rows may be gone on purpose.

    Attributes:
        buckets: those that purge has taken up, epoch ms. One whose purge did not end counts too,
            since some of its rows may be gone.
        expired_before: buckets that start before it (epoch ms) are older than the TTL of
            tag_views; None when the table has none.
    """

    buckets: frozenset[int] = frozenset()
    expired_before: int | None = None

    def span(self) -> tuple[int, int] | None:
        """A bound below every such bucket, and the newest of them; None when there is none."""
        if self.expired_before is not None:
            return -(2**63), max([*self.buckets, self.expired_before - 1])
        return (min(self.buckets), max(self.buckets)) if self.buckets else None


def ledger(run: Run) -> Pieces:
    """The pieces of validate: one for each time bucket of the journal, all checks together."""
    return Pieces(run.control, run.settings.keyspace, APPLICATION, run.settings.journal_keyspace)


def removed(run: Run, now_ms: int) -> Removed:
    """Ask purge's ledger, and the TTL of tag_views.

    Args:
        run: the application's frame.
        now_ms: the present, epoch ms.

    Raises:
        CassandraUnavailable: a statement failed.
    """
    settings = run.settings
    begun = purged_buckets(run.control, settings)
    rows = run.control.execute(
        "SELECT default_time_to_live FROM system_schema.tables"
        " WHERE keyspace_name = ? AND table_name = ?",
        (settings.journal_keyspace, settings.events_by_tag_table),
    )
    ttl = rows[0]["default_time_to_live"] if rows else 0
    return Removed(begun, now_ms - ttl * 1000 if ttl else None)


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
    return max([time.time_ns() // 1000, *(one * 1000 for one in ended)])
