"""A model of kafka-journal's replicator by loops: one action at a time, in the order of Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import md5
from typing import NamedTuple
from uuid import UUID

from hypothesis import strategies as st


class Action(NamedTuple):
    """An action; of an append `numbers` has the seq nrs of its events."""

    offset: int
    kind: str
    numbers: tuple[int, ...] = ()
    to: int | None = None
    days: int | None = None
    origin: str | None = None


@dataclass(frozen=True)
class Head:
    """A row of metajournal, without what does not depend on the actions."""

    offset: int
    size: int | None
    seq_nr: int
    delete_to: int | None
    days: int | None
    origin: str | None
    record: int | None
    """Offset of the append that made it."""

    def segment(self, number: int) -> int:
        """Return the segment of an event; a head of the model's own has a size."""
        assert self.size is not None
        return (number - 1) // self.size


@dataclass
class Stored:
    """A journal: its head, and the offset and the head's record of each event's row by
    (segment, seq nr, offset)."""

    head: Head | None = None
    rows: dict[tuple[int, int, int], int | None] = field(default_factory=dict)

    def copy(self) -> Stored:
        """Return a copy that changes alone."""
        return Stored(self.head, dict(self.rows))

    def apply(self, actions: Sequence[Action], size: int) -> None:
        """Apply actions; heads that are made have this segment size."""
        for action in actions:
            getattr(self, f"_{action.kind}")(action, size)

    def _append(self, action: Action, size: int) -> None:
        head = self.head
        if head is None:
            first = action.numbers[0]
            below = first - 1 if first > 1 else None
            head = Head(*(action.offset, size, 0, below, None, action.origin), record=action.offset)
        elif action.offset <= head.offset:
            return
        for number in action.numbers:
            self.rows[(head.segment(number), number, action.offset)] = head.record
        self.head = replace(head, offset=action.offset, seq_nr=action.numbers[-1], days=action.days)

    def _delete(self, action: Action, size: int) -> None:
        head, to = self.head, action.to
        assert to is not None
        if head is None:
            self.head = Head(action.offset, size, to, to, None, action.origin, None)
            return
        if action.offset <= head.offset:
            return
        seq_nr = max(head.seq_nr, head.delete_to or 0)
        self.head = replace(head, offset=action.offset, seq_nr=seq_nr, delete_to=min(to, seq_nr))
        first, last = (head.delete_to or 0) + 1, min(to, head.seq_nr)
        if first > last:
            return
        segments = [head.segment(number) for number in (first, last)]
        for segment, number, offset in list(self.rows):
            is_whole = segment < segments[1] or last >= head.seq_nr
            if segments[0] <= segment <= segments[1] and (is_whole or number <= last):
                del self.rows[segment, number, offset]

    def _purge(self, action: Action, size: int) -> None:
        head = self.head
        if head is None or action.offset < head.offset:
            return
        to = head.delete_to
        low, high = (1, head.seq_nr) if to is None else sorted((to, head.seq_nr))
        segments = (head.segment(low) - 1, head.segment(high) + 1)
        self.rows = {
            key: record
            for key, record in self.rows.items()
            if not segments[0] <= key[0] <= segments[1]
        }
        self.head = None


def record_id(name: str, offset: int, topic: str = "t", partition: int = 3) -> str:
    """Return the UUID of a head, from the name of its first record."""
    parts = [topic, str(partition), name, str(offset)]
    digest = bytearray(md5("\0".join(parts).encode()).digest())
    digest[6] = digest[6] & 0x0F | 0x30
    digest[8] = digest[8] & 0x3F | 0x80
    return str(UUID(bytes=bytes(digest)))


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Action], int, set[int]]:
    """Draw the actions on a journal in the order of Kafka, where a run before has ended, and the
    numbers of rows that a crash has left."""
    number, actions = 0, []
    for offset in range(draw(st.integers(1, 9))):
        kind = draw(st.sampled_from(["append"] * 4 + ["delete"] * 3 + ["purge"]))
        origin = draw(st.sampled_from(["here", "there", None]))
        if kind == "append":
            # Writers leave numbers out, and another begins anew.
            first = max(1, number + draw(st.sampled_from([1, 1, 1, 2, 5, -2])))
            number = first + draw(st.integers(0, 3))
            numbers = tuple(range(first, number + 1))
            days = draw(st.sampled_from([None, None, 1, 2]))
            actions.append(Action(offset * 2, kind, numbers, days=days, origin=origin))
        else:
            to = draw(st.integers(1, max(number, 1) + 3)) if kind == "delete" else None
            actions.append(Action(offset * 2, kind, to=to, origin=origin))
    left_over = draw(st.sets(st.integers(1, 20), max_size=3))
    return actions, draw(st.integers(0, len(actions))), left_over
