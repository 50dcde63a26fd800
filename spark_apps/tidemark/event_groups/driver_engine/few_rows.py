"""Events with few rows: the driver sends their statements, once for each set of parameters.

`spark_engine.events` does the same with Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import chain

from tidemark.cassandra.control import Control
from tidemark.event_groups.definition.model import Event
from tidemark.event_groups.definition.statement import Statement
from tidemark.event_groups.definition.tables import Table
from tidemark.event_groups.driver_engine import before_image
from tidemark.event_groups.driver_engine.declared_rows import require_declared, require_rows_once
from tidemark.event_groups.driver_engine.parameters import Needs
from tidemark.event_groups.driver_engine.statements import (
    MAX_RESULT_ROWS,
    Parameters,
    Prepared,
    in_parallel,
    send,
)
from tidemark.event_groups.failure import EventFailed
from tidemark.event_groups.stream.states import Image, StoredEvent, StoredGroup
from tidemark.event_groups.stream.store import Stream

MAX_BYTES = 4 * 1024 * 1024
"""The maximum bytes of a result, and of an event's parameters: each is one cell in Cassandra."""


class DriverEngine:
    """Executes and undoes the events of one group."""

    def __init__(
        self,
        control: Control,
        stream: Stream,
        group: StoredGroup,
        needs: Needs,
        table: Callable[[Statement], Table],
        ensure_locked: Callable[[], None],
    ) -> None:
        """Bind; `table` reads the table of a statement."""
        self._control, self._stream, self._group = control, stream, group
        self._needs, self._table, self._ensure_locked = needs, table, ensure_locked

    def prepare(self, event: Event) -> Prepared:
        """Fix the parameters of an event, and keep before-images of the rows it will write."""
        parameters = self._needs.parameters(event)
        statement = self._group.definition.statements.get(event.name)
        if statement is None:
            return Prepared(parameters)
        table = self._table(statement)
        for values in parameters:
            require_declared(self._group.definition, statement, table, values)
        if not statement.writes:
            return Prepared(parameters)
        require_rows_once(statement, table, parameters)
        if event.rollback != "restore":
            return Prepared(parameters, 0)
        images = self._images(statement, parameters)
        self._ensure_locked()
        self._stream.images.keep(self._group.id, event.name, images)
        return Prepared(parameters, before_image.newest_write_time(images), len(images))

    def _images(self, statement: Statement, parameters: Sequence[Parameters]) -> list[Image]:
        """Return the before-images of the rows."""
        table = self._table(statement)

        def read(numbered: tuple[int, Parameters]) -> list[Image]:
            number, values = numbered
            return before_image.read(self._control, statement, table, values, number)

        return list(chain.from_iterable(in_parallel(read, enumerate(parameters))))

    def undo(self, event: Event, stored: StoredEvent, at: int, own: Collection[int]) -> None:
        """Restore the rows that an event may have written."""
        statement = self._group.definition.statements[event.name]
        if stored.write_time is None or not statement.writes:
            return
        for image in self._stream.images.of(self._group.id, event.name, stored.images):
            before_image.Restoring(
                self._control,
                statement,
                self._table(statement),
                stored.parameters[image.statement],
                stored.write_time,
                at,
                own,
                self._ensure_locked,
            ).restore(image)

    def send(self, event: Event, stored: StoredEvent) -> list[str]:
        """Send the statements of an event; return the rows of a select as JSON, one text each."""
        statement = self._group.definition.statements[event.name]

        def sent(parameters: Parameters) -> list[str]:
            self._ensure_locked()
            return send(self._control, statement, parameters, stored.write_time, event.timeout)

        rows = list(chain.from_iterable(in_parallel(sent, stored.parameters)))
        if len(rows) > MAX_RESULT_ROWS:
            raise EventFailed(f"it has found more than {MAX_RESULT_ROWS:,} rows")
        if sum(len(row.encode()) for row in rows) > MAX_BYTES:
            raise EventFailed(f"it has found more than {MAX_BYTES:,} bytes")
        expectations = {None: True, "one": len(rows) == 1, "some": bool(rows), "none": not rows}
        if not expectations[event.expect]:
            raise EventFailed(f"it has found {len(rows)} rows, and expects {event.expect}")
        return rows
