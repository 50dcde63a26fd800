"""The model of all that was written, in plain Python, with which all stored rows are compared.

The model uses no code of Tidemark. A number under a tag is a count over the events of a persistence
id that carry the tag, in sequence nr order. Events that actors delete before they were tagged may
be left out of the count (`excused`), since nobody can know of them any more.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

EPOCH_TICKS = 0x01B21DD213814000
"""Ticks of 100 ns between 1582-10-15, where timeuuids begin, and 1970."""


@dataclass(frozen=True)
class Event:
    """An event as its actor persisted it; `micros` is the writer's clock in µs since 1970.

    A poison event has no payload, and no row under the tags that it was written with.
    """

    persistence_id: str
    sequence_nr: int
    micros: int
    place: int
    tags: frozenset[str]
    kind: str
    amount: int
    is_poison: bool = False

    @property
    def timestamp(self) -> uuid.UUID:
        """The event's timeuuid, unique by `place`."""
        ticks = self.micros * 10 + EPOCH_TICKS
        fields = (ticks & 0xFFFFFFFF, ticks >> 32 & 0xFFFF, 0x1000 | ticks >> 48, 0x80, 0)
        return uuid.UUID(fields=(*fields, self.place))

    @property
    def payload(self) -> bytes:
        return json.dumps({"kind": self.kind, "amount": self.amount}).encode()

    def time_bucket(self, bucket_ms: int) -> int:
        ms = self.micros // 1000
        return ms - ms % bucket_ms

    def numbered(self, number: int) -> Event:
        """Return the event with another sequence nr."""
        return replace(self, sequence_nr=number)

    def __str__(self) -> str:
        return f"{self.persistence_id} {self.sequence_nr}"


@dataclass
class Truth:
    """All events ever written, and their fate.

    Attributes:
        events: all events by persistence id and sequence nr, deleted or not.
        lost: keys of events that are written, but that no read finds (yet).
        gone: keys of events that their actors have deleted.
        deleted_to: the sequence nr in the actors' metadata, by persistence id.
        tagged: the number of each seen row, by (persistence id, sequence nr, tag).
        excused: such keys of events that were deleted before a row of them was seen.
        seen_at: the time when the row of such a key was first seen.
        expired: such keys of rows that purge or a time to live removed.
    """

    events: dict[str, dict[int, Event]] = field(default_factory=dict)
    lost: set[tuple[str, int]] = field(default_factory=set)
    gone: set[tuple[str, int]] = field(default_factory=set)
    deleted_to: dict[str, int] = field(default_factory=dict)
    tagged: dict[tuple[str, int, str], int] = field(default_factory=dict)
    excused: set[tuple[str, int, str]] = field(default_factory=set)
    expired: set[tuple[str, int, str]] = field(default_factory=set)
    seen_at: dict[tuple[str, int, str], datetime] = field(default_factory=dict)

    def all(self) -> Iterator[Event]:
        """Yield every event ever written, in sequence nr order within each persistence id."""
        for by_number in self.events.values():
            for number in sorted(by_number):
                yield by_number[number]

    def visible(self) -> Iterator[Event]:
        """Yield the events that a read of the journal finds."""
        for event in self.all():
            key = (event.persistence_id, event.sequence_nr)
            if key not in self.lost and key not in self.gone:
                yield event

    def last(self, persistence_id: str) -> int:
        """Return the highest sequence nr of a persistence id, 0 without events."""
        return max(self.events.get(persistence_id, {}), default=0)

    def add(self, event: Event) -> None:
        self.events.setdefault(event.persistence_id, {})[event.sequence_nr] = event

    def delete(self, persistence_id: str, to: int) -> list[Event]:
        """Note a deletion by an actor and return its events; events without a row are excused."""
        doomed = [
            event
            for event in self.visible()
            if event.persistence_id == persistence_id and event.sequence_nr <= to
        ]
        for event in doomed:
            self.gone.add((event.persistence_id, event.sequence_nr))
            for tag in event.tags:
                key = (event.persistence_id, event.sequence_nr, tag)
                if key not in self.tagged:
                    self.excused.add(key)
        self.deleted_to[persistence_id] = max(to, self.deleted_to.get(persistence_id, 0))
        return doomed

    def see(self, rows: Mapping[tuple[str, int, str], int], now: datetime) -> None:
        """Note the rows that the tag views hold, with their numbers."""
        for key, number in rows.items():
            self.tagged[key] = number
            self.seen_at.setdefault(key, now)

    def expire(
        self, now: datetime, time_to_live: timedelta | None
    ) -> list[tuple[tuple[str, int, str], int]]:
        """Note and return the rows whose time to live is over, with their numbers."""
        if time_to_live is None:
            return []
        over = {key for key, since in self.seen_at.items() if since + time_to_live <= now}
        over -= self.expired
        self.expired |= over
        return [(key, self.tagged[key]) for key in sorted(over)]

    def series(self) -> dict[tuple[str, str], list[Event]]:
        """Return the events of each persistence id and tag in order, without those never tagged."""
        by_series: dict[tuple[str, str], list[Event]] = {}
        for event in self.all():
            for tag in event.tags:
                key = (event.persistence_id, event.sequence_nr, tag)
                is_left_out = key in self.excused and key not in self.tagged
                if not is_left_out and (event.persistence_id, event.sequence_nr) not in self.lost:
                    by_series.setdefault((event.persistence_id, tag), []).append(event)
        return by_series

    def numbers(self) -> dict[tuple[str, int, str], int]:
        """Return the number of every tagged event."""
        return {
            (pid, event.sequence_nr, tag): number
            for (pid, tag), events in self.series().items()
            for number, event in enumerate(events, start=1)
        }


def by_id(events: Iterable[Event]) -> dict[str, list[Event]]:
    """Return events by persistence id, in the order given."""
    events_of: dict[str, list[Event]] = {}
    for event in events:
        events_of.setdefault(event.persistence_id, []).append(event)
    return events_of
