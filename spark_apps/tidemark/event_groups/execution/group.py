"""One group: its events as soon as what they depend on has succeeded, and the way back.

What an event is about to do is written before it does it: its parameters, its write time and the
rows as they are. So a run after a crash sends the same statement again, which writes the same.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from tidemark import clock
from tidemark.context import RunContext
from tidemark.event_groups.definition import dag
from tidemark.event_groups.definition.group_hooks import ENDS
from tidemark.event_groups.definition.model import Event, Policy
from tidemark.event_groups.definition.statement import Statement
from tidemark.event_groups.definition.tables import Table
from tidemark.event_groups.execution.failure import EventFailed
from tidemark.event_groups.execution.few_rows import MAX_BYTES, FewRows
from tidemark.event_groups.execution.hooks import HookTeller
from tidemark.event_groups.execution.loading import Loading
from tidemark.event_groups.execution.needs import Needs
from tidemark.event_groups.execution.rollback import Rollback
from tidemark.event_groups.outside.processes import Functions
from tidemark.event_groups.stream.states import (
    EventState,
    GroupState,
    StoredEvent,
    StoredGroup,
)
from tidemark.event_groups.stream.store import Stream
from tidemark.ledger import audit

if TYPE_CHECKING:
    from tidemark.event_groups.many_rows.events import ManyRows

EVENTS_AT_ONCE = 8
"""The most events of a group that are executed at the same time."""
_BEGUN = (EventState.RUNNING, EventState.DONE, EventState.FAILED, EventState.ROLLBACK_FAILED)


@dataclass(frozen=True)
class Means:
    """What a group is executed with.

    Attributes:
        ensure_locked: called before each kind of write.
        pool: threads for events, which other groups use as well.
        tables: tables that were read already, by `keyspace.table`; others are added.
        functions: the users' functions.
        teller: of the group's hooks.
        loading: of the group's libraries.
    """

    ensure_locked: Callable[[], None]
    pool: ThreadPoolExecutor
    tables: dict[str, Table]
    functions: Functions
    teller: HookTeller
    loading: Loading


class GroupExecution:
    """The execution of one group."""

    def __init__(
        self,
        run: RunContext,
        stream: Stream,
        group: StoredGroup,
        means: Means,
    ) -> None:
        """Bind; nothing is read yet."""
        self._run, self._control = run, run.control
        self._stream, self._group = stream, group
        self._definition = group.definition
        # A run that executes a group says so before it writes anything else of it.
        self._is_new = group.state is GroupState.SUBMITTED
        self._ensure_locked = means.ensure_locked
        self._pool, self._tables = means.pool, means.tables
        self._events: dict[str, StoredEvent] = {}
        self._mutex = threading.Lock()
        self._last_write_time = 0
        self._functions, self._teller = means.functions, means.teller
        self._loading = means.loading
        self._unready = ""
        self._asks = {"stream": stream.name, "group": group.id}
        self._needs = Needs(
            self._asks,
            lambda name: self._events[name].result,
            means.functions,
            run.settings.event_group_host_names,
        )
        self._few = FewRows(
            self._control, stream, group, self._needs, self._table, self._ensure_locked
        )

    def execute(self) -> tuple[GroupState, str]:
        """Execute the group, or go on with it; return how it ended, and why if not whole.

        Raises:
            CassandraUnavailable: states cannot be read or written; another run goes on.
            LockLost: another run may work on the stream.
        """
        name = self._group.id
        self._events = {event: StoredEvent() for event in self._definition.events} | (
            {} if self._is_new else self._stream.events(name)
        )
        self._last_write_time = max(self._write_times(), default=0)
        self._start_helpers()
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

    def _start_helpers(self) -> None:
        try:
            for helper in self._definition.group.hooks.helpers:
                self._functions.start_helper(helper, json.dumps(self._asks))
        except EventFailed as failure:
            self._unready = str(failure)

    def _set(self, state: GroupState, reason: str = "") -> tuple[GroupState, str]:
        """Write the state; how a group ended is audited before, rather twice than never."""
        self._ensure_locked()
        if state.has_ended or state is GroupState.ROLLBACK_FAILED:
            self._teller.finish()
            self._ensure_locked()
            lines, counts = [reason] if reason else [], {"events": len(self._events)}
            audit.record(self._run, f"event group {state}", self._group.id, lines, counts)
            if state is not GroupState.DONE and ENDS in self._definition.events:
                self._teller.group_ended(self._definition.events[ENDS], str(state), reason)
            self._ensure_locked()
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
        working: dict[Future[None], str] = {}
        while True:
            stops = is_strict and bool(self._failed())
            ready = [] if stops else self._ready(graph, set(working.values()))
            for name in ready[: EVENTS_AT_ONCE - len(working)]:
                working[self._pool.submit(self._execute, name)] = name
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
        told = self._teller.begins(event)
        state, result, reason = EventState.DONE, [], ""
        try:
            if why := self._unready or self._functions.helper_failure():
                raise EventFailed(why)
            result = self._sent(event, self._begun(event))
        except EventFailed as failure:
            state, reason = EventState.FAILED, str(failure)
        if unacknowledged := self._teller.ended(event, told, state, reason):
            state, result, reason = EventState.FAILED, [], unacknowledged
        self._end(name, state, result=result, reason=reason)

    def _begun(self, event: Event) -> StoredEvent:
        """Fix what the event does, unless an earlier run has begun it."""
        stored = self._events[event.name]
        if stored.state is EventState.RUNNING:
            return stored
        has_many = self._definition.has_many(event)
        parameters, newest = (self._many if has_many else self._few).prepare(event)
        if len(json.dumps(parameters)) > MAX_BYTES:
            raise EventFailed(f"its parameters have more than {MAX_BYTES:,} bytes")
        write_time = None if newest is None else self._next_write_time(newest)
        begun = StoredEvent(EventState.RUNNING, parameters, write_time)
        self._ensure_locked()
        self._stream.begin(self._group.id, event.name, begun)
        self._events[event.name] = begun
        return begun

    @cached_property
    def _many(self) -> ManyRows:
        # Imported here, so that a group without many rows does not wait for Spark.
        from tidemark.event_groups.many_rows.events import ManyRows

        group = self._stream.name, self._group.id
        return ManyRows(
            *(self._run, group, self._definition, self._needs, self._table, self._ensure_locked),
            self._loading.jar_functions,
        )

    def _next_write_time(self, behind: int) -> int:
        """Return a write time behind all of the group, and behind that of the rows."""
        with self._mutex:
            self._last_write_time = max(clock.now_micros(), self._last_write_time + 1, behind + 1)
            return self._last_write_time

    def _sent(self, event: Event, begun: StoredEvent) -> list[str]:
        if event.library is not None:
            self._ensure_locked()
            self._loading.load(event.library)
            self._functions.renew()
        if event.statement is None:
            return []
        if self._definition.has_many(event):
            self._many.send(event, begun)
            return []
        return self._few.send(event, begun)

    def _end(
        self, name: str, state: EventState, *, result: list[str] | None = None, reason: str = ""
    ) -> None:
        # Each row is JSON already.
        text = "" if not result else f"[{', '.join(result)}]"
        self._ensure_locked()
        self._stream.end(self._group.id, name, state, result=text, reason=reason)
        old = self._events[name]
        self._events[name] = replace(old, state=state, result=text or "[]", reason=reason)

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
        rollback = Rollback(
            self._control,
            self._definition,
            self._asks,
            self._functions,
            self._loading,
            self._table,
            own,
            self._ensure_locked,
        )
        for name in undone:
            stored = self._events[name]
            if stored.state not in _BEGUN or not rollback.is_needed(name, stored):
                continue
            images = partial(self._stream.images, self._group.id, name)
            try:
                event = self._definition.events[name]
                if self._definition.has_many(event):
                    self._many.take_back(event, stored, times[name], own)
                else:
                    rollback.take_back(name, stored, times[name], images)
            except EventFailed as failure:
                self._end(name, EventState.ROLLBACK_FAILED, reason=str(failure))
                return self._set(
                    GroupState.ROLLBACK_FAILED, f"{reason}; {name} is not rolled back: {failure}"
                )
            state = EventState.FAILED if then is GroupState.PARTLY_DONE else EventState.ROLLED_BACK
            self._end(name, state, reason=stored.reason)
        return self._set(then, reason)
