"""What purge has taken away, for those who read or check tag views."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.cassandra.control import Control
from tidemark.ledger import applications
from tidemark.ledger.pieces import PieceRow, Pieces, State
from tidemark.settings import Settings


@dataclass(frozen=True)
class Removed:
    """The time buckets whose tag-view rows may be gone on purpose.

    Attributes:
        buckets: those that purge has taken up, epoch ms. One whose purge did not end counts too,
            since some of its rows may be gone.
        expired_before: buckets that start before it (epoch ms) are older than the TTL of
            tag_views, the table's or Tidemark's own; None when its rows live for ever.
    """

    buckets: frozenset[int] = frozenset()
    expired_before: int | None = None

    def span(self) -> tuple[int, int] | None:
        """A bound below every such bucket, and the newest of them; None when there is none."""
        if self.expired_before is not None:
            return -(2**63), max([*self.buckets, self.expired_before - 1])
        return (min(self.buckets), max(self.buckets)) if self.buckets else None


def purged_buckets(control: Control, settings: Settings) -> frozenset[int]:
    """The time buckets that purge has begun to delete, whether it came to its end or not."""
    return frozenset(_begun(control, settings))


def emptied_buckets(control: Control, settings: Settings) -> frozenset[int]:
    """The purged time buckets that tag-write has not written again since."""
    written = {
        entry.time_bucket: entry.finished_at
        for entry in _entries(control, settings, applications.TAG_WRITE)
        if entry.state is State.DONE
    }
    return frozenset(
        time_bucket
        for time_bucket, purge in _begun(control, settings).items()
        if (again := written.get(time_bucket)) is None
        or purge.finished_at is None
        or again <= purge.finished_at
    )


def removed(control: Control, settings: Settings, now_ms: int) -> Removed:
    """Ask purge's ledger, and both TTLs of tag_views.

    Args:
        control: the control plane.
        settings: where the journal is.
        now_ms: the present, epoch ms.
    """
    begun = purged_buckets(control, settings)
    ttl = time_to_live(control, settings)
    return Removed(begun, now_ms - ttl * 1000 if ttl else None)


def time_to_live(control: Control, settings: Settings) -> int:
    """How long a row of tag_views lives at least, in seconds; 0 when for ever.

    The table's default holds for what Pekko writes, `TIDEMARK_EVENTS_BY_TAG_TIME_TO_LIVE` for what
    tag-write does; nobody can tell from a row that is gone who wrote it.
    """
    rows = control.execute(
        "SELECT default_time_to_live FROM system_schema.tables"
        " WHERE keyspace_name = ? AND table_name = ?",
        (settings.journal_keyspace, settings.events_by_tag_table),
    )
    ttls = [settings.events_by_tag_time_to_live, *(row["default_time_to_live"] for row in rows)]
    return min((ttl for ttl in ttls if ttl), default=0)


def _begun(control: Control, settings: Settings) -> dict[int, PieceRow]:
    return {
        entry.time_bucket: entry
        for entry in _entries(control, settings, applications.PURGE)
        if entry.state in (State.RUNNING, State.DONE, State.FAILED)
    }


def _entries(control: Control, settings: Settings, application: str) -> list[PieceRow]:
    return Pieces.of(control, settings, application).entries()
