"""Notices to hooks: who must acknowledge delays an event, and nobody is left out after a crash."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.event_groups.definition.file import GroupDefinition
from tidemark.event_groups.definition.group_hooks import ENDS
from tidemark.event_groups.definition.model import Event, Group
from tidemark.event_groups.execution import hooks
from tidemark.event_groups.execution.hooks import HookTeller
from tidemark.event_groups.failure import EventFailed
from tidemark.event_groups.stream.deliveries import Delivery, Notice
from tidemark.event_groups.stream.states import EventState, GroupState, StoredGroup
from tidemark.settings import Settings

DONE, FAILED = EventState.DONE, EventState.FAILED


class Stored:
    """The deliveries of a group, in memory."""

    def __init__(self) -> None:
        """Bind; nothing was delivered yet."""
        self.rows: dict[Notice, Delivery] = {}
        self.ids: dict[Notice, set[uuid.UUID]] = {}

    def of(self, group: str) -> list[Delivery]:
        """Return all."""
        return list(self.rows.values())

    def record(self, group: str, delivery_id: uuid.UUID, one: Delivery) -> None:
        """Keep one."""
        self.rows[one.notice] = one
        self.ids.setdefault(one.notice, set()).add(delivery_id)

    def states(self) -> dict[tuple[str, str, int], str]:
        """Return the state of each notice."""
        return {(n.event, n.told, n.number): one.state for n, one in self.rows.items()}


class Functions:
    """Functions that are told: those named `refuses` raise, those named `waits` wait."""

    def __init__(self) -> None:
        """Bind; nothing was told yet."""
        self.told: list[tuple[str, str, str, str]] = []
        self.may_answer = threading.Event()

    def call(self, name: str, argument: str, timeout: float) -> None:
        """Take a notice."""
        function, notice = name.partition(":")[2], json.loads(argument)
        if function == "waits":
            self.may_answer.wait(20)
        self.told.append((function, notice["event"], notice["told"], notice["reason"]))
        if function == "refuses":
            raise EventFailed("not today")
        if function == "breaks":
            raise ZeroDivisionError("unforeseen")


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Stored:
    """Return what is stored of notices; attempts follow each other without a pause."""
    made = Stored()
    monkeypatch.setattr(hooks, "Deliveries", lambda *_: made)
    monkeypatch.setattr("tidemark.event_groups.failure._PAUSES_S", (0.0, 0.0))
    return made


@pytest.fixture
def functions() -> Iterator[Functions]:
    """Yield the functions that are told."""
    made = Functions()
    yield made
    made.may_answer.set()


def hook(name: str, **more: object) -> dict[str, object]:
    """Return a hook in a group's file."""
    return {"call": f"f:{name}", **more}


def group(before: Any = (), after: Any = ()) -> GroupDefinition:
    """Return a group with one event, `write`, and its hooks."""
    event = {"name": "write", "hooks": {"before": list(before), "after": list(after)}}
    return GroupDefinition(Group.model_validate({"group": "g", "events": [event]}))


def teller(definition: GroupDefinition, functions: Any) -> HookTeller:
    """Return what tells the hooks of the group in one run."""
    run: Any = SimpleNamespace(settings=Settings(), control=None)
    stream: Any = SimpleNamespace(name="s")
    one = StoredGroup("g", 1, GroupState.RUNNING, definition, "")
    return HookTeller(run, stream, one, functions)


def write(definition: GroupDefinition) -> Event:
    """Return the event of the group."""
    return definition.events["write"]


def ended(telling: HookTeller, event: Event, state: EventState, reason: str = "") -> str:
    """Tell that an event begins and how it has ended; return why it has failed by that."""
    return telling.ended(event, telling.begins(event), state, reason)


def test_a_missing_acknowledgement_is_told_as_a_failure(
    stored: Stored, functions: Functions
) -> None:
    after = [hook("refuses", ack=True), hook("paged", **{"if": "failed"}), hook("all")]
    definition = group(after=[*after, hook("happy", **{"if": "done"})])
    telling = teller(definition, functions)
    why = ended(telling, write(definition), DONE)
    assert why == "call f:refuses has not acknowledged: not today"
    telling.finish()
    told = {one for one in functions.told if one[0] != "refuses"}
    assert told == {("paged", "write", "failed", why), ("all", "write", "failed", why)}
    assert {one[2] for one in functions.told if one[0] == "refuses"} == {"done", "failed"}


