"""One group: its events as soon as what they depend on has succeeded, and the way back.

What an event is about to do is written before it does it: its parameters, its write time and the
rows as they are. So a run after a crash sends the same statement again, which writes the same.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from tidemark import clock
from tidemark.context import RunContext
from tidemark.event_groups.definition import dag
from tidemark.event_groups.definition.model import Compensation, Event, Need, Policy
from tidemark.event_groups.definition.statement import Statement
from tidemark.event_groups.definition.tables import Table
from tidemark.event_groups.definition.tokens import Token
from tidemark.event_groups.execution import before_image
from tidemark.event_groups.execution.before_image import Restoring
from tidemark.event_groups.execution.failure import EventFailed
from tidemark.event_groups.execution.statements import Parameters, send
from tidemark.event_groups.stream.store import (
    EventState,
    GroupState,
    StoredEvent,
    StoredGroup,
    Stream,
    as_json,
)
from tidemark.ledger import audit

_PARALLEL = 8
_MAX_RESULT_ROWS = 1000
_BEGUN = (EventState.RUNNING, EventState.DONE, EventState.FAILED, EventState.ROLLBACK_FAILED)


class GroupExecution:
    """The execution of one group."""

    def __init__(
        self,
        run: RunContext,
        stream: Stream,
        group: StoredGroup,
        ensure_locked: Callable[[], None],
    ) -> None:
        """Bind; nothing is read yet."""
        self._run, self._control = run, run.control
        self._stream, self._group = stream, group
        self._definition = group.definition
        self._ensure_locked = ensure_locked
        self._tables: dict[str, Table] = {}
        self._events: dict[str, StoredEvent] = {}
        self._mutex = threading.Lock()
        self._last_write_time = 0

    def execute(self) -> tuple[GroupState, str]:
        """Execute the group, or go on with it; return how it ended, and why if not whole.

        Raises:
            CassandraUnavailable: states cannot be read or written; another run goes on.
            LockLost: another run may work on the stream.
        """
        name = self._group.id
        self._events = {
            event: StoredEvent() for event in self._definition.events
        } | self._stream.events(name)
        self._last_write_time = max(self._write_times(), default=0)
        if self._group.state in (GroupState.SUBMITTED, GroupState.RUNNING):
            self._set(GroupState.RUNNING)
            self._go_forward()
            failed = self._failed()
            if not failed:
                return self._set(GroupState.DONE)
            if self._definition.group.policy is Policy.ONE_FOR_ONE:
                return self._leave_out(failed)
            reason = f"{failed[0]}: {self._events[failed[0]].reason}"
            self._set(GroupState.ROLLING_BACK, reason)
        else:
            reason = self._group.reason
        return self._go_back(list(self._definition.events), GroupState.ROLLED_BACK, reason)

    def _set(self, state: GroupState, reason: str = "") -> tuple[GroupState, str]:
        """Write the state; how a group ended is audited before, rather twice than never."""
        self._ensure_locked()
        if state.has_ended or state is GroupState.ROLLBACK_FAILED:
            lines, counts = [reason] if reason else [], {"events": len(self._events)}
            audit.record(self._run, f"event group {state}", self._group.id, lines, counts)
        self._stream.set_state(self._group.id, state, reason)
        return state, reason

    def _failed(self) -> list[str]:
        return [name for name, one in self._events.items() if one.state is EventState.FAILED]

    def _write_times(self) -> list[int]:
        return [one.write_time for one in self._events.values() if one.write_time is not None]

    def _go_forward(self) -> None:
        """Execute events until none is left whose dependencies have succeeded."""
        is_strict = self._definition.group.policy is Policy.ALL_FOR_ONE
        graph = self._definition.graph
        with ThreadPoolExecutor(_PARALLEL, thread_name_prefix="event") as pool:
            working: dict[Future[None], str] = {}
            while True:
                stops = is_strict and bool(self._failed())
                for name in [] if stops else self._ready(graph, set(working.values())):
                    working[pool.submit(self._execute, name)] = name
                if not working:
                    return
                finished, _ = wait(working, return_when=FIRST_COMPLETED)
                for one in finished:
                    del working[one]
                    one.result()

    def _ready(self, graph: dag.Graph, working: set[str]) -> list[str]:
        return [
            name
            for name, before in graph.items()
            if name not in working
            and self._events[name].state in (EventState.PENDING, EventState.RUNNING)
            and all(self._events[one].state is EventState.DONE for one in before)
        ]

    def _execute(self, name: str) -> None:
        event = self._definition.events[name]
        try:
            begun = self._begun(event)
            result = self._sent(event, begun)
            self._end(name, EventState.DONE, result=result)
        except EventFailed as failure:
            self._end(name, EventState.FAILED, reason=str(failure))

    def _begun(self, event: Event) -> StoredEvent:
        """Fix what the event does, unless an earlier run has begun it."""
        stored = self._events[event.name]
        if stored.state is EventState.RUNNING:
            return stored
        parameters = self._parameters(event)
        statement = self._definition.statements.get(event.name)
        write_time = None
        if statement is not None and statement.writes:
            self._require_declared(statement, parameters)
            newest = 0
            if event.rollback == "restore":
                table = self._table(statement)
                images = before_image.read(self._control, statement, table, parameters)
                newest = before_image.newest_write_time(images)
                self._ensure_locked()
                self._stream.keep_images(self._group.id, event.name, images)
            write_time = self._next_write_time(newest)
        begun = StoredEvent(EventState.RUNNING, parameters, write_time)
        self._ensure_locked()
        self._stream.begin(self._group.id, event.name, begun)
        self._events[event.name] = begun
        return begun

    def _next_write_time(self, behind: int) -> int:
        """Return a write time behind all of the group, and behind that of the rows."""
        with self._mutex:
            self._last_write_time = max(clock.now_micros(), self._last_write_time + 1, behind + 1)
            return self._last_write_time

    def _sent(self, event: Event, begun: StoredEvent) -> list[str]:
        statement = self._definition.statements.get(event.name)
        if statement is None:
            return []
        self._ensure_locked()
        rows = send(
            self._control, statement, begun.parameters or {}, begun.write_time, event.timeout
        )
        if len(rows) > _MAX_RESULT_ROWS:
            raise EventFailed(f"it has found more than {_MAX_RESULT_ROWS:,} rows")
        met = {None: True, "one": len(rows) == 1, "some": bool(rows), "none": not rows}
        if not met[event.expect]:
            raise EventFailed(f"it has found {len(rows)} rows, and expects {event.expect}")
        return rows

    def _end(
        self, name: str, state: EventState, *, result: list[str] | None = None, reason: str = ""
    ) -> None:
        # Each row is JSON already.
        text = "" if not result else f"[{', '.join(result)}]"
        self._ensure_locked()
        self._stream.end(self._group.id, name, state, result=text, reason=reason)
        old = self._events[name]
        self._events[name] = StoredEvent(
            state, old.parameters, old.write_time, as_json(text or "[]"), reason
        )

    def _parameters(self, event: Event) -> Parameters:
        return dict(event.values) | {need.as_: self._needed(need) for need in event.needs}

    def _needed(self, need: Need) -> object:
        rows = self._events[need.event].result
        column = need.take or need.as_
        if len(rows) != 1:
            raise EventFailed(f"{need.event} has found {len(rows)} rows, and one is needed")
        if column not in rows[0]:
            raise EventFailed(f"the result of {need.event} has no column {column}")
        return rows[0][column]

    def _require_declared(self, statement: Statement, parameters: Parameters) -> None:
        rows = self._definition.rows
        if rows is None:
            return
        written = {name: _text(tokens, parameters) for name, tokens in statement.key.items()}
        if not any(
            table == statement.name and all(written.get(name) == value for name, value in key)
            for table, key in rows
        ):
            raise EventFailed(
                f"it writes a row of {statement.name} that the group has not declared"
            )

    def _table(self, statement: Statement) -> Table:
        if statement.name not in self._tables:
            found = Table.read(self._control, statement.keyspace, statement.table)
            if found is None:
                raise EventFailed(f"there is no table {statement.name} any more")
            self._tables[statement.name] = found
        return self._tables[statement.name]

    def _leave_out(self, failed: list[str]) -> tuple[GroupState, str]:
        """End a group whose events stand for themselves: failed ones are taken back alone."""
        for name in dag.dependents(self._definition.graph, failed):
            if self._events[name].state is EventState.PENDING:
                self._end(name, EventState.SKIPPED, reason="what it depends on has failed")
        reasons = "; ".join(f"{name}: {self._events[name].reason}" for name in failed)
        return self._go_back(failed, GroupState.PARTLY_DONE, reasons)

    def _go_back(self, names: list[str], then: GroupState, reason: str) -> tuple[GroupState, str]:
        """Take back what events may have written, the last first."""
        flat = [name for part in dag.order(self._definition.graph) for name in part]
        undone = [name for name in reversed(flat) if name in names]
        newest = max(self._write_times(), default=0)
        # Behind all that the group has written, and that of the first event behind all others.
        times = {name: newest + len(flat) - place for place, name in enumerate(flat)}
        own = {*self._write_times(), *(times[name] for name in undone)}
        for name in undone:
            stored = self._events[name]
            if stored.state not in _BEGUN or stored.write_time is None:
                continue
            try:
                self._take_back(name, stored, times[name], own)
            except EventFailed as failure:
                self._end(name, EventState.ROLLBACK_FAILED, reason=str(failure))
                return self._set(
                    GroupState.ROLLBACK_FAILED, f"{reason}; {name} is not rolled back: {failure}"
                )
            state = EventState.FAILED if then is GroupState.PARTLY_DONE else EventState.ROLLED_BACK
            self._end(name, state, reason=stored.reason)
        return self._set(then, reason)

    def _take_back(self, name: str, stored: StoredEvent, at: int, own: set[int]) -> None:
        event, statement = self._definition.events[name], self._definition.statements[name]
        parameters = stored.parameters or {}
        if isinstance(event.rollback, Compensation):
            for one, back in zip(
                event.rollback.statements, self._definition.compensations(name), strict=True
            ):
                self._ensure_locked()
                send(self._control, back, {**parameters, **one.values}, at, event.timeout)
        elif event.rollback == "restore":
            restoring = Restoring(
                self._control,
                statement,
                self._table(statement),
                parameters,
                at,
                own,
            )
            for image in self._stream.images(self._group.id, name):
                self._ensure_locked()
                restoring.restore(image)


def _text(tokens: tuple[Token, ...], parameters: Mapping[str, object]) -> str | None:
    """Return the value of a key column as a text; None of one that only Cassandra knows."""
    if len(tokens) != 1:
        return None
    [token] = tokens
    if token.kind == "parameter":
        value = parameters[token.text[1:]]
        return value if isinstance(value, str) else json.dumps(value)
    return token.text[1:-1].replace("''", "'") if token.kind == "text" else token.text
