"""The time buckets that purge has deleted, for readers and checks of tag views."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import default_time_to_live
from tidemark.ledger import applications
from tidemark.ledger.frontier import rewritten
from tidemark.ledger.pieces import Pieces
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.settings import Settings


@dataclass(frozen=True)
class Removed:
    """The time buckets whose tag-view rows may have been deleted on purpose.

    Attributes:
        buckets: time buckets (epoch ms) that purge has begun, finished or not.
        expired_before: epoch ms; time buckets that start before it are older than the TTL of
            tag_views, the table's or Tidemark's own. None if the rows never expire.
    """

    buckets: Set[int] = frozenset()
    expired_before: int | None = None

    def span(self) -> tuple[int, int] | None:
        """Return a lower bound of these time buckets, and the newest; None if there are none."""
        ends = TimeBuckets.ends_of(self.buckets)
        if self.expired_before is not None:
            return -(2**63), max(ends[1] if ends else -(2**63), self.expired_before - 1)
        return ends


def purged_buckets(control: Control, settings: Settings) -> TimeBuckets:
    """Return the time buckets (epoch ms) that purge has begun to delete, finished or not."""
    return rewritten.begun(_pieces(control, settings, applications.PURGE).standing())


def emptied_buckets(control: Control, settings: Settings) -> TimeBuckets:
    """Return the purged time buckets (epoch ms) that tag-write has not written again since."""
    purge = _pieces(control, settings, applications.PURGE)
    written = _pieces(control, settings, applications.TAG_WRITE)
    purged = purge.standing()
    if not purged:
        return rewritten.begun(purged)
    compared = rewritten.since(purged, written.standing())
    written_rows = {entry.time_bucket: entry for entry in written.entries_of(compared.unsure)}
    rewritten_buckets = [
        row.time_bucket
        for row in purge.entries_of(compared.unsure)
        if rewritten.is_again(row, written_rows.get(row.time_bucket))
    ]
    return rewritten.begun(purged) - compared.again - rewritten_buckets


def removed(control: Control, settings: Settings, now_ms: int) -> Removed:
    """Return the time buckets whose rows purge or either TTL of tag_views may have removed."""
    purged = purged_buckets(control, settings)
    ttl = time_to_live(control, settings)
    return Removed(purged, now_ms - ttl * 1000 if ttl else None)


def time_to_live(control: Control, settings: Settings) -> int:
    """Return the shortest lifetime of a tag_views row, in seconds; 0 if rows never expire.

    The table's default applies to rows that Pekko writes, `TIDEMARK_EVENTS_BY_TAG_TIME_TO_LIVE` to
    rows that tag-write writes. The lower of the two counts, because nobody knows who wrote a row
    that no longer exists.
    """
    table_ttl = default_time_to_live(
        control, settings.journal_keyspace, settings.events_by_tag_table
    )
    ttls = [settings.events_by_tag_time_to_live, table_ttl]
    return min((ttl for ttl in ttls if ttl), default=0)


def _pieces(control: Control, settings: Settings, application: str) -> Pieces:
    return Pieces.of(control, settings, application)
