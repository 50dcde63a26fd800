"""Results of selects: bounded before they are in memory, and in bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.cassandra.control import Control
from tidemark.event_groups.definition.file import GroupDefinition
from tidemark.event_groups.definition.model import Group
from tidemark.event_groups.driver_engine.few_rows import MAX_BYTES, DriverEngine
from tidemark.event_groups.driver_engine.parameters import Needs
from tidemark.event_groups.external import http
from tidemark.event_groups.failure import EventFailed
from tidemark.event_groups.stream.states import GroupState, StoredEvent, StoredGroup


class Session:
    """A session whose table has no end; it counts the rows that are read."""

    read = 0

    def execute(self, bound: Any, **_: Any) -> Iterator[dict[str, Any]]:
        """Return rows as the driver does: page by page."""
        while True:
            self.read += bound.fetch_size
            yield from ({"n": n} for n in range(bound.fetch_size))


def control(session: Session) -> Control:
    """Return what sends statements in this session."""
    control = Control.__new__(Control)
    made: Any = control
    made._failures = SimpleNamespace(in_one_line=nullcontext)
    made._session = session
    bound = SimpleNamespace(fetch_size=5000)
    made._prepare = lambda _: SimpleNamespace(bind=lambda _: bound, column_metadata=())
    return control


def test_no_page_is_read_after_the_rows_that_are_wanted() -> None:
    session = Session()
    assert len(control(session).execute_named("SELECT", {}, 10, 1001)) == 1001
    assert session.read == 1001


class Found:
    """What answers a select with the same rows."""

    def __init__(self, rows: list[str]) -> None:
        """Bind; nothing is read yet."""
        self.rows, self.most = rows, None

    def execute_named(
        self, cql: str, values: Mapping[str, object], timeout: float, most: Any = None
    ) -> list[dict[str, str]]:
        """Return the first rows."""
        self.most = most
        return [{"[json]": row} for row in self.rows[:most]]


def sent(found: Found) -> list[str]:
    """Return the rows of the select of an event."""
    events = [{"name": "read", "statement": "SELECT n FROM shop.posting WHERE account = 'a'"}]
    definition = GroupDefinition(Group.model_validate({"group": "g", "events": events}))
    group = StoredGroup("g", 1, GroupState.RUNNING, definition, "")
    unused: Any = None
    few = DriverEngine(found, unused, group, unused, unused, lambda: None)  # type: ignore[arg-type]
    return few.send(definition.events["read"], StoredEvent(parameters=[{}]))


def test_a_result_has_at_most_a_thousand_rows() -> None:
    assert len(sent(Found(["{}"] * 1000))) == 1000
    found = Found(["{}"] * 5000)
    with pytest.raises(EventFailed, match="more than 1,000 rows"):
        sent(found)
    assert found.most == 1001


def test_the_size_of_a_result_is_in_bytes() -> None:
    half = MAX_BYTES // 2
    sent(Found(["a" * half, "b" * (half - 100)]))
    with pytest.raises(EventFailed, match="more than 4,194,304 bytes"):
        sent(Found(["ä" * half, "b"]))


def need(result: str, **need: object) -> list[Any]:
    """Return the parameters of an event that needs a value."""
    event = {"name": "write", "statement": "UPDATE shop.account SET note = :v WHERE id = 'a'"}
    wanted = {**event, "after": ["read"], "needs": [{"as": "v", **need}]}
    read = {"name": "read", "statement": "SELECT n FROM shop.posting WHERE account = 'a'"}
    group = Group.model_validate({"group": "g", "events": [read, wanted]})
    functions: Any = None
    return list(Needs({}, lambda _: result, functions, {"a"}).parameters(group.events[1]))


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ('[{"a": 1, "A": 2}]', "already exists"),
        (f'[{{"a": {10**50}}}]', "too large"),
        (f'[{{"a": {"1" * 5000}}}]', "4300 digits"),
    ],
)
def test_a_result_that_sql_cannot_have_is_the_failure_of_the_event(result: str, why: str) -> None:
    with pytest.raises(EventFailed, match=why):
        need(result, event="read", sql="a", timeout=60)


def test_an_answer_too_deep_for_json_is_the_failure_of_the_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "post", lambda *_: SimpleNamespace(text="[" * 500_000))
    with pytest.raises(EventFailed, match="has not answered in JSON"):
        need("[]", url="https://a/")
