"""The way back of the events of a group: in which order, at which write times, and by which way."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Protocol, cast

from tidemark.cassandra.control import Control
from tidemark.event_groups.definition import dag
from tidemark.event_groups.definition.file import GroupDefinition
from tidemark.event_groups.definition.model import AskedAddress, Compensation, Event
from tidemark.event_groups.definition.statement import Statement
from tidemark.event_groups.definition.tables import Table
from tidemark.event_groups.driver_engine.declared_rows import require_declared
from tidemark.event_groups.driver_engine.statements import Prepared, send
from tidemark.event_groups.driver_engine.undo import TIME_OF_EVENT
from tidemark.event_groups.execution.loading import Loading
from tidemark.event_groups.external import asking
from tidemark.event_groups.external.processes import Functions
from tidemark.event_groups.stream.states import EventState, StoredEvent
from tidemark.settings import Settings

_BEGUN = (
    *(EventState.RUNNING, EventState.DONE, EventState.FAILED),
    *(EventState.ROLLBACK_ASKED, EventState.ROLLBACK_FAILED),
)


class Engine(Protocol):
    """What executes the statements of events: the driver for few rows, Spark for many."""

    def prepare(self, event: Event) -> Prepared:
        """Keep the rows that an event will write, and fix its parameters.

        Raises:
            EventFailed: a value that it needs cannot be had, or it writes what it must not.
        """

    def send(self, event: Event, begun: StoredEvent) -> list[str]:
        """Send the statements of an event; return the rows of a select, each in JSON.

        Raises:
            EventFailed: Cassandra does not take it, or the rows are not what the event expects.
        """

    def undo(self, event: Event, stored: StoredEvent, at: int, own: Collection[int]) -> None:
        """Put back the rows that an event may have written.

        Args:
            event: the event.
            stored: what is stored of it.
            at: the write time of what is put back, in microseconds.
            own: the write times of the events that are taken back, and of what is put back.

        Raises:
            EventFailed: Cassandra does not take it.
        """


def in_order(
    graph: dag.Graph, stored: Mapping[str, StoredEvent], names: Collection[str]
) -> list[str]:
    """Return events in the order in which they are taken back: the last that has written first.

    Each image has what was there when its event wrote, so an older one must be put back later. An
    event without a write time comes directly before those that it depends on.
    """
    moments: dict[str, tuple[int, int]] = {}
    flat = [name for part in dag.order(graph) for name in part]
    for place, name in enumerate(flat):
        before = max((moments[one][0] for one in graph[name]), default=0)
        moments[name] = stored[name].write_time or before, place
    return sorted(names, key=lambda name: moments[name], reverse=True)


def times_of(
    definition: GroupDefinition,
    events: Mapping[str, StoredEvent],
    undone: Sequence[str],
    newest: int,
) -> dict[str, range]:
    """Return the write times of the ways back of events, in their order.

    Args:
        definition: of the group.
        events: what is stored of them.
        undone: those that are taken back.
        newest: the write time, in microseconds, that all are later than.
    """
    times, begin = {}, newest + 1
    for name in undone:
        own_statements = len(definition.compensations(name)) * len(events[name].parameters)
        times[name] = range(begin, begin + max(TIME_OF_EVENT, own_statements))
        begin = times[name].stop
    return times


def own_times(
    definition: GroupDefinition, events: Mapping[str, StoredEvent], times: Mapping[str, range]
) -> set[int]:
    """Return the write times of events that are taken back, and of what is put back of them."""
    own: set[int] = set()
    for name, of_event in times.items():
        # At the other times of a row that is restored, what others have written is put back.
        own |= {*(of_event if definition.compensations(name) else of_event[:1])}
        written = events[name].write_time
        if written is not None and definition.events[name].rollback != "none":
            own.add(written)
    return own


def is_needed(definition: GroupDefinition, name: str, stored: StoredEvent) -> bool:
    """Tell whether there is anything to take back of an event."""
    if stored.state not in _BEGUN:
        return False
    event, statement = definition.events[name], definition.statements.get(name)
    if statement is not None and statement.writes:
        # Of one that Cassandra has refused there is none, and nothing was written.
        return stored.write_time is not None
    return isinstance(event.rollback, Compensation) or event.library is not None


@dataclass(frozen=True)
class Rollback:
    """What the events of a group are taken back with.

    Attributes:
        control: the session.
        definition: of the group.
        asks: says to functions which group it is.
        sequence: the group's place in its stream.
        functions: the users' functions.
        loading: of the group's libraries.
        table: reads the table of a statement.
        engine: returns what has executed an event.
        own: write times of the events that are taken back, and of what is put back of them.
        settings: say who may be asked.
        ensure_locked: asked before each write.
    """

    control: Control
    definition: GroupDefinition
    asks: dict[str, str]
    sequence: int
    functions: Functions
    loading: Loading
    table: Callable[[Statement], Table]
    engine: Callable[[Event], Engine]
    own: Collection[int]
    settings: Settings
    ensure_locked: Callable[[], None]

    def take_back(self, name: str, stored: StoredEvent, at: int) -> bool:
        """Take back what an event may have written, at a write time.

        Returns:
            whether it is done; else somebody is asked who has not done it yet.

        Raises:
            EventFailed: Cassandra does not take it, the user's function fails, or who is asked
                has not done it in time.
        """
        event = self.definition.events[name]
        if event.library is not None:
            self.ensure_locked()
            self.loading.take_back(event.library)
            self.functions.renew()
        elif event.asked is not None:
            return self._is_done_by(name, event.asked, stored)
        elif isinstance(event.rollback, Compensation):
            self._compensate(name, event.rollback, stored, at)
        elif event.rollback == "restore":
            self.engine(event).undo(event, stored, at, self.own)
        return True

    def _is_done_by(self, name: str, asked: AskedAddress, stored: StoredEvent) -> bool:
        """Ask somebody to take back an event, and tell whether they have."""
        body = {**self.asks, "event": name, "parameters": stored.parameters}
        # The id of a group is free again once purge has deleted it.
        key = "/".join([*self.asks.values(), str(self.sequence), name])
        self.ensure_locked()
        # It is written before anybody is asked.
        at = cast(datetime, stored.asked_at)
        return asking.is_done(self.settings, asking.Question(asked, key, body, at))

    def _compensate(self, name: str, rollback: Compensation, stored: StoredEvent, at: int) -> None:
        event = self.definition.events[name]
        if rollback.call is not None:
            told = json.dumps({**self.asks, "event": name, "parameters": stored.parameters})
            self.ensure_locked()
            self.functions.call(rollback.call, told, event.timeout)
        backs = self.definition.compensations(name)
        # Each wins over the one before it, also where they write the same row.
        times = count(at)
        for parameters in reversed(stored.parameters):
            for one, back in zip(rollback.statements, backs, strict=True):
                values = {**parameters, **one.values}
                require_declared(self.definition, back, self.table(back), values)
                self.ensure_locked()
                send(self.control, back, values, next(times), event.timeout)
