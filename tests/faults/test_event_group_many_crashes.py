"""run_event_groups over many rows, killed with SIGKILL after each write, forward and back.

After the second run the user's rows, the states of groups and events and the rows that were found
are those of an undisturbed run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.group_ways import (
    Undisturbed,
    assert_locks_are_asked_for,
    cases_of,
    executed,
    kill_and_run_again,
)
from tests.faults.sample import sampled
from tests.faults.seams import Seam
from tests.integration.event_groups.test_many import make, submit, wanted
from tests.integration.support import Journal

ROWS = 12
FORWARD = """
group: change
events:
  - {name: read, many: true, statement: "SELECT * FROM <wanted>"}
  - name: change
    each: read
    after: [read]
    statement: UPDATE <item> SET a = :v, seen = '2024-03-01' WHERE p = :p AND c = :c
    needs: [{event: read, as: p}, {event: read, as: c}, {event: read, as: v}]
  - {name: find, many: true, statement: "SELECT p, c FROM <item> WHERE p = 'p1'", after: [change]}
  - name: remove
    each: find
    after: [find]
    statement: DELETE FROM <item> WHERE p = :p AND c = :c
    needs: [{event: find, as: p}, {event: find, as: c}]
"""
BACK = (
    FORWARD
    + '  - {name: check, statement: "SELECT id FROM <wanted>", expect: none, after: [remove]}\n'
)
GROUPS = {"forward": FORWARD, "back": BACK}
WRITES = {
    "forward": {
        Seam.GROUP_STATE_SET: 2,
        Seam.MANY_ROWS_EMPTIED: 6,
        Seam.MANY_ROWS_ANNOUNCED: 4,
        Seam.MANY_ROWS_KEPT: 4,
        Seam.EVENT_BEGUN: 4,
        Seam.MANY_ROWS_SENT: 2,
        Seam.EVENT_ENDED: 4,
        Seam.MANY_ROWS_FORGOTTEN: 2,
        Seam.OPERATION_AUDITED: 1,
        Seam.OPEN_FROM_MOVED: 1,
    },
    "back": {
        Seam.GROUP_STATE_SET: 3,
        Seam.MANY_ROWS_EMPTIED: 6,
        Seam.MANY_ROWS_ANNOUNCED: 4,
        Seam.MANY_ROWS_KEPT: 4,
        Seam.EVENT_BEGUN: 5,
        Seam.MANY_ROWS_SENT: 8,
        Seam.EVENT_ENDED: 7,
        Seam.MANY_ROWS_FORGOTTEN: 2,
        Seam.OPERATION_AUDITED: 1,
        Seam.OPEN_FROM_MOVED: 1,
    },
}
CASES = cases_of(WRITES)
pytestmark = pytest.mark.long
SAMPLE = {("forward 1", Seam.MANY_ROWS_SENT), ("back 5", Seam.MANY_ROWS_SENT)}


def prepare(make_journal: Callable[..., Journal], folder: Path, text: str) -> Journal:
    """Return a journal with the user's tables, half of whose rows are there, and a group."""
    journal = make(make_journal)
    wanted(journal, ROWS)
    journal.insert(
        "item",
        [{"p": f"p{c % 5}", "c": c, "a": "old", "b": "1.5"} for c in range(0, ROWS, 2)],
    )
    folder.mkdir()
    result = submit(journal, folder, text)
    assert result.status == 0, result.stderr
    return journal


def state(journal: Journal) -> dict[str, Any]:
    """Return the user's rows and those of the groups, without what is of a run and its time."""

    def rows(name: str, *columns: str) -> list[str]:
        found = [{column: row[column] for column in columns} for row in journal.own_rows(name)]
        return sorted(str(row).replace(journal.keyspace, "") for row in found)

    found = [row for row in journal.own_rows("named_result") if row["kind"] == "result"]
    return {
        "item": journal.rows("item"),
        "event_group": rows("event_group", "id", "sequence", "state", "reason"),
        "group_event": rows("group_event", "event", "state", "parameters", "reason"),
        "sizes": rows("named_result_size", "event", "kind", "parts", "row_count"),
        "found": sorted((row["event"], row["id"], row["row_text"]) for row in found),
        "lock": journal.own_rows("lock"),
    }


@pytest.fixture(scope="module")
def undisturbed(
    make_journals: Callable[..., Journal], tmp_path_factory: pytest.TempPathFactory
) -> Undisturbed:
    """Execute the groups without a kill."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return executed(WRITES, state, lambda way: prepare(make_journals, folder / way, GROUPS[way]))


@pytest.mark.parametrize("way", WRITES)
def test_it_asks_for_its_lock_before_each_write(undisturbed: Undisturbed, way: str) -> None:
    assert_locks_are_asked_for(undisturbed, way)


@pytest.mark.parametrize(("case", "seam"), sampled(CASES, SAMPLE))
def test_killed_after_a_write_and_run_again(
    make_journal: Callable[..., Journal],
    tmp_path: Path,
    undisturbed: Undisturbed,
    case: str,
    seam: Seam,
) -> None:
    kill_and_run_again(
        undisturbed, lambda way: prepare(make_journal, tmp_path / "groups", GROUPS[way]), case, seam
    )
