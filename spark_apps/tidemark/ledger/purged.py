"""The time buckets that purge has deleted, for readers and checks of tag views."""

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
        buckets: time buckets (epoch ms) that purge has begun, finished or not, since some of their
            rows may be gone.
        expired_before: bound in epoch ms; time buckets that start before it are older than the TTL
            of tag_views, the table's or Tidemark's own. None when the rows never expire.
    """

    buckets: frozenset[int] = frozenset()
    expired_before: int | None = None

    def span(self) -> tuple[int, int] | None:
        """Return a lower bound of these time buckets, and the newest; None without any."""
        if self.expired_before is not None:
            return -(2**63), max([*self.buckets, self.expired_before - 1])
        return (min(self.buckets), max(self.buckets)) if self.buckets else None


def purged_buckets(control: Control, settings: Settings) -> frozenset[int]:
    """Return the time buckets (epoch ms) that purge has begun to delete, finished or not."""
    return frozenset(_begun(control, settings))


def emptied_buckets(control: Control, settings: Settings) -> frozenset[int]:
    """Return the purged time buckets (epoch ms) that tag-write has not written again since."""
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
    """Return the time buckets whose rows purge or either TTL of tag_views may have removed.

    Args:
        control: the session to Cassandra.
        settings: where the journal is.
        now_ms: the present, epoch ms.
    """
    begun = purged_buckets(control, settings)
    ttl = time_to_live(control, settings)
    return Removed(begun, now_ms - ttl * 1000 if ttl else None)


def time_to_live(control: Control, settings: Settings) -> int:
    """Return the shortest lifetime of a tag_views row, in seconds; 0 if rows never expire.

    The table's default applies to rows that Pekko writes, `TIDEMARK_EVENTS_BY_TAG_TIME_TO_LIVE` to
    rows that tag-write writes. The lower of the two counts, because the writer of a row that is
    gone is unknown.
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
