"""Failed events of a one-for-one group, with one between them that stays, on the same column."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.faults.dying import dying_after
from tests.faults.seams import Seam
from tests.integration.event_groups import test_event_groups as few
from tests.integration.event_groups import test_many as many
from tests.integration.support import Journal
from tidemark.event_groups.definition import dag
from tidemark.event_groups.definition.model import Event
from tidemark.event_groups.driver_engine.few_rows import DriverEngine
from tidemark.event_groups.driver_engine.statements import Prepared
from tidemark.event_groups.execution.group import GroupExecution
from tidemark.event_groups.execution.hooks import HookTeller

FEW = """
group: between
policy: one-for-one
events:
  - {name: first, statement: "UPDATE <account> SET note = 'first' WHERE id = 'ann'"}
  - {name: pause, statement: "SELECT id FROM <account> WHERE id = 'ann'"}
  - {name: good, statement: "UPDATE <account> SET note = 'good' WHERE id = 'ann'", after: [pause]}
  - {name: next, statement: "SELECT id FROM <account> WHERE id = 'ann'", after: [good]}
  - {name: last, statement: "UPDATE <account> SET note = 'last' WHERE id = 'ann'", after: [next]}
"""
EACH = """
  - name: {name}
    each: {read}
    after: [{after}]
    statement: UPDATE <item> SET a = '{name}' WHERE p = :p AND c = :c
    needs: [{{event: {read}, as: p}}, {{event: {read}, as: c}}]
"""
MANY = (
    """
group: between
policy: one-for-one
events:
  - {name: read, many: true, statement: "SELECT * FROM <wanted>"}
  - {name: pause, statement: "SELECT id FROM <wanted> WHERE id = 1"}
"""
    + EACH.format(name="first", read="read", after="read")
    + EACH.format(name="good", read="read", after="read, pause")
    + EACH.format(name="last", read="read", after="read, good")
)
EVENTS = 5
"""Events that end before the first of them is taken back."""


@pytest.fixture
def first_and_last_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two events fail after they have written, and another write between them."""
    has_ended = threading.Event()
    send = DriverEngine.send

    def failing(self: HookTeller, event: Event, *rest: Any) -> str:
        if event.name == "first":
            has_ended.set()
        return "nobody has acknowledged it" if event.name in ("first", "last") else ""

    def sent(self: DriverEngine, event: Event, *rest: Any) -> list[str]:
        assert event.name != "pause" or has_ended.wait(60)
        return send(self, event, *rest)

    monkeypatch.setattr(HookTeller, "ended", failing)
    monkeypatch.setattr(DriverEngine, "send", sent)


@pytest.mark.usefixtures("first_and_last_fail")
@pytest.mark.parametrize("dies", [False, True])
def test_what_an_event_has_written_between_two_that_failed_stays(
    make_journal: Callable[..., Journal], tmp_path: Path, *, dies: bool
) -> None:
    shop = few.stocked(make_journal)
    assert few.submit(shop, tmp_path, FEW).status == 0
    rolled_back(shop, dies=dies)
    assert few.cql(shop, "SELECT note FROM {account} WHERE id = 'ann'") == [{"note": "good"}]


@pytest.mark.usefixtures("production", "first_and_last_fail")
@pytest.mark.parametrize("dies", [False, True])
def test_what_many_rows_got_between_two_events_that_failed_stays(
    make_journal: Callable[..., Journal], tmp_path: Path, *, dies: bool
) -> None:
    shop = many.make(make_journal)
    many.wanted(shop, 20)
    shop.insert("item", [{"p": f"p{c % 5}", "c": c, "a": "old"} for c in range(0, 20, 2)])
    assert many.submit(shop, tmp_path, MANY).status == 0
    rolled_back(shop, dies=dies)
    assert {row["c"]: row["a"] for row in shop.rows("item")} == dict.fromkeys(range(20), "good")


@pytest.fixture
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let events be executed in the order of the file, one at a time."""
    ready = GroupExecution._ready

    def first(self: GroupExecution, graph: dag.Graph, working: set[str]) -> list[str]:
        order = list(self._definition.events)
        return [] if working else sorted(ready(self, graph, working), key=order.index)[:1]

    monkeypatch.setattr(GroupExecution, "_ready", first)


@pytest.mark.usefixtures("in_order", "first_and_last_fail")
def test_a_row_that_another_event_has_inserted_stays_without_its_columns(
    make_journal: Callable[..., Journal], tmp_path: Path
) -> None:
    shop = few.stocked(make_journal)
    text = """
group: inserted
policy: one-for-one
events:
  - {name: first, statement: "INSERT INTO <account> (id, total) VALUES ('bob', 1)"}
  - {name: good, statement: "INSERT INTO <account> (id, note) VALUES ('bob', 'good')"}
  - {name: last, statement: "UPDATE <account> SET note = 'last' WHERE id = 'bob'"}
