"""The rollback of a group: how its events are undone, in which order, at which write times."""

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
    """Executes the statements of events: with the driver for few rows, with Spark for many."""

    def prepare(self, event: Event) -> Prepared:
        """Fix the parameters of an event, and keep before-images of the rows it will write.

        Raises:
            EventFailed: a needed value is not available, or the event writes a forbidden row.
        """

    def send(self, event: Event, stored: StoredEvent) -> list[str]:
        """Send the statements of an event; return the rows of a select as JSON, one text each.

        Raises:
            EventFailed: Cassandra rejects a statement, or `expect` does not hold for the rows.
        """

    def undo(self, event: Event, stored: StoredEvent, at: int, own: Collection[int]) -> None:
        """Restore the rows that an event may have written.

        `at` is the write time of restored values, in microseconds; `own` has the write times of all
        events that are undone, and of their restored values.

        Raises:
            EventFailed: Cassandra rejects a write.
        """


def in_order(
    graph: dag.Graph, stored: Mapping[str, StoredEvent], names: Collection[str]
) -> list[str]:
    """Return events in the order in which they are undone: the last writer first.

    A before-image has the values at its event's write, so older images must be restored later. An
    event without a write time comes directly before its dependencies.
    """
    moments: dict[str, tuple[int, int]] = {}
    flat = [name for part in dag.order(graph) for name in part]
    for position, name in enumerate(flat):
        newest = max((moments[dependency][0] for dependency in graph[name]), default=0)
        moments[name] = stored[name].write_time or newest, position
    return sorted(names, key=lambda name: moments[name], reverse=True)


def times_of(
    definition: GroupDefinition,
    events: Mapping[str, StoredEvent],
    undone: Sequence[str],
    newest: int,
) -> dict[str, range]:
    """Return the write times at which events are undone, in the order of `undone`.

    All of them are later than `newest`, in microseconds.
    """
    times, start = {}, newest + 1
    for name in undone:
        own_statements = len(definition.compensations(name)) * len(events[name].parameters)
        times[name] = range(start, start + max(TIME_OF_EVENT, own_statements))
        start = times[name].stop
    return times


def own_times(
    definition: GroupDefinition, events: Mapping[str, StoredEvent], times: Mapping[str, range]
) -> set[int]:
    """Return the write times of the events that are undone, and of their restored values."""
    own: set[int] = set()
    for name, undo_times in times.items():
        # The other times of a row that is restored are for values that others have written.
        own |= {*(undo_times if definition.compensations(name) else undo_times[:1])}
        write_time = events[name].write_time
        if write_time is not None and definition.events[name].rollback != "none":
            own.add(write_time)
    return own


def is_needed(definition: GroupDefinition, name: str, stored: StoredEvent) -> bool:
    """Tell whether there is anything to undo of an event."""
    if stored.state not in _BEGUN:
        return False
    event, statement = definition.events[name], definition.statements.get(name)
    if statement is not None and statement.writes:
        # A rejected statement has no write time, and wrote nothing.
        return stored.write_time is not None
    return isinstance(event.rollback, Compensation) or event.library is not None


@dataclass(frozen=True)
class Rollback:
    """Undoes the events of a group.

    Attributes:
        control: the session.
        definition: of the group.
        origin: tells functions and services which group calls them.
        sequence: the group's position in its stream.
        functions: the users' functions.
        loading: of the group's libraries.
        table: reads the table of a statement.
        engine: returns the engine of an event.
        own: write times of the events that are undone, and of their restored values.
        settings: limit the services that may be asked.
        ensure_locked: called before each write.
    """

    control: Control
    definition: GroupDefinition
    origin: dict[str, str]
    sequence: int
    functions: Functions
    loading: Loading
    table: Callable[[Statement], Table]
    engine: Callable[[Event], Engine]
    own: Collection[int]
    settings: Settings
    ensure_locked: Callable[[], None]

    def take_back(self, name: str, stored: StoredEvent, at: int) -> bool:
        """Undo what an event may have written, at write times from `at` on.

        Returns:
            whether it is undone; otherwise an external service has yet to undo it.

        Raises:
            EventFailed: Cassandra rejects a write, the user's function fails, or the service has
                not undone it in time.
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
        """Ask an external service to undo an event, and tell whether it has."""
        body = {**self.origin, "event": name, "parameters": stored.parameters}
        # The id of a group is free again once purge has deleted the group.
        key = "/".join([*self.origin.values(), str(self.sequence), name])
        self.ensure_locked()
        # This time is stored before the service is asked.
        at = cast(datetime, stored.asked_at)
        return asking.is_done(self.settings, asking.Question(asked, key, body, at))

    def _compensate(self, name: str, rollback: Compensation, stored: StoredEvent, at: int) -> None:
        event = self.definition.events[name]
        if rollback.call is not None:
            body = json.dumps({**self.origin, "event": name, "parameters": stored.parameters})
            self.ensure_locked()
            self.functions.call(rollback.call, body, event.timeout)
        parsed_statements = self.definition.compensations(name)
        # Each write wins over the previous one, even if both write the same row.
        times = count(at)
        for parameters in reversed(stored.parameters):
            for compensating, parsed in zip(rollback.statements, parsed_statements, strict=True):
                values = {**parameters, **compensating.values}
                require_declared(self.definition, parsed, self.table(parsed), values)
                self.ensure_locked()
                send(self.control, parsed, values, next(times), event.timeout)
