"""The way back of one event."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tidemark.cassandra.control import Control
from tidemark.event_groups.definition.file import Definition
from tidemark.event_groups.definition.model import Compensation
from tidemark.event_groups.definition.statement import Statement
from tidemark.event_groups.definition.tables import Table
from tidemark.event_groups.execution.before_image import Restoring
from tidemark.event_groups.execution.loading import Loading
from tidemark.event_groups.execution.statements import Parameters, send
from tidemark.event_groups.outside.processes import Functions
from tidemark.event_groups.stream.states import Image, StoredEvent


@dataclass(frozen=True)
class Rollback:
    """What the events of a group are taken back with.

    Attributes:
        control: the session.
        definition: of the group.
        asks: says to functions which group it is.
        functions: the users' functions.
        loading: of the group's libraries.
        table: reads the table of a statement.
        own: all write times of the group, those of what is put back included.
        ensure_locked: asked before each write.
    """

    control: Control
    definition: Definition
    asks: dict[str, str]
    functions: Functions
    loading: Loading
    table: Callable[[Statement], Table]
    own: Collection[int]
    ensure_locked: Callable[[], None]

    def is_needed(self, name: str, stored: StoredEvent) -> bool:
        """Tell whether there is anything to take back of an event that has begun."""
        event = self.definition.events[name]
        has_own = isinstance(event.rollback, Compensation) or event.library is not None
        return has_own or stored.write_time is not None

    def take_back(
        self, name: str, stored: StoredEvent, at: int, images: Callable[[], list[Image]]
    ) -> None:
        """Take back what an event may have written, at a write time.

        Raises:
            EventFailed: Cassandra does not take it, or the user's function fails.
        """
        event = self.definition.events[name]
        if event.library is not None:
            self.ensure_locked()
            self.loading.take_back(event.library)
            self.functions.renew()
        elif isinstance(event.rollback, Compensation):
            self._compensate(name, event.rollback, stored, at)
        elif event.rollback == "restore" and stored.write_time is not None:
            self._restore(name, stored.parameters, at, images())

    def _compensate(self, name: str, rollback: Compensation, stored: StoredEvent, at: int) -> None:
        event = self.definition.events[name]
        if rollback.call is not None:
            told = json.dumps({**self.asks, "event": name, "parameters": stored.parameters})
            self.ensure_locked()
            self.functions.call(rollback.call, told, event.timeout)
        backs = self.definition.compensations(name)
        for parameters in reversed(stored.parameters):
            for one, back in zip(rollback.statements, backs, strict=True):
                self.ensure_locked()
                send(self.control, back, {**parameters, **one.values}, at, event.timeout)

    def _restore(
        self, name: str, parameters: Sequence[Parameters], at: int, images: list[Image]
    ) -> None:
        statement = self.definition.statements[name]
        for image in images:
            restoring = Restoring(
                self.control,
                statement,
                self.table(statement),
                parameters[image.statement],
                at,
                self.own,
                self.ensure_locked,
            )
            restoring.restore(image)
