"""Which groups are played, and which of their events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tidemark import clock
from tidemark.errors import CassandraUnavailable, InvalidInput, WrongData
from tidemark.event_groups.definition import statement
from tidemark.event_groups.definition.file import GroupDefinition
from tidemark.event_groups.definition.model import Event
from tidemark.event_groups.definition.statement import Elsewhere, Statement
from tidemark.event_groups.driver_engine.statements import Parameters
from tidemark.event_groups.failure import EventFailed
from tidemark.event_groups.stream.history import History, existing
from tidemark.event_groups.stream.states import (
    EventState,
    GroupState,
    StoredEvent,
    StoredGroup,
)
from tidemark.event_groups.stream.store import Stream


@dataclass(frozen=True)
class SelectedPart:
    """A part of a stream.

    Attributes:
        group: one group; None for a range.
        first: the first sequence of the range; None for 1.
        last: its last sequence; None for the last of the stream.
    """

    group: str | None
    first: int | None
    last: int | None

    def __str__(self) -> str:
        """Return the group, or the range."""
        if self.group is not None:
            return self.group
        return f"{self.first}-{self.last}"


def fixed(stream: Stream, part: SelectedPart) -> SelectedPart:
    """Return a part with fixed ends, so that groups submitted later change nothing.

    Raises:
        InvalidInput: there is no such group, or no such range.
    """
    if part.group is not None:
        if part.first is not None or part.last is not None:
            raise InvalidInput("a group has no range", where="--group", do="leave out --from, --to")
        existing(stream, part.group)
        return part
    end = stream.next_sequence() - 1
    first, last = part.first or 1, part.last or end
    if last > end or first > last:
        raise InvalidInput(
            f"there are no groups from {first} to {last}",
            where=f"stream {stream.name}",
            do=f"its last group is {end}",
        )
    return SelectedPart(None, first, last)


def groups(stream: Stream, history: History, part: SelectedPart) -> Iterator[StoredGroup]:
    """Yield the groups of a part that `fixed` has returned, in their order.

    Raises:
        InvalidInput: purge has deleted one, or one has not ended.
    """
    if part.group is not None:
        yield _ended(stream, existing(stream, part.group))
        return
    expected, last = part.first or 1, part.last or 0
    for sequence, name in history.places(expected, last):
        _require_no_hole(stream, expected, sequence - 1)
        expected = sequence + 1
        group = stream.group(name)
        if group is not None and group.sequence == sequence:
            yield _ended(stream, group)
    _require_no_hole(stream, expected, last)


def _require_no_hole(stream: Stream, first: int, last: int) -> None:
    if first <= last:
        raise InvalidInput(
            f"purge has deleted the groups from {first} to {last}",
            where=f"stream {stream.name}",
            do=f"end before them, or begin with --from {last + 1}",
        )


def _ended(stream: Stream, group: StoredGroup) -> StoredGroup:
    if not group.state.has_ended:
        raise InvalidInput(
            f"the group {group.id}, number {group.sequence}, is {group.state}",
            where=f"stream {stream.name}",
            do="let run_event_groups end it, or end before it",
        )
    return group


def not_stored(event: str, group: str, stream: str) -> WrongData:
    """Return the error that purge has deleted a part of an event."""
    return WrongData(
        f"what was stored of the event {event} of the group {group} is not there",
        where=f"stream {stream}",
        do="purge was deleting it; end before it",
    )


@dataclass(frozen=True)
class PlayedEvent:
    """A write of a group, to be sent to another keyspace.

    Attributes:
        group: its id.
        sequence: its place in the stream.
        name: of the event.
        source: the statement as it was sent.
        target: the statement as it is sent to the other keyspace.
        parameters: of each statement that was sent.
        write_time: of all statements, in microseconds.
        definition: of the group.
    """

    group: str
    sequence: int
    name: str
    source: Statement
    target: Statement
    parameters: Sequence[Parameters]
    write_time: int
    definition: GroupDefinition

    @property
    def event(self) -> Event:
        """Return the event."""
        return self.definition.events[self.name]

    @property
    def has_many(self) -> bool:
        """Tell whether it writes for each of many rows."""
        return self.definition.has_many(self.event)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Name the event in the errors of the block.

        Raises:
            CassandraUnavailable: in place of EventFailed.
        """
        try:
            yield
        except EventFailed as failure:
            do = "put it right and play it again: it writes the same"
            raise CassandraUnavailable(str(failure), where=self.place, do=do) from None

    @property
    def place(self) -> str:
        """Return the event and its group, for messages."""
        return f"event {self.name} of the group {self.group}"


def events(stream: Stream, group: StoredGroup, into: Mapping[str, str]) -> list[PlayedEvent]:
    """Return the writes that a group has left; none if it was rolled back or cancelled.

    Raises:
        InvalidInput: it writes to a keyspace that has no replacement.
        WrongData: its events are not stored any more.
    """
    if group.state not in (GroupState.DONE, GroupState.PARTLY_DONE):
        return []
    if why := group.definition.refusal:
        raise InvalidInput(
            f"the group {group.id}, number {group.sequence}, cannot be played: {why}",
            where=f"stream {stream.name}",
            do="end before it, or begin after it",
        )
    stored = stream.events(group.id)
    if not stored and group.definition.events:
        raise not_stored(min(group.definition.events), group.id, stream.name)
    played = []
    for name, source in group.definition.statements.items():
        # An event that never began has no row: somebody has settled the group as done.
        event, stored_event = group.definition.events[name], stored.get(name, StoredEvent())
        if stored_event.state is not EventState.DONE or stored_event.write_time is None:
            continue
        if source.keyspace not in into:
            raise InvalidInput(
                f"the group {group.id} writes to {source.keyspace}, and none takes its place",
                where="--into",
                do=f"add --into {source.keyspace}=ANOTHER",
            )
        age = max(clock.now_micros() - stored_event.write_time, 0) // 1_000_000
        target = statement.parse(str(event.statement), Elsewhere(into, age))
        played.append(
            PlayedEvent(
                *(group.id, group.sequence, name, source, target),
                *(stored_event.parameters, stored_event.write_time),
                group.definition,
            )
        )
    return played
