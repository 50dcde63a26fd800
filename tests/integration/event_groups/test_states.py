"""The states of groups: each is executed once whatever clocks say, and none is stuck for good."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.dying import dying_after
from tests.faults.seams import Seam
from tests.integration.event_groups.test_asked import answering
from tests.integration.event_groups.test_event_groups import (
    compensated,
    cql,
    executed,
    shop,
    state,
    submit,
)
from tests.integration.event_groups.test_hooks import served
from tests.integration.event_groups.test_rollback import FAILS, note_of
from tests.integration.support import Journal
from tidemark.cassandra.schema import table
from tidemark.event_groups.driver_engine import before_image
from tidemark.event_groups.execution.group import GroupExecution
from tidemark.event_groups.stream.states import StoredEvent
from tidemark.event_groups.stream.store import Stream

__all__ = ["shop"]
FAILING = f"""
group: NAME
events:
  - {{name: w, statement: "UPDATE <account> SET note = NEW WHERE id = 'ann'"}}
  - {FAILS}, after: [w]}}
"""
ADD = """
group: add
events:
  - {name: read, statement: "SELECT total FROM <account> WHERE id = 'ann'", expect: one}
  - name: add
    statement: UPDATE <account> SET total = :sum WHERE id = 'ann'
    needs: [{event: read, as: sum, sql: "total + 30"}]
    after: [read]
