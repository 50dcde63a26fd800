"""A second implementation of sequence continuity: plain loops over one history, sharing no code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

Found = tuple[str, str, int, int | None, int]
"""(check, tag, number, expected number, time bucket)."""


@dataclass(frozen=True)
class Event:
    """A row of messages; `copy` tells apart events with the same sequence nr.

    An unwritable event has no row in tag_views. A misplaced one lies in a wrong partition. An empty
    one has no payload.
    """

    number: int
    bucket: int
    tags: tuple[str, ...] = ()
    copy: int = 0
    is_unwritable: bool = False
    is_misplaced: bool = False
    is_empty: bool = False


@dataclass(frozen=True)
class Row:
    """A row of tag_views."""

    tag: str
    number: int
    event: int
    bucket: int
    copy: int = 0


@dataclass(frozen=True)
class History:
    """All that is stored about a persistence id; `progress` maps tag to (event, number, bucket)."""

    events: tuple[Event, ...] = ()
    rows: tuple[Row, ...] = ()
    progress: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    scanned_to: int | None = None
    deleted_to: int | None = None
    is_listed: bool = True

    @classmethod
    def whole(cls, *events: tuple[int, str]) -> History:
        """Make an undamaged history of events (bucket, tags as letters), with all their rows."""
        counts: Counter[str] = Counter()
        rows: list[Row] = []
        progress = {}
        for number, (bucket, tags) in enumerate(events, 1):
            for tag in tags:
                counts[tag] += 1
                rows.append(Row(tag, counts[tag], number, bucket))
                progress[tag] = (number, counts[tag], bucket)
        listed = tuple(Event(n, bucket, tuple(tags)) for n, (bucket, tags) in enumerate(events, 1))
        return cls(listed, tuple(rows), progress, len(events) or None)

    def without_events(self, *numbers: int) -> History:
        """Return the history with these events missing from messages."""
        return replace(self, events=tuple(e for e in self.events if e.number not in numbers))

    def without_rows(self, *numbers: int) -> History:
        """Return the history with the rows of these tag pid sequence nrs missing from tag_views."""
        return replace(self, rows=tuple(row for row in self.rows if row.number not in numbers))

    def purged(self, *buckets: int) -> History:
        """Return the history without the tag-view rows of these buckets."""
        return replace(self, rows=tuple(row for row in self.rows if row.bucket not in buckets))


def expected_findings(
    history: History, removed: frozenset[int], pending: frozenset[int], last: int
) -> set[Found]:
    """Return what the numbers of a history show, in any bucket; `last` is the run's newest bucket.

    Missing rows of the buckets in `pending` are yet to be written by tag-write.
    """
    every = [
        *_sequence(history),
        *_misplaced(history),
        *_empty(history),
        *_lost_tail(history, last),
        *(
            finding
            for tag in _tags(history)
            for finding in _tag_sequence(history, tag, removed, pending)
        ),
    ]
    # Two rules of a check can meet in the same number of a bucket; they make one finding.
    merged: dict[tuple[str, str, int, int], int | None] = {}
    for check, tag, number, expected, bucket in every:
        earlier = merged.setdefault((check, tag, number, bucket), expected)
        if earlier is not None and expected is not None:
            merged[check, tag, number, bucket] = min(earlier, expected)
    return {
        (check, tag, number, expected, bucket)
        for (check, tag, number, bucket), expected in merged.items()
    }


def _tags(history: History) -> set[str]:
    return {row.tag for row in history.rows} | set(history.progress)


def _sequence(history: History) -> Iterable[Found]:
    before: int | None = None
    deleted_to = history.deleted_to or 0
    for event in sorted(history.events, key=lambda event: (event.number, event.bucket, event.copy)):
        lowest = max(before or 0, deleted_to) + 1
        if event.number > lowest:
            check = "sequence_nr_missing_head" if before is None else "sequence_nr_gap"
            yield check, "", event.number, lowest, event.bucket
        if event.number == before:
            yield "sequence_nr_duplicate", "", event.number, event.number, event.bucket
        before = event.number


def _misplaced(history: History) -> Iterable[Found]:
    for event in history.events:
        if event.is_misplaced and event.number > (history.deleted_to or 0):
            yield "wrong_partition_nr", "", event.number, None, event.bucket


def _empty(history: History) -> Iterable[Found]:
    for event in history.events:
        if event.is_empty and not event.is_unwritable and event.number > (history.deleted_to or 0):
            yield "null_payload", "", event.number, None, event.bucket


def _lost_tail(history: History, last: int) -> Iterable[Found]:
    if not (history.events or history.deleted_to is not None or history.is_listed):
        return
    reached = max([event.number for event in history.events] + [history.deleted_to or 0])
    tagged = max([(event, bucket) for event, _, bucket in history.progress.values()], default=None)
    scanned = history.scanned_to or 0
    if tagged is not None and tagged[0] > reached:
        yield "sequence_nr_lost_tail", "", reached, max(tagged[0], scanned), tagged[1]
    elif scanned > reached and all(event.bucket <= last for event in history.events):
        yield "sequence_nr_lost_tail", "", reached, scanned, last


def _absent(history: History) -> list[tuple[str, Event]]:
    written = {(row.tag, row.event) for row in history.rows}
    return [
        (tag, event)
        for event in history.events
        for tag in event.tags
        if (tag, event.number) not in written
    ]


def _tag_sequence(
    history: History, tag: str, removed: frozenset[int], pending: frozenset[int]
) -> Iterable[Found]:
    rows = [row for row in history.rows if row.tag == tag]
    gone = [e for t, e in _absent(history) if t == tag and e.bucket in removed | pending]
    before: Row | None = None
    for row in sorted(rows, key=lambda row: (row.number, row.bucket, row.copy)):
        lowest = before.number + 1 if before else 1
        if row.number > lowest and not _is_explained(history, before, row, gone, removed):
            kind = "gap" if before else "missing_head"
            yield f"tag_pid_sequence_nr_{kind}", tag, row.number, lowest, row.bucket
        if before and before.number == row.number:
            yield "tag_pid_sequence_nr_duplicate", tag, row.number, row.number, row.bucket
        if before and before.number < row.number and before.event > row.event:
            yield "tag_pid_sequence_nr_out_of_order", tag, row.number, None, row.bucket
        before = row
    by_event = sorted(rows, key=lambda row: (row.event, row.number, row.bucket, row.copy))
    for earlier, other in pairwise(by_event):
        if earlier.event == other.event and earlier.number != other.number:
            yield "tag_pid_sequence_nr_duplicate", tag, other.number, earlier.number, other.bucket
    if tag in history.progress:
        event, number, bucket = history.progress[tag]
        highest = max([row.number for row in rows], default=0)
        is_there = bucket not in removed and event > (history.deleted_to or 0)
        if number > highest and is_there:
            yield "tag_pid_sequence_nr_lost_tail", tag, highest, number, bucket


def _is_explained(
    history: History, before: Row | None, row: Row, gone: list[Event], removed: frozenset[int]
) -> bool:
    if before is None and history.deleted_to:
        return True
    start = before.event if before else 0
    missing = row.number - (before.number if before else 0) - 1
    if sum(start < event.number <= row.event for event in gone) >= missing:
        return True
    if not removed or start >= (history.deleted_to or 0):
        return False
    return row.bucket > min(removed) and (before is None or before.bucket <= max(removed))
