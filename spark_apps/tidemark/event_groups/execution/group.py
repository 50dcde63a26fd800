"""Executes one group: each event once its dependencies have succeeded, and the rollback.

Before an event acts, its parameters, its write time and the before-images are stored. So a run
after a crash sends the same statement again, which writes the same.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from tidemark import clock
from tidemark.context import RunContext
from tidemark.errors import LockLost
from tidemark.event_groups.definition import dag
from tidemark.event_groups.definition.group_hooks import ENDS
from tidemark.event_groups.definition.model import Event, FailurePolicy
from tidemark.event_groups.definition.statement import Statement
from tidemark.event_groups.definition.tables import Table
from tidemark.event_groups.driver_engine.few_rows import MAX_BYTES, DriverEngine
from tidemark.event_groups.driver_engine.parameters import Needs
from tidemark.event_groups.execution.hooks import HookTeller
from tidemark.event_groups.execution.loading import Loading
from tidemark.event_groups.execution.rollback import (
    Engine,
    Rollback,
    in_order,
    is_needed,
    own_times,
    times_of,
)
from tidemark.event_groups.external.processes import Functions
from tidemark.event_groups.failure import EventFailed, failing_its_event
from tidemark.event_groups.stream.group_times import GroupTimes
from tidemark.event_groups.stream.states import (
    EventState,
    GroupState,
    StoredEvent,
    StoredGroup,
)
from tidemark.event_groups.stream.store import Stream
from tidemark.ledger import audit

if TYPE_CHECKING:
    from tidemark.event_groups.spark_engine.events import SparkEngine

EVENTS_AT_ONCE = 8
"""The maximum number of events of a group that are executed at the same time."""
MOST_AHEAD_S = 3600
"""The maximum seconds that a value's write time may be ahead: all later groups write after it."""
CANCEL_SEEN_S = 1
"""Seconds after which a run that executes events notices that their group was cancelled."""


@dataclass(frozen=True)
class ExecutionServices:
    """The collaborators of a group's execution.

    Attributes:
        ensure_locked: called before each kind of write.
        pool: threads for events, shared with other groups.
        tables: a cache of tables by `keyspace.table`.
        times: gives write times.
        functions: the users' functions.
        teller: sends the group's hooks.
        loading: loads the group's libraries.
    """

    ensure_locked: Callable[[], None]
    pool: ThreadPoolExecutor
    tables: dict[str, Table]
    times: GroupTimes
    functions: Functions
    teller: HookTeller
    loading: Loading


class _Overtaken(Exception):
    """Somebody else has changed the state of the group to `state`."""

    def __init__(self, state: GroupState, reason: str) -> None:
        super().__init__(state, reason)
        self.state, self.reason = state, reason