"""


def states(journal: Journal) -> dict[str, str]:
    return {row["id"]: row["state"] for row in journal.own_rows("event_group")}


def total(journal: Journal) -> str:
    return str(cql(journal, "SELECT total FROM {account} WHERE id = 'ann'")[0]["total"])


def test_a_group_is_executed_once_by_a_machine_whose_clock_is_slow(
    shop: Journal, tmp_path: Path, shift_clock: Callable[[float], None]
) -> None:
    # A group that is stuck keeps the stream open, so that the next run sees what was executed.
    stuck = compensated("stuck", "mended", "much").replace("ann", "carl")
    rows = "rows: [{table: <account>, key: {id: ann}}]\n"
    assert submit(shop, tmp_path, stuck, ADD.replace("events:", rows + "events:")).status == 0
    shift_clock(-12)
    executed(shop, 3)
    assert states(shop) == {"stuck": "rollback-failed", "add": "done"}
    shift_clock(0)
    shop.run("run_event_groups")
    assert total(shop) == "40.50"
    assert states(shop)["add"] == "done"


def test_a_later_group_wins_over_the_delete_of_an_earlier_one_whatever_the_clock_says(
    shop: Journal, tmp_path: Path, shift_clock: Callable[[float], None]
) -> None:
    delete = (
        "group: NAME\nevents: [{name: d, statement: \"DELETE FROM <account> WHERE id = 'ann'\"}]"
    )
    insert = (
        "group: NAME\nevents:\n  - name: i\n"
        "    statement: INSERT INTO <account> (id, note) VALUES ('ann', 'NAME')"
    )
    shift_clock(10)
    submit(shop, tmp_path, delete.replace("NAME", "d1"))
    executed(shop)
    shift_clock(0)
    submit(shop, tmp_path, insert.replace("NAME", "i1"))
    executed(shop)
    assert note_of(shop, "ann") == "i1"
    # The rollback of a group is before what comes later, too.
    shift_clock(10)
    failing = FAILING.replace("NAME", "f").replace("NEW", "null")
    submit(shop, tmp_path, failing)
    executed(shop, 3)
    shift_clock(0)
    submit(shop, tmp_path, insert.replace("NAME", "i2"))
    executed(shop)
    assert note_of(shop, "ann") == "i2"
    # So is its delete of a row that it has made.
    shift_clock(10)
    failing = FAILING.replace("NAME", "made").replace("NEW", "'x'").replace("'ann'", "'eve'", 1)
    submit(shop, tmp_path, failing)
    executed(shop, 3)
    shift_clock(0)
    submit(shop, tmp_path, insert.replace("NAME", "i3").replace("'ann'", "'eve'"))
    executed(shop)
    assert note_of(shop, "eve") == "i3"


def test_images_of_a_run_that_died_with_a_fast_clock_are_not_those_of_the_next(
    shop: Journal, tmp_path: Path, shift_clock: Callable[[float], None]
) -> None:
    text = FAILING.replace("NAME", "g").replace("NEW", "'new'")
    submit(shop, tmp_path, text)
    shift_clock(10)
    with dying_after(Seam.IMAGES_KEPT, 1):
        shop.run("run_event_groups")
    shift_clock(0)
    cql(shop, "UPDATE {account} SET note = 'newer' WHERE id = 'ann'")
    executed(shop, 3)
    assert note_of(shop, "ann") == "newer"


def test_any_error_of_an_event_is_its_failure_and_names_its_type(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*rest: Any) -> None:
        raise ValueError("cannot\ndecode")

    before = state(shop)
    monkeypatch.setattr(before_image, "read", fails)
    after = "group: next\nevents: [{name: n}]\n"
    submit(shop, tmp_path, ADD, after)
    report = executed(shop, 3)
    assert report["lines"][0] == "add: rolled-back: add: ValueError: cannot decode"
    assert states(shop) == {"add": "rolled-back", "next": "done"}
    assert state(shop) == before


def test_any_error_of_a_rollback_ends_the_group_as_not_rolled_back(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*rest: Any) -> None:
        raise KeyError("column")

    text = FAILING.replace("NAME", "g").replace("NEW", "'new'")
    submit(shop, tmp_path, text)
    with monkeypatch.context() as patched:
        patched.setattr(before_image.Restoring, "restore", fails)
        executed(shop, 3)
    assert states(shop) == {"g": "rollback-failed"}
    assert shop.run("run_event_groups", "retry", "g", "--apply").status == 0
    executed(shop, 3)
    assert states(shop) == {"g": "rolled-back"}
    assert note_of(shop, "ann") == "old"


def test_a_group_that_cannot_be_rolled_back_is_settled_by_hand(
    shop: Journal, tmp_path: Path
) -> None:
    broken, waits = (
        compensated("broken", "mended", "much"),
        ADD.replace("group: add", "group: waits"),
    )
    submit(shop, tmp_path, broken, waits)
    assert executed(shop, 3)["counts"]["groups_held"] == 1
    refused = shop.run("run_event_groups", "settle", "waits", "--as", "done", "--apply")
    assert refused.status == 2
    assert (
        "the group waits is submitted, and not rollback-failed or rolling-back"
        in refused.error_lines[0]
    )
    planned = shop.run("run_event_groups", "settle", "broken", "--as", "rolled-back")
    assert [line for line in planned.report["lines"] if "left" in line] == [
        "  write: rollback-failed, left as it is"
    ]
    assert states(shop)["broken"] == "rollback-failed"
    settled = shop.run("run_event_groups", "settle", "broken", "--as", "rolled-back", "--apply")
    assert settled.status == 0
    assert {row["operation"] for row in shop.own_rows("audit")} >= {"event group settled"}
    assert executed(shop)["counts"] == {"groups_done": 1, "groups_held": 0}
    assert states(shop) == {"broken": "rolled-back", "waits": "done"}


@pytest.mark.parametrize("policy", ["all-for-one", "one-for-one"])
def test_a_group_that_runs_is_cancelled_by_going_back(
    shop: Journal, tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(shop)
    text = f"""
group: g
policy: {policy}
events:
  - {{name: a, statement: "UPDATE <account> SET note = 'a' WHERE id = 'ann'"}}
  - {{name: b, statement: "UPDATE <account> SET note = 'b' WHERE id = 'ann'", after: [a]}}
  - {{name: c, statement: "UPDATE <account> SET note = 'c' WHERE id = 'ann'", after: [b]}}
