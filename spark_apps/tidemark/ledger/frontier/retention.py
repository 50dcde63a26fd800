"""The rows of the ledger that may be deleted, because its spans say the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.errors import TidemarkError
from tidemark.ledger import applications
from tidemark.ledger.frontier import rewritten
from tidemark.ledger.frontier.partition import Partition
from tidemark.ledger.frontier.spans import buckets_of
from tidemark.ledger.frontier.state import LedgerState
from tidemark.partitioning.keys import BucketSize
from tidemark.partitioning.time_buckets import Range, TimeBuckets
from tidemark.settings import Settings

_TRIES = 10
"""The number of attempts to delete rows of a ledger while runs begin pieces of it."""


@dataclass(frozen=True)
class OldRows:
    """The rows of one application, subject and bucket size that may be deleted.

    Attributes:
        partition: their ledger.
        ranges: the ranges of time buckets (epoch ms) of these rows, ascending.
        rows: the number of the rows.
        is_of_sizes: whether the subject has pieces of other bucket sizes, so that all rows stay.
        compared: the number of time buckets whose rows stay, since only the rows show whether
            tag-write or purge came last.
    """

    partition: Partition
    ranges: Sequence[Range] = ()
    rows: int = 0
    is_of_sizes: bool = False
    compared: int = 0

    def delete(self) -> int:
        """Delete the rows that are still in spans; return the number of their ranges.

        A piece that was begun again since then is no longer in a span, and its row stays.

        Raises:
            TidemarkError: runs began pieces all the time.
        """
        for _ in range(_TRIES):
            frontier = self.partition.frontier()
            size = self.partition.size.milliseconds
            done = buckets_of(frontier.spans, size)
            ranges = (TimeBuckets(self.ranges, size) & done).ranges
            if not ranges or self.partition.delete_rows(frontier, ranges):
                return len(ranges)
        raise TidemarkError(
            "runs began pieces of it all the time",
            where="/".join(self.partition.key),
            do="run again when they have ended",
        )


def old_rows(control: Control, settings: Settings, ended_before: int) -> list[OldRows]:
    """Return, for each ledger of the journal, the rows that nothing needs any more.

    These are rows of spans whose pieces all ended before `ended_before` (epoch ms). Two kinds of
    rows stay: those without which nobody knows whether tag-write has written a time bucket again
    after purge deleted it, and all rows of a subject with pieces of several bucket sizes, which are
    compared one by one (`rebucketed`).
    """
    name = table(settings.keyspace, "piece")
    rows = control.execute(f"SELECT DISTINCT application, subject, bucket_size FROM {name}")
    journal = settings.journal_keyspace
    names = sorted(
        (row["application"], row["subject"], row["bucket_size"])
        for row in rows
        if row["subject"] == journal or row["subject"].startswith(f"{journal}/")
    )
    sizes = Counter((application, subject) for application, subject, _ in names)
    ledgers = []
    for application, subject, size in names:
        partition = Partition(control, settings.keyspace, application, subject, BucketSize(size))
        if sizes[application, subject] > 1:
            ledgers.append(OldRows(partition, is_of_sizes=True))
            continue
        spans = partition.frontier().spans
        old = [span for span in spans if span.ended_last < ended_before and not span.is_sealed]
        candidates = buckets_of(old, partition.size.milliseconds)
        kept = candidates & _compared(control, settings, partition) if candidates else candidates
        ranges = (candidates - kept).ranges
        number = sum(partition.count(ranges))
        ledgers.append(OldRows(partition, ranges, number, compared=len(kept)))
    return ledgers


def _compared(control: Control, settings: Settings, partition: Partition) -> TimeBuckets:
    """Return the time buckets for which only rows show whether tag-write or purge came last."""
    pair = (applications.PURGE, applications.TAG_WRITE)
    size = partition.size.milliseconds
    application, subject, _ = partition.key
    if application not in pair:
        return TimeBuckets([], size)
    purged, written = (
        LedgerState(
            *Partition(control, settings.keyspace, name, subject, partition.size).outside(), size
        )
        for name in pair
    )
    return rewritten.since(purged, written).unsure
