"""Expired journals, and why some of them stay. Plain data, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.kafka_journal.tables import SEGMENTS
from tidemark.partitioning.keys import head_segment, journal_segment

MOST_SEGMENTS = 100_000
"""Segments of one journal that are deleted at once: more are those of a seq_nr that leaps."""


@dataclass(frozen=True)
class Head:
    """A row of metajournal as far as a purge depends on it.

    Attributes:
        topic, id: the journal.
        segment: of metajournal.
        segment_size: events in a segment of journal.
        partition: of Kafka.
        offset: of the last record that changed the head.
        seq_nr: of the last event.
        deleted_to: up to which events are deleted; None if none are.
        expire_on: `yyyy-mm-dd`.
        updated_ms: when the replicator last wrote it, epoch ms.
    """

    topic: str
    id: str
    segment: int
    segment_size: int
    partition: int
    offset: int
    seq_nr: int
    deleted_to: int | None
    expire_on: str
    updated_ms: int

    @property
    def deletes_to(self) -> int:
        """The number up to which the journal is deleted once it is purged."""
        return max(self.seq_nr, self.deleted_to or 0)

    @property
    def is_old(self) -> bool:
        """Whether the head lies in a segment of an older release's formula."""
        return self.segment != head_segment(self.id, SEGMENTS)

    def segments(self) -> tuple[int, int]:
        """Return the first and the last segment of journal that a purge deletes.

        One more on both sides, as upstream does: a delete that was cut short leaves events below
        `deleted_to`, and an append leaves some beyond `seq_nr` (docs/real-systems.md, "Order of
        writes").
        """
        bounds = (self.deleted_to or 1, self.deletes_to)
        first = journal_segment(max(min(self.seq_nr, bounds[0]), 1), self.segment_size)
        last = journal_segment(max(bounds[1], 1), self.segment_size)
        return max(first - 1, 0), last + 1


@dataclass(frozen=True)
class Journal:
    """An expired journal, and what is left of it.

    Attributes:
        head: its head.
        first_segment, last_segment: of journal, that its purge deletes.
        write_time: the newest of its rows' write times, microseconds; 0 without rows.
        last_nr: the highest seq_nr that a row has; 0 without rows.
        needed_by: a reader that still needs some of it; empty if nobody does.
    """

    head: Head
    first_segment: int
    last_segment: int
    write_time: int = 0
    last_nr: int = 0
    needed_by: str = ""

    @property
    def segment_count(self) -> int:
        """The number of segments to delete."""
        return self.last_segment - self.first_segment + 1


def reason_to_keep(journal: Journal, replicated: Mapping[tuple[str, int], int]) -> str:
    """Return why an expired journal stays; empty if it may go.

    Args:
        journal: the journal.
        replicated: the last offset that is wholly replicated, by topic and Kafka partition.
    """
    head = journal.head
    pointer = replicated.get((head.topic, head.partition))
    if journal.needed_by:
        return f"needed by {journal.needed_by}"
    if pointer is None or head.offset > pointer:
        # A replicator that starts again would append all of it anew.
        return "its last record is not wholly replicated"
    if journal.last_nr > head.deletes_to:
        return "an append beyond its head is being replicated"
    if journal.segment_count > MOST_SEGMENTS:
        return f"it has more than {MOST_SEGMENTS:,} segments"
    return ""