"""
    submit(shop, tmp_path, text)
    end = Stream.end

    def and_cancel(self: Stream, group: str, event: str, ended: StoredEvent) -> None:
        end(self, group, event, ended)
        if event == "a" and states(shop)["g"] == "running":
            result = shop.run_alone("run_event_groups", "cancel", "g", "--apply")
            assert result.status == 0, result.stderr

    monkeypatch.setattr(Stream, "end", and_cancel)
    monkeypatch.setattr("tidemark.event_groups.execution.group.CANCEL_SEEN_S", 0)
    report = executed(shop, 3)
    assert report["lines"][0].startswith("g: rolled-back: cancelled by ")
    assert state(shop) == before
    begun = {row["event"] for row in shop.own_rows("group_event")}
    assert "c" not in begun
    assert states(shop) == {"g": "rolled-back"}


def test_a_group_that_is_cancelled_while_a_run_reads_it_is_not_executed(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(shop, tmp_path, ADD)
    execute = GroupExecution.execute

    def cancelled_first(self: GroupExecution) -> Any:
        assert shop.run_alone("run_event_groups", "cancel", "add", "--apply").status == 0
        return execute(self)

    monkeypatch.setattr(GroupExecution, "execute", cancelled_first)
    report = shop.run("run_event_groups").report
    assert report["counts"]["groups_cancelled"] == 1
    assert total(shop) == "10.50"
    assert states(shop) == {"add": "cancelled"}


def test_a_group_that_has_ended_cannot_be_cancelled(shop: Journal, tmp_path: Path) -> None:
    submit(shop, tmp_path, ADD)
    executed(shop)
    refused = shop.run("run_event_groups", "cancel", "add", "--apply")
    assert refused.status == 2
    assert "the group add is done, and not submitted or running" in refused.error_lines[0]


@pytest.mark.parametrize("has_begun", [False, True])
@pytest.mark.parametrize(
    ("now", "says"),
    [
        ("now()", "this version does not take a statement: now() "),
        ('", "is_new": "', "this version cannot read it: events: unknown key is_new; "),
        (
            '", "after": ["nobody"], "statement": "',
            "this version cannot read it: there is no event nobody (events); events are ",
        ),
    ],
)
def test_a_group_that_an_earlier_version_took_stops_only_itself(
    shop: Journal, tmp_path: Path, now: str, says: str, *, has_begun: bool
) -> None:
    submit(shop, tmp_path, FAILING.replace("NAME", "old").replace("NEW", "'new'"))
    if has_begun:
        with dying_after(Seam.EVENT_BEGUN, 1):
            shop.run("run_event_groups")
    groups = table(shop.own_keyspace, "event_group")
    key = "WHERE stream = 'default' AND id = 'old'"
    [row] = shop.control.execute(f"SELECT definition FROM {groups} {key}")
    older = row["definition"].replace("'new'", now)
    shop.control.execute(f"UPDATE {groups} SET definition = ? {key} IF EXISTS", (older,))
    submit(shop, tmp_path, "group: next\nevents: [{name: n}]\n")
    # Nor does it stop those who look at it, or at others.
    file = str(max(tmp_path.glob("*.yaml")))
    for words in (("submit", "--dry-run", file), ("status", "old", "--values"), ("--dry-run",)):
        assert shop.run("run_event_groups", *words).status == 0
    [line, *_] = executed(shop, 3)["lines"]
    assert f": {says}" in line
    if has_begun:
        assert states(shop)["old"] == "rollback-failed"
        settled = shop.run("run_event_groups", "settle", "old", "--as", "done", "--apply")
        assert settled.status == 0
        assert not shop.own_rows("before_image")
        executed(shop)
    assert states(shop) == {"old": "done" if has_begun else "rolled-back", "next": "done"}
    assert shop.run("run_event_groups", "status", "old").status == 0


@pytest.mark.parametrize("dies", [False, True])
def test_no_image_stays_of_an_event_that_never_began(
    shop: Journal, tmp_path: Path, *, dies: bool
) -> None:
    submit(shop, tmp_path, FAILING.replace("NAME", "g").replace("NEW", "'new'"))
    if dies:
        with dying_after(Seam.IMAGES_KEPT, 1):
            shop.run("run_event_groups")
        assert shop.run("run_event_groups", "cancel", "g", "--apply").status == 0
    else:
        far = 9_000_000_000_000_000
        cql(shop, f"UPDATE {{account}} USING TIMESTAMP {far} SET note = 'x' WHERE id = 'ann'")
    executed(shop, 3)
    assert shop.own_rows("before_image") == []


def test_a_group_after_one_that_was_settled_wins_over_its_way_back(
    shop: Journal, tmp_path: Path, shift_clock: Callable[[float], None]
) -> None:
    answers, _ = answering([202])
    with served(answers) as address:
        variables = {"EVENT_GROUP_HOSTS": address}
        text = f"""
group: g
events:
  - name: theirs
    statement: UPDATE <account> SET note = 'new' WHERE id = 'ann'
    rollback: {{ask: {{http: "http://{address}/undo"}}}}
  - name: made
    statement: INSERT INTO <account> (id, note) VALUES ('eve', 'x')
    after: [theirs]
  - {FAILS}, after: [made]}}