def test_a_beginning_that_is_not_acknowledged_is_told_as_a_failure(
    stored: Stored, functions: Functions
) -> None:
    definition = group([hook("refuses", ack=True)], [hook("paged", **{"if": "failed"}), hook("x")])
    telling = teller(definition, functions)
    assert "has not acknowledged" in ended(telling, write(definition), DONE)
    telling.finish()
    assert {one[2] for one in functions.told if one[0] != "refuses"} == {"failed"}


def test_who_need_not_acknowledge_delays_no_event_and_no_acknowledgement(
    stored: Stored, functions: Functions
) -> None:
    slow = [hook("waits") for _ in range(20)]
    definition = group(slow, [*slow, hook("quick", ack=True)])
    telling = teller(definition, functions)
    began = time.monotonic()
    assert ended(telling, write(definition), DONE) == ""
    assert ended(telling, write(definition), FAILED, "why") == ""
    assert time.monotonic() - began < 5
    assert ("quick", "write", "done", "") in functions.told
    threading.Timer(0.3, functions.may_answer.set).start()
    telling.finish()
    assert set(stored.states().values()) == {"delivered"}
    # The beginning was told twice, and each end once.
    assert len(functions.told) == 2 * 20 + 2 * 21


def test_what_is_not_delivered_when_an_event_ends_is_sent_by_the_next_run(
    stored: Stored, functions: Functions
) -> None:
    definition = group([hook("waits")], [hook("waits")])
    dying = teller(definition, functions)
    ended(dying, write(definition), FAILED, "why")
    # The end of the event is written now, and the run dies: nobody has answered.
    assert set(stored.states().values()) == {"pending"}
    rows, later = dict(stored.rows), Functions()
    later.may_answer.set()
    functions.may_answer.set()
    dying.close()
    stored.rows = rows
    telling = teller(definition, later)
    telling.finish()
    telling.close()
    assert sorted(later.told) == [
        ("waits", "write", "begins", ""),
        ("waits", "write", "failed", "why"),
    ]
    assert set(stored.states().values()) == {"delivered"}
    assert all(len(ids) == 1 for ids in stored.ids.values())
    again = Functions()
    teller(definition, again).finish()
    assert again.told == []


def test_an_event_that_is_executed_again_is_told_with_its_last_end_only(
    stored: Stored, functions: Functions
) -> None:
    definition = group([], [hook("told")])
    pending = Delivery(Notice("write", "failed", 0), "pending", "call f:told", 0, "why")
    stored.record("g", uuid.uuid4(), pending)
    telling = teller(definition, functions)
    ended(telling, write(definition), DONE)
    telling.finish()
    assert functions.told == [("told", "write", "done", "")]
    assert stored.states() == {("write", "failed", 0): "failed", ("write", "done", 0): "delivered"}
    assert "executed again" in stored.rows[pending.notice].reason


def test_an_unforeseen_error_is_a_notice_that_is_given_up(
    stored: Stored, functions: Functions
) -> None:
    definition = group([], [hook("breaks", ack=True)])
    telling = teller(definition, functions)
    assert "ZeroDivisionError: unforeseen" in ended(telling, write(definition), DONE)
    telling.finish()
    assert set(stored.states().values()) == {"failed"}


def test_a_failed_end_of_the_group_is_told_once_with_the_state_of_the_group(
    stored: Stored, functions: Functions
) -> None:
    of_group = {"after": [hook("refuses", ack=True), hook("told")]}
    made = {"group": "g", "events": [{"name": "write"}], "hooks": of_group}
    definition = GroupDefinition(Group.model_validate(made))
    telling = teller(definition, functions)
    why = ended(telling, definition.events[ENDS], DONE)
    assert why
    telling.finish()
    telling.group_ended(definition.events[ENDS], "rolled-back", why)
    assert [one for one in functions.told if one[0] == "told"] == [
        ("told", ENDS, "rolled-back", why)
    ]
