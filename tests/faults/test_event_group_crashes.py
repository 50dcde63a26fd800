"""run_event_groups, killed with SIGKILL after each write, on the way forward and on the way back.

After the second run the user's tables and the states of groups and events are those of an
undisturbed run. Each event waits for the one before it, so that a write is the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.group_ways import (
    APPLICATION,
    Undisturbed,
    assert_locks_are_asked_for,
    cases_of,
    executed,
    kill_and_run_again,
)
from tests.faults.killing import kill_after
from tests.faults.sample import sampled
from tests.faults.seams import Seam
from tests.integration.event_groups.test_event_groups import TABLES, stocked, submit
from tests.integration.support import Journal
from tidemark.cassandra.schema import table

FORWARD = """
group: correction
rows:
  - {table: <account>, key: {id: ann}}
  - {table: <account>, key: {id: bob}}
  - {table: <posting>, key: {account: ann}}
  - {table: <posting>, key: {account: bob}}
events:
  - name: read
    statement: SELECT total FROM <account> WHERE id = :id
    values: {id: ann}
    expect: one
  - name: correct
    statement: UPDATE <account> SET note = 'new', seen = :at WHERE id = :id
    values: {id: ann, at: "2024-03-01 12:00:00Z"}
    after: [read]
  - name: copy
    statement: INSERT INTO <account> (id, total, note) VALUES (:id, :total, 'copy')
    values: {id: bob}
    needs: [{event: read, as: total}]
    after: [read, correct]
  - {name: clear, statement: "DELETE FROM <posting> WHERE account = 'ann' AND n > 1", after: [copy]}
  - name: post
    statement: INSERT INTO <posting> (account, n, amount) VALUES ('bob', 1, 3.5)
    rollback: {statements: [{statement: "DELETE FROM <posting> WHERE account = 'bob' AND n = 1"}]}
    after: [clear]
"""
BACK = (
    FORWARD
    + """
  - name: check
    statement: SELECT n FROM <posting> WHERE account = 'bob'
    expect: none
    after: [post]
"""
)
GROUPS = {"forward": FORWARD, "back": BACK}
WRITES = {
    "forward": {
        Seam.GROUP_STATE_SET: 2,
        Seam.IMAGES_KEPT: 3,
        Seam.EVENT_BEGUN: 5,
        Seam.STATEMENT_SENT: 5,
        Seam.EVENT_ENDED: 5,
        Seam.IMAGES_FORGOTTEN: 1,
        Seam.OPERATION_AUDITED: 1,
        Seam.OPEN_FROM_MOVED: 1,
    },
    "back": {
        Seam.GROUP_STATE_SET: 3,
        Seam.IMAGES_KEPT: 3,
        Seam.EVENT_BEGUN: 6,
        Seam.STATEMENT_SENT: 6,
        Seam.COMPENSATION_SENT: 1,
        Seam.EVENT_ENDED: 10,
        Seam.RESTORED_PART_WRITTEN: 7,
        Seam.IMAGES_FORGOTTEN: 1,
        Seam.OPERATION_AUDITED: 1,
        Seam.OPEN_FROM_MOVED: 1,
    },
}
CASES = cases_of(WRITES)
SAMPLE = {
    ("forward 4", Seam.STATEMENT_SENT),
    ("back 2", Seam.RESTORED_PART_WRITTEN),
    ("back 3", Seam.GROUP_STATE_SET),
}
LEFT_OUT = {
    *("change_id", "run_id", "updated_at", "submitted_at", "ended_at", "owner", "at", "day"),
    *("write_time", "last_write_time"),
}
"""Columns that are of a run and its time."""


def prepare(make: Callable[..., Journal], folder: Path, way: str) -> Journal:
    """Return a journal with the user's tables, and a group that is submitted."""
    journal = stocked(make)
    result = submit(journal, folder, GROUPS[way])
    assert result.status == 0, result.stderr
    return journal


def state(journal: Journal) -> dict[str, Any]:
    """Return all rows of the user and of the groups, without what is of a run and its time."""
    own: dict[str, list[dict[str, Any]]] = {
        name: sorted(
            [
                {
                    column: str(value).replace(journal.keyspace, "")
                    for column, value in row.items()
                    if column not in LEFT_OUT
                }
                for row in journal.own_rows(name)
            ],
            key=str,
        )
        for name in ("event_group", "event_group_order", "group_event", "before_image")
    }
    # A group may be audited twice, rather than never.
    audited = {(row["operation"], row["subject"], row["plan"]) for row in journal.own_rows("audit")}
    seen = f"SELECT id, ttl(seen) AS ttl FROM {table(journal.keyspace, 'account')}"
    return {
        **{name: journal.rows(name) for name in TABLES},
        **own,
        "expires": {row["id"]: row["ttl"] is not None for row in journal.control.execute(seen)},
        "audit": audited,
        "lock": journal.own_rows("lock"),
    }


@pytest.fixture(scope="module")
def undisturbed(
    make_journals: Callable[..., Journal], tmp_path_factory: pytest.TempPathFactory
) -> Undisturbed:
    """Execute the groups without a kill."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return executed(WRITES, state, lambda way: prepare(make_journals, folder, way))


@pytest.mark.parametrize("way", WRITES)
def test_it_asks_for_its_lock_before_each_write(undisturbed: Undisturbed, way: str) -> None:
    assert_locks_are_asked_for(undisturbed, way)


def test_the_way_back_leads_to_what_was_there(undisturbed: Undisturbed) -> None:
    state = undisturbed.states["back"]
    [account] = state["account"]
    assert (account["id"], str(account["total"]), account["note"]) == ("ann", "10.50", "old")
    assert state["expires"] == {"ann": True}
    assert [row["n"] for row in state["posting"]] == [1, 2, 3]


@pytest.mark.parametrize(("case", "seam"), sampled(CASES, SAMPLE))
def test_killed_after_a_write_and_run_again(
    make_journal: Callable[..., Journal],
    tmp_path: Path,
    undisturbed: Undisturbed,
    case: str,
    seam: Seam,
) -> None:
    kill_and_run_again(undisturbed, lambda way: prepare(make_journal, tmp_path, way), case, seam)


def test_what_somebody_deletes_after_the_kill_does_not_come_back(
    make_journal: Callable[..., Journal], tmp_path: Path
) -> None:
    """The second run restores the rows as it has found them, and none that the first has found."""
    journal = prepare(make_journal, tmp_path, "back")
    kill_after(journal, (Seam.IMAGES_KEPT, 3), APPLICATION)
    posting = table(journal.keyspace, "posting")
    journal.control.execute(f"DELETE FROM {posting} WHERE account = 'ann' AND n = 3")
    assert journal.run(APPLICATION).status == 3
    assert [row["n"] for row in journal.rows("posting")] == [1, 2]