"""
        assert submit(shop, tmp_path, text, **variables).status == 0
        shift_clock(10)
        shop.run("run_event_groups", **variables)
    assert note_of(shop, "eve") == "no row"
    shift_clock(0)
    settled = shop.run("run_event_groups", "settle", "g", "--as", "rolled-back", "--apply")
    assert settled.status == 0
    insert = "INSERT INTO <account> (id, note) VALUES ('eve', 'next')"
    submit(shop, tmp_path, f'group: next\nevents: [{{name: w, statement: "{insert}"}}]\n')
    executed(shop)
    assert note_of(shop, "eve") == "next"


def test_an_idle_run_with_a_fast_clock_hides_no_write_time_of_the_runs_after_it(
    shop: Journal, tmp_path: Path, shift_clock: Callable[[float], None]
) -> None:
    submit(shop, tmp_path, compensated("stuck", "repaired", "much"))
    executed(shop, 3)
    shift_clock(10)
    executed(shop)
    shift_clock(0)
    ahead = int((time.time() + 600) * 1e6)
    cql(shop, f"UPDATE {{account}} USING TIMESTAMP {ahead} SET note = 'x' WHERE id = 'bob'")
    delete = "DELETE FROM <account> WHERE id = 'bob'"
    insert = "INSERT INTO <account> (id, note) VALUES ('bob', 'next')"
    for number, statement in enumerate((delete, insert)):
        row = "rows: [{table: <account>, key: {id: bob}}]"
        events = f'events: [{{name: w, statement: "{statement}"}}]'
        submit(shop, tmp_path, f"group: g{number}\n{row}\n{events}\n")
        executed(shop)
    assert note_of(shop, "bob") == "next"


def test_the_next_stream_of_a_table_wins_over_what_the_one_before_has_written(
    shop: Journal, tmp_path: Path
) -> None:
    ahead = int((time.time() + 600) * 1e6)
    cql(shop, f"UPDATE {{account}} USING TIMESTAMP {ahead} SET note = 'x' WHERE id = 'bob'")
    delete = "DELETE FROM <account> WHERE id = 'bob'"
    submit(shop, tmp_path, f'group: g\nevents: [{{name: w, statement: "{delete}"}}]\n')
    executed(shop)
    for stream in ("two", "three"):
        released = shop.run("run_event_groups", "release", f"{shop.keyspace}.account", "--apply")
        assert released.status == 0, released.stderr
        insert = f"INSERT INTO <account> (id, note) VALUES ('bob', '{stream}')"
        file = tmp_path / f"{stream}.yaml"
        text = f'group: g\nevents: [{{name: w, statement: "{insert}"}}]\n'
        file.write_text(text.replace("<account>", f"{shop.keyspace}.account"))
        submitted = shop.run("run_event_groups", "submit", str(file), "--stream", stream)
        assert submitted.status == 0, submitted.stderr
        if stream == "three":
            # The next run continues a group that has begun.
            with dying_after(Seam.GROUP_STATE_SET, 1):
                shop.run("run_event_groups", "--stream", stream)
        assert shop.run("run_event_groups", "--stream", stream).status == 0
        assert note_of(shop, "bob") == stream


def test_a_group_after_one_that_was_settled_before_a_run_ended_it_wins_over_what_it_wrote(
    shop: Journal, tmp_path: Path, shift_clock: Callable[[float], None]
) -> None:
    delete = "DELETE FROM <account> WHERE id = 'ann'"
    submit(shop, tmp_path, f'group: g\nevents: [{{name: d, statement: "{delete}"}}]\n')
    shift_clock(10)
    with dying_after(Seam.STATEMENT_SENT, 1):
        shop.run("run_event_groups")
    shift_clock(0)
    assert shop.run("run_event_groups", "cancel", "g", "--apply").status == 0
    settled = shop.run("run_event_groups", "settle", "g", "--as", "done", "--apply")
    assert settled.status == 0, settled.stderr
    insert = "INSERT INTO <account> (id, note) VALUES ('ann', 'next')"
    submit(shop, tmp_path, f'group: next\nevents: [{{name: w, statement: "{insert}"}}]\n')
    executed(shop)
    assert note_of(shop, "ann") == "next"
