"""A journal's messages and tag views as plain values, and what a repair must make of them.

Worked out by loops over one persistence id, with the numbers of `numbering_model`: no code is
shared with the product.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from uuid import UUID

from hypothesis import strategies as st

from tests.unit.partitioning.numbering_model import Numbering, Series, numbering

HOUR = 3_600_000
NOW_MS = 1_700_000_000_000
START_MS = NOW_MS - NOW_MS % HOUR - 100 * HOUR
_EPOCH_AFTER_1582_MS = 12_219_292_800_000
"""From the beginning of timeuuids, 1582-10-15, to 1970."""


class Event(NamedTuple):
    """A row of messages; `hour` counts from START_MS and may be a fraction."""

    number: int
    hour: float
    tags: str = ""
    cause: str | None = None

    @property
    def ticks(self) -> int:
        return (self._epoch_ms + _EPOCH_AFTER_1582_MS) * 10_000 + self.number

    @property
    def timestamp(self) -> str:
        ticks = self.ticks
        low, middle, high = ticks & 0xFFFF_FFFF, ticks >> 32 & 0xFFFF, ticks >> 48
        return str(UUID(fields=(low, middle, high | 0x1000, 0x80, 1, 7)))

    @property
    def time_bucket(self) -> int:
        return self._epoch_ms - self._epoch_ms % HOUR

    @property
    def _epoch_ms(self) -> int:
        return round(START_MS + self.hour * HOUR)


class Row(NamedTuple):
    """A row of the tag views of one persistence id."""

    tag: str
    number: int
    event: Event
    time_bucket: int


class Progress(NamedTuple):
    """A row of tag_write_progress."""

    sequence_nr: int
    number: int
    offset: str


@dataclass(frozen=True)
class History:
    """All that is stored about a persistence id."""

    events: frozenset[Event] = frozenset()
    rows: frozenset[Row] = frozenset()
    progress: dict[str, Progress] = field(default_factory=dict)
    scanned_to: int | None = None
    deleted_to: int | None = None
    is_listed: bool = False
    misplaced: frozenset[int] = frozenset()
    """Sequence nrs whose events lie in a wrong partition of messages."""

    @classmethod
    def whole(cls, *events: tuple[float, str], first: int = 1) -> History:
        """Make an undamaged history of events (hour, tags as letters), numbered from `first`."""
        history = [Event(number, *event) for number, event in enumerate(events, first)]
        rows: list[Row] = []
        progress: dict[str, Progress] = {}
        for event in history:
            for tag in event.tags:
                number = progress[tag].number + 1 if tag in progress else 1
                progress[tag] = Progress(event.number, number, event.timestamp)
                rows.append(Row(tag, number, event, event.time_bucket))
        return cls(frozenset(history), frozenset(rows), progress, history[-1].number, None)

    def deleted(self, to: int) -> History:
        """Return the history after a deletion by Pekko: messages go, everything else stays."""
        left = frozenset(event for event in self.events if event.number > to)
        return replace(self, events=left, deleted_to=to)

    def row(self, tag: str, number: int) -> Row:
        """Return the row with this number under a tag."""
        [only] = [row for row in self.rows if (row.tag, row.number) == (tag, number)]
        return only

    def without_events(self, *numbers: int) -> History:
        """Return the history with these events missing from messages."""
        left = frozenset(event for event in self.events if event.number not in numbers)
        return replace(self, events=left)

    def with_rows(self, *rows: Row) -> History:
        return replace(self, rows=self.rows | set(rows))

    def without_rows(self, *rows: Row) -> History:
        return replace(self, rows=self.rows - set(rows))

    def with_progress(self, tag: str, progress: Progress | None) -> History:
        others = {name: reached for name, reached in self.progress.items() if name != tag}
        return replace(self, progress=others | ({tag: progress} if progress else {}))


Journal = dict[str, History]


def moved(row: Row, hours: int) -> Row:
    """Return the row in another time bucket."""
    return row._replace(time_bucket=row.time_bucket + hours * HOUR)


TAGS = st.sampled_from(["", "a", "b", "ab", "abc"])
EVENTS = st.lists(st.tuples(st.integers(0, 6), TAGS), min_size=1, max_size=8)


@st.composite
def damaged_history(draw: st.DrawFn) -> tuple[History, History]:
    """Draw a history, and a copy with lost, invented, renumbered, moved rows, wrong progress."""
    undamaged = History.whole(*draw(EVENTS))
    deleted_to = draw(st.sampled_from([0, 0, 1, 2]))
    if 0 < deleted_to < len(undamaged.events):
        undamaged = undamaged.deleted(deleted_to)
    rows = sorted(undamaged.rows)
    damaged = undamaged
    for row in rows:
        change = draw(st.sampled_from(["none"] * 4 + ["lose", "double", "renumber", "move", "tag"]))
        other = {
            "double": row._replace(number=row.number + draw(st.integers(1, 3))),
            "renumber": row._replace(number=row.number + draw(st.integers(1, 3))),
            "move": moved(row, draw(st.sampled_from([-1, 1, 24]))),
            "tag": row._replace(tag="x"),
        }.get(change)
        if change in ("lose", "renumber", "move"):
            damaged = damaged.without_rows(row)
        if other is not None:
            damaged = damaged.with_rows(other)
    for tag, progress in undamaged.progress.items():
        change = draw(st.sampled_from(["none", "none", "lose", "number", "sequence_nr"]))
        if change == "lose":
            damaged = damaged.with_progress(tag, None)
        elif change != "none":
            off = getattr(progress, change) + draw(st.sampled_from([-1, 1, 3]))
            damaged = damaged.with_progress(tag, progress._replace(**{change: max(off, 1)}))
    scanned_to = draw(st.sampled_from([undamaged.scanned_to, None, 1, 12]))
    return undamaged, replace(damaged, scanned_to=scanned_to)


@st.composite
def broken_history(draw: st.DrawFn) -> History:
    """Draw a history whose messages are damaged, and perhaps all that is made of them as well."""
    history = draw(st.sampled_from(draw(damaged_history())))
    lost = draw(st.sets(st.integers(1, 8), max_size=2))
    events = {event for event in history.events if event.number not in lost}
    copied = draw(st.sets(st.sampled_from(sorted(events)), max_size=1)) if events else set()
    return replace(
        history,
        events=frozenset(events | {event._replace(hour=event.hour + 0.5) for event in copied}),
        deleted_to=draw(st.sampled_from([history.deleted_to, None, 1, 3])),
        is_listed=draw(st.booleans()),
        misplaced=draw(st.frozensets(st.integers(1, 8), max_size=1)),
    )


def as_repaired(history: History) -> History:
    """Return what a repair must leave of a history, all of whose events are old."""
    return _Repair(history).result()


class _Repair:
    """The stored history of one persistence id, with its events that do not count as deleted."""

    def __init__(self, history: History) -> None:
        self.history, self.deleted_to = history, history.deleted_to or 0
        events = [event for event in history.events if event.number > self.deleted_to]
        self.events = {event.timestamp: event for event in events}
        self.numbers = {event.number for event in events}
        self.last = max(self.numbers, default=0)
        reached = [progress.sequence_nr for progress in history.progress.values()]
        self.recorded_to = max([history.scanned_to or 0, *reached])

    def result(self) -> History:
        """Judge each tag alone, and tag_scanning last."""
        history = self.history
        if not history.events and history.deleted_to is None:
            return history  # Removed permanently: its rows are the only copy of its events.
        tags = {row.tag for row in history.rows} | history.progress.keys()
        tags |= {tag for event in self.events.values() for tag in event.tags}
        rows, progress, has_lost_tail = set[Row](), dict[str, Progress](), False
        for tag in tags:
            deleted, lost = self._rows_without_event(tag)
            has_lost_tail |= any(row.event.number > self.last for row in lost)
            numbers = self._numbering(tag, deleted | lost)
            expected = self._carriers(tag, numbers) | _renumbered(lost, numbers)
            rows |= expected | deleted
            reached = self._progress(tag, numbers, expected, deleted)
            if reached is not None:
                progress[tag] = reached
        scanned_to, end = history.scanned_to, max(self.last, self.deleted_to)
        if scanned_to is not None and scanned_to > end and not has_lost_tail:
            scanned_to = end
        return replace(history, rows=frozenset(rows), progress=progress, scanned_to=scanned_to)

    def _carries(self, event: Event, tag: str) -> bool:
        return tag in event.tags and event.cause is None

    def _rows_without_event(self, tag: str) -> tuple[set[Row], set[Row]]:
        """Return the rows of deleted events, and those that have the only copy of something."""
        deleted, lost = set[Row](), set[Row]()
        for row in self.history.rows:
            if row.tag != tag:
                continue
            event, number = self.events.get(row.event.timestamp), row.event.number
            if event is not None:
                if event.cause is not None or not event.tags:
                    lost.add(row)
            elif number <= self.deleted_to:
                deleted.add(row)
            # After the last event, only another table shows that there was one.
            elif number not in self.numbers and number < max(self.last, self.recorded_to + 1):
                lost.add(row)
        return deleted, lost

    def _numbering(self, tag: str, without_event: set[Row]) -> Numbering:
        events: dict[int, bool] = {}
        for event in self.events.values():
            events[event.number] = events.get(event.number, False) or self._carries(event, tag)
        rows = [(row.event.number, row.number) for row in without_event]
        for row in self.history.rows:
            event_of_row = self.events.get(row.event.timestamp)
            if row.tag == tag and event_of_row and self._carries(event_of_row, tag):
                rows.append((row.event.number, row.number))
        progress = self.history.progress.get(tag)
        return numbering(Series(events, rows, progress[:2] if progress else None))

    def _carriers(self, tag: str, numbers: Numbering) -> set[Row]:
        return {
            Row(tag, numbers.numbers[event.number], event, event.time_bucket)
            for event in self.events.values()
            if self._carries(event, tag)
        }

    def _progress(
        self, tag: str, numbers: Numbering, expected: set[Row], deleted: set[Row]
    ) -> Progress | None:
        """Return the progress: at the last event, or such that the next gets a higher number."""
        right = None
        if expected or deleted:
            last = max(expected, key=lambda row: row.event.number, default=None) or max(
                deleted, key=lambda row: (row.number, row.event.number)
            )
            right = Progress(last.event.number, last.number, last.event.timestamp)
        stored = self.history.progress.get(tag)
        if stored is None:
            return right
        # It may record an event that is lost, if its number is possible.
        is_possible = (
            stored.sequence_nr not in self.numbers
            and stored.sequence_nr < self.last
            and stored.number == numbers.progress
        )
        if expected:
            is_behind = right is not None and stored.sequence_nr < right.sequence_nr
        else:
            is_possible |= stored.sequence_nr <= self.deleted_to
            is_behind = right is not None and stored.number < right.number
        return stored if is_possible and not is_behind else right


def _renumbered(lost: set[Row], numbers: Numbering) -> set[Row]:
    """Return rows without an event with the number that they must have, if one can be chosen."""
    rows_of_event = defaultdict[str, list[Row]](list)
    for row in lost:
        rows_of_event[row.event.timestamp].append(row)
    result = set[Row]()
    for rows in rows_of_event.values():
        right = [row._replace(number=numbers.numbers[row.event.number]) for row in rows]
        # Two rows in one time bucket, one of them right: a repair was killed.
        is_half_repaired = len(set(right)) == 1 and right[0] in rows
        result |= set(right if len(rows) == 1 or is_half_repaired else rows)
    return result