"""
    assert few.submit(shop, tmp_path, text).status == 0
    rolled_back(shop, dies=False)
    assert few.cql(shop, "SELECT note FROM {account} WHERE id = 'bob'") == [{"note": "good"}]
    few.cql(shop, "UPDATE {account} SET note = null WHERE id = 'bob'")
    assert few.cql(shop, "SELECT note FROM {account} WHERE id = 'bob'") == [{"note": None}]


DELETES = "DELETE FROM <account> WHERE id = 'ann'"
CLEARS = "UPDATE <account> SET note = null WHERE id = 'ann'"


@pytest.mark.parametrize(
    ("one", "other", "after", "is_refused"),
    [
        ("UPDATE <account> USING TTL 50 SET note = 'x' WHERE id = 'ann'", CLEARS, "", True),
        ("UPDATE <account> SET note = null, total = 1 WHERE id = 'ann'", CLEARS, "", True),
        (
            "DELETE FROM <account> WHERE id = 'ann'",
            "DELETE FROM <account> WHERE id = :id",
            "",
            True,
        ),
        ("DELETE FROM <account> WHERE id = 'ann'", CLEARS, "", True),
        ("DELETE FROM <account> WHERE id = 'ann'", CLEARS, "after: [one], ", False),
        ("DELETE FROM <account> WHERE id = 'eve'", CLEARS, "", False),
        ("UPDATE <account> SET note = 'x' WHERE id = 'ann'", CLEARS, "", False),
        ("UPDATE <account> SET total = null WHERE id = 'ann'", CLEARS, "", False),
        (
            "INSERT INTO <account> (id, note) VALUES ('bob', 'x')",
            "INSERT INTO <account> (id) VALUES ('bob')",
            *("", True),
        ),
    ],
)
def test_nulls_of_events_that_may_fail_alone_need_an_order(
    make_journal: Callable[..., Journal],
    tmp_path: Path,
    one: str,
    other: str,
    after: str,
    *,
    is_refused: bool,
) -> None:
    shop = few.stocked(make_journal)
    values = "values: {id: ann}, " if ":id" in other else ""
    text = f"""
group: nulls
policy: one-for-one
events:
  - {{name: one, statement: "{one}"}}
  - {{name: other, {after}{values}statement: "{other}"}}
"""
    result = few.submit(shop, tmp_path, text)
    assert (result.status != 0) is is_refused
    if is_refused:
        assert "one and other may leave nulls in one row of " in result.error_lines[0]
        assert few.submit(shop, tmp_path, text.replace("policy: one-for-one\n", "")).status == 0


BESIDE = """
group: between
policy: one-for-one
events:
  - {name: good, statement: "UPDATE <account> SET note = 'good' WHERE id = 'ann'"}
  - {name: last, statement: "UPDATE <account> SET note = 'last' WHERE id = 'ann'"}
"""


@pytest.mark.usefixtures("first_and_last_fail")
def test_no_event_writes_after_one_that_has_begun_and_whose_end_is_not_known(
    make_journal: Callable[..., Journal], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = few.stocked(make_journal)
    assert few.submit(shop, tmp_path, BESIDE).status == 0
    good_begins, last_begins = threading.Event(), threading.Event()
    execute, prepare = GroupExecution._execute, DriverEngine.prepare

    def executed(self: GroupExecution, name: str) -> None:
        if name == "last":
            # It waits for the table when the run loses the other event.
            assert good_begins.wait(60)
            last_begins.set()
        execute(self, name)

    def prepared(self: DriverEngine, event: Event) -> Prepared:
        if event.name == "good":
            good_begins.set()
            assert last_begins.wait(60)
        return prepare(self, event)

    with monkeypatch.context() as patched:
        patched.setattr(GroupExecution, "_execute", executed)
        patched.setattr(DriverEngine, "prepare", prepared)
        with dying_after(Seam.EVENT_BEGUN, 1):
            shop.run("run_event_groups")
    assert {row["event"] for row in shop.own_rows("group_event")} == {"good"}
    assert shop.run("run_event_groups").report["counts"]["groups_partly_done"] == 1
    assert few.cql(shop, "SELECT note FROM {account} WHERE id = 'ann'") == [{"note": "good"}]


def rolled_back(shop: Journal, *, dies: bool) -> None:
    """Execute the group, by a run that dies between the ways back of its events if it dies."""
    if dies:
        with dying_after(Seam.EVENT_ENDED, EVENTS + 1):
            shop.run("run_event_groups")
    report = shop.run("run_event_groups").report
    assert report["counts"]["groups_partly_done"] == 1, report
    assert states_of(shop, ["first", "good", "last"]) == ["rolled-back", "done", "rolled-back"]


def states_of(shop: Journal, names: Sequence[str]) -> list[str]:
    states = {row["event"]: row["state"] for row in shop.own_rows("group_event")}
    return [states[name] for name in names]