class GroupExecution:
    """Executes one group."""

    def __init__(
        self,
        run: RunContext,
        stream: Stream,
        group: StoredGroup,
        services: ExecutionServices,
    ) -> None:
        self._run, self._control = run, run.control
        self._stream, self._group = stream, group
        self._definition = group.definition
        self._ensure_locked = services.ensure_locked
        self._pool, self._tables = services.pool, services.tables
        self._events: dict[str, StoredEvent] = {}
        self._times = services.times
        self._newest_at = 0
        self._resumed: list[str] = []
        self._guard = threading.Lock()
        self._table_locks: dict[str, threading.Lock] = {}
        self._fatal_error: BaseException | None = None
        self._functions, self._teller = services.functions, services.teller
        self._loading = services.loading
        self._helper_error = ""
        self._state_seen_at = time.monotonic()
        self._origin = {"stream": stream.name, "group": group.id}
        self._needs = Needs(
            self._origin,
            lambda name: self._events[name].result,
            services.functions,
            run.settings.event_group_host_names,
        )
        self._driver_engine = DriverEngine(
            self._control, stream, group, self._needs, self._table, self._ensure_locked
        )

    def execute(self) -> tuple[GroupState, str]:
        """Execute or continue the group; return how it ended, and why if it did not succeed.

        Raises:
            CassandraUnavailable: states cannot be read or written; another run continues.
            LockLost: another run may work on the stream.
        """
        while True:
            try:
                return self._executed()
            except _Overtaken as change:
                if change.state.has_ended:
                    return change.state, change.reason
                if change.state is not GroupState.ROLLING_BACK:
                    raise LockLost(
                        f"the group {self._group.id} has become {change.state} meanwhile",
                        where=f"stream {self._stream.name}",
                        do="nothing more was written; run again",
                    ) from None
                self._group = replace(
                    self._group, state=change.state, reason=change.reason, is_cancelled=True
                )

    def _executed(self) -> tuple[GroupState, str]:
        name = self._group.id
        self._events = {event: StoredEvent() for event in self._definition.events}
        if self._group.state is not GroupState.SUBMITTED or self._definition.refusal:
            self._stream.win_over_earlier_runs(name)
            self._events |= self._stream.events(name)
        self._resumed = self._in_states(EventState.RUNNING)
        self._times.pass_by(max(self._write_times(), default=0))
        if refusal := self._definition.refusal:
            is_new = self._group.state is GroupState.SUBMITTED
            return self._set(
                GroupState.ROLLED_BACK if is_new else GroupState.ROLLBACK_FAILED, refusal
            )
        if self._group.state in (GroupState.SUBMITTED, GroupState.RUNNING):
            if self._group.state is GroupState.SUBMITTED:
                self._set(GroupState.RUNNING)
            self._start_helpers()
            self._execute_events()
            failed = self._failed()
            if not failed:
                return self._set(GroupState.DONE)
            self._require_state()
            reason = f"{failed[0]}: {self._events[failed[0]].reason}"
        else:
            self._start_helpers()
            reason = self._group.reason
        if self._group.takes_back_all:
            return self._roll_back(list(self._definition.events), GroupState.ROLLED_BACK, reason)
        return self._undo_failed()

    def _start_helpers(self) -> None:
        try:
            with failing_its_event():
                for helper in self._definition.group.hooks.helpers:
                    self._functions.start_helper(helper, json.dumps(self._origin))
        except EventFailed as failure:
            self._helper_error = str(failure)

    def _set(self, state: GroupState, reason: str = "") -> tuple[GroupState, str]:
        """Write the state. The end of a group is audited first: twice rather than never."""
        name = self._group.id
        self._ensure_locked()
        if state.has_ended or state is GroupState.ROLLBACK_FAILED:
            self._teller.finish()
            self._ensure_locked()
            self._require_state()
            lines, counts = [reason] if reason else [], {"events": len(self._events)}
            audit.record(self._run, f"event group {state}", name, lines, counts)
            if state is not GroupState.DONE and ENDS in self._definition.events:
                self._teller.group_ended(self._definition.events[ENDS], str(state), reason)
            self._ensure_locked()
        newest = max(self._newest_at, *self._write_times(), 0)
        self._times.pass_by(newest)
        if not self._stream.set_state(
            *(name, self._group.state, state, reason), last_write_time=newest or None
        ):
            raise _Overtaken(*self._stream.state_of(name))
        self._group = replace(self._group, state=state, reason=reason)
        if state.has_ended:
            self._forget_images()
        return state, reason

    def _forget_images(self) -> None:
        """Delete the before-images: the group may be there to erase what they contain."""
        # All images: an event may have failed after its images were kept, before it began.
        self._ensure_locked()
        self._stream.images.forget(self._group.id, self._ensure_locked)

    def _require_state(self) -> None:
        """Stop if somebody has cancelled the group."""
        state, reason = self._stream.state_of(self._group.id)
        self._state_seen_at = time.monotonic()
        if state is not self._group.state:
            raise _Overtaken(state, reason)

    def _ask_for(self, name: str) -> StoredEvent:
        """Record when an external service is first asked to undo an event, before it is asked."""
        now = clock.now().replace(tzinfo=None)
        # Cassandra stores milliseconds.
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        self._events[name] = replace(self._events[name], asked_at=now)
        self._end(name, EventState.ROLLBACK_ASKED, reason=self._events[name].reason)
        return self._events[name]

    def _failed(self) -> list[str]:
        """Return the events that have failed, including those whose rollback has not ended."""
        return self._in_states(
            EventState.FAILED, EventState.ROLLBACK_ASKED, EventState.ROLLBACK_FAILED
        )

    def _in_states(self, *states: EventState) -> list[str]:
        return [name for name, stored in self._events.items() if stored.state in states]

    def _write_times(self) -> list[int]:
        return [event.write_time for event in self._events.values() if event.write_time is not None]

    def _execute_events(self) -> None:
        """Execute events until none is left whose dependencies have succeeded."""
        is_strict = self._definition.group.policy is FailurePolicy.ALL_FOR_ONE
        graph = self._definition.graph
        running: dict[Future[None], str] = {}
        while True:
            is_stopping = (is_strict and bool(self._failed())) or self._is_overtaken()
            ready = [] if is_stopping else self._ready(graph, set(running.values()))
            for name in ready[: EVENTS_AT_ONCE - len(running)]:
                running[self._pool.submit(self._execute, name)] = name
            if not running:
                return
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                del running[future]
                future.result()

    def _is_overtaken(self) -> bool:
        """Tell whether somebody has cancelled the group, noticed within `CANCEL_SEEN_S`."""
        if time.monotonic() - self._state_seen_at < CANCEL_SEEN_S:
            return False
        self._state_seen_at = time.monotonic()
        return self._stream.state_of(self._group.id)[0] is not self._group.state

    def _ready(self, graph: dag.Graph, working: set[str]) -> list[str]:
        """Return the events that may be executed now.

        Events that a run had begun when it died come first, and alone: their write times are
        earlier than those of new events, whose before-images must have their writes.
        """
        if resumed := [name for name in self._resumed if self._has_state(name, EventState.RUNNING)]:
            return [name for name in resumed if name not in working]
        return [
            name
            for name, dependencies in graph.items()
            if name not in working
            and self._has_state(name, EventState.PENDING)
            and all(self._has_state(dependency, EventState.DONE) for dependency in dependencies)
        ]

    def _has_state(self, name: str, state: EventState) -> bool:
        return self._events[name].state is state

    def _execute(self, name: str) -> None:
        event = self._definition.events[name]
        begin_notices = self._teller.begins(event)
        state, result, reason = EventState.DONE, [], ""
        is_new, was_refused = self._events[name].state is EventState.PENDING, False
        try:
            with self._table_locked(event), failing_its_event():
                if error := self._helper_error or self._functions.helper_failure():
                    raise EventFailed(error)
                result = self._sent(event, self._prepared(event))
        except EventFailed as failure:
            state, reason = EventState.FAILED, str(failure)
            # An earlier run, or the same event for other rows, may have sent it.
            was_refused = is_new and failure.was_refused and len(self._events[name].parameters) == 1
        if unacknowledged := self._teller.ended(event, begin_notices, state, reason):
            state, result, reason = EventState.FAILED, [], unacknowledged
        if was_refused:
            self._events[name] = replace(self._events[name], write_time=None)
        self._end(name, state, result=result, reason=reason)

    @contextmanager
    def _table_locked(self, event: Event) -> Iterator[None]:
        """Keep other events from writing the table between before-image and write of this event.

        Only if events may fail independently: the restored value of one must have the writes of the
        others. After an event of unknown outcome, nothing is written until the next run ends it.
        """
        statement = self._definition.statements.get(event.name)
        is_alone = self._definition.group.policy is FailurePolicy.ONE_FOR_ONE
        if not is_alone or statement is None or not statement.writes:
            yield
            return
        with self._guard:
            lock = self._table_locks.setdefault(statement.name, threading.Lock())
        with lock:
            if self._fatal_error is not None:
                raise self._fatal_error
            try:
                yield
            except EventFailed:
                raise
            except BaseException as error:
                self._fatal_error = error
                raise

    def _prepared(self, event: Event) -> StoredEvent:
        """Fix what the event will send, unless an earlier run has begun it."""
        stored = self._events[event.name]
        if stored.state is EventState.RUNNING:
            return stored
        parameters, newest, images = self._engine(event).prepare(event)
        if len(json.dumps(parameters)) > MAX_BYTES:
            raise EventFailed(f"its parameters have more than {MAX_BYTES:,} bytes")
        if newest is not None and newest > clock.now_micros() + MOST_AHEAD_S * 1_000_000:
            raise EventFailed(
                f"a value that it writes has the write time {newest}, over {MOST_AHEAD_S:,} s ahead"
                " of this machine's clock: Cassandra would keep it"
            )
        write_time = None if newest is None else self._times.after(newest)
        stored = StoredEvent(EventState.RUNNING, parameters, write_time, images)
        self._ensure_locked()
        self._stream.begin(self._group.id, event.name, stored)
        self._events[event.name] = stored
        return stored

    def _engine(self, event: Event) -> Engine:
        return self._spark_engine if self._definition.has_many(event) else self._driver_engine

    @cached_property
    def _spark_engine(self) -> SparkEngine:
        # Imported here, so that a group without many rows does not wait for Spark.
        from tidemark.event_groups.spark_engine.events import SparkEngine

        group = self._stream.name, self._group.id
        return SparkEngine(
            *(self._run, group, self._definition, self._needs, self._table, self._ensure_locked),
            self._loading.jar_functions,
        )

    def _sent(self, event: Event, stored: StoredEvent) -> list[str]:
        if event.library is not None:
            self._ensure_locked()
            self._loading.load(event.library)
            self._functions.renew()
        if event.statement is None:
            return []
        return self._engine(event).send(event, stored)

    def _end(
        self, name: str, state: EventState, *, result: list[str] | None = None, reason: str = ""
    ) -> None:
        # Each row is JSON already.
        text = "" if not result else f"[{', '.join(result)}]"
        ended = replace(self._events[name], state=state, result=text or "[]", reason=reason)
        self._ensure_locked()
        self._stream.end(self._group.id, name, ended)
        self._events[name] = ended

    def _table(self, statement: Statement) -> Table:
        if statement.name not in self._tables:
            table = Table.read(self._control, statement.keyspace, statement.table)
            if table is None:
                raise EventFailed(f"there is no table {statement.name} any more")
            self._tables[statement.name] = table
        return self._tables[statement.name]

    def _undo_failed(self) -> tuple[GroupState, str]:
        """End a group of independent events: undo the failed ones and skip their dependents."""
        failed = [*self._failed(), *self._in_states(EventState.ROLLED_BACK)]
        for name in dag.dependents(self._definition.graph, failed):
            if self._events[name].state is EventState.PENDING:
                self._end(name, EventState.SKIPPED, reason="what it depends on has failed")
        reasons = "; ".join(f"{name}: {self._events[name].reason}" for name in failed)
        return self._roll_back(failed, GroupState.PARTLY_DONE, reasons)

    def _roll_back(
        self, names: Sequence[str], end_state: GroupState, reason: str
    ) -> tuple[GroupState, str]:
        """Undo what events may have written."""
        to_undo = in_order(self._definition.graph, self._events, names)
        newest = max(self._write_times(), default=0)
        times = times_of(self._definition, self._events, to_undo, newest)
        self._newest_at = max((span.stop for span in times.values()), default=0)
        # The newest write time must be stored whoever ends the group. From now on nobody can cancel
        # it: that would undo other events, at other times.
        self._set(GroupState.ROLLING_BACK, reason)
        rollback = Rollback(
            *(self._control, self._definition, self._origin, self._group.sequence),
            self._functions,
            self._loading,
            self._table,
            self._engine,
            own_times(self._definition, self._events, times),
            self._run.settings,
            self._ensure_locked,
        )
        events = self._events
        for name in (name for name in to_undo if is_needed(self._definition, name, events[name])):
            stored = events[name]
            if self._definition.events[name].asked and stored.asked_at is None:
                stored = self._ask_for(name)
            try:
                with failing_its_event():
                    is_done = rollback.take_back(name, stored, times[name].start)
            except EventFailed as failure:
                # A retry waits for the full time again.
                self._events[name] = replace(stored, asked_at=None)
                self._end(name, EventState.ROLLBACK_FAILED, reason=stored.reason)
                return self._set(
                    GroupState.ROLLBACK_FAILED, f"{reason}; {name} is not rolled back: {failure}"
                )
            if not is_done:
                message = f"{reason}; {name} is being taken back by who was asked"
                return GroupState.ROLLING_BACK, message
            self._end(name, EventState.ROLLED_BACK, reason=stored.reason)
        return self._set(end_state, reason)
