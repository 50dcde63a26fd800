"""The numbers and the progress that tag-write leaves where others write or delete between runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from tests.integration.pekko_journals import (
    delete_message,
    delete_messages,
    write_as_pekko,
)
from tests.integration.reconcile.test_check import delete_row
from tests.integration.support import Journal
from tests.integration.tag_write.test_tag_write import message, window
from tidemark.tag_write.job import TagWriteJob

pytestmark = pytest.mark.usefixtures("production")

Message = dict[str, Any]


def numbers(journal: Journal, pid: str) -> dict[int, int]:
    """Return the numbers of the rows of an id under the tag t, by sequence nr."""
    rows = [row for row in journal.rows("tag_views") if row["persistence_id"] == pid]
    by_event = {row["sequence_nr"]: row["tag_pid_sequence_nr"] for row in rows}
    assert len(by_event) == len(rows)
    return by_event


def findings(journal: Journal) -> set[tuple[Any, ...]]:
    """Return what `reconcile check` finds, as (persistence id, check, number)."""
    journal.run("reconcile", "check")
    return {
        (row["persistence_id"], row["check_name"], row["number"])
        for row in journal.own_rows("finding")
        if row["reason"] is None
    }


def before(method: Callable[..., Any], meanwhile: Callable[[], None]) -> Callable[..., Any]:
    def replaced(*args: Any, **kwargs: Any) -> Any:
        meanwhile()
        return method(*args, **kwargs)

    return replaced


@pytest.mark.long
def test_progress_of_an_actor_that_came_back_is_not_set_back(journal: Journal) -> None:
    """Between the reads and the writes of a run the actor recovers, and writes 3 to 5 itself."""
    events = [message("p", nr, 0.1 * nr, {"t"}) for nr in (1, 2, 3)]
    write_as_pekko(journal, events[:2])
    journal.insert("messages", events[2:])
    journal.insert("all_persistence_ids", [{"persistence_id": "p"}])
    later = [message("p", nr, 5 + 0.1 * nr, {"t"}) for nr in (4, 5)]

    def recover() -> None:
        write_as_pekko(journal, [*events, *later])

    with patch.object(TagWriteJob, "_write_rows", before(TagWriteJob._write_rows, recover)):
        assert journal.run("tag_write", *window(0, 1)).status == 0
    [progress] = journal.rows("tag_write_progress")
    assert (progress["sequence_nr"], progress["tag_pid_sequence_nr"]) == (5, 5)
    [scanning] = journal.rows("tag_scanning")
    assert scanning["sequence_nr"] == 5


def test_each_row_is_written_once(journal: Journal) -> None:
    """Also beside an older event of the same id whose time bucket was never done."""
    open_event = message("p", 1, 0.5, {"t"})
    journal.insert("messages", [open_event, *(message("p", nr, nr + 3.5, {"t"}) for nr in (2, 3))])
    late: list[int] = []
    for hour in (5, 6, 7):
        if hour == 7:
            journal.insert("messages", [message("p", 4, 7.5, {"t"})])
        result = journal.run("tag_write", *window(hour, hour + 1), "--strategy", "tails")
        assert result.status == 0, result.stderr
        late.append(result.report["counts"]["late_tag_rows"])
    assert late == [0, 0, 0]
    assert journal.own_rows("late_tag_rows") == []
    assert numbers(journal, "p") == {2: 2, 3: 3, 4: 4}


def test_numbers_go_on_whatever_others_did_between_two_runs(journal: Journal) -> None:
    """Each id is whole in its own way, so nothing is held and nothing is accused."""

    def events(pid: str, first: int, last: int, hour: float = 0) -> list[Message]:
        return [message(pid, nr, hour + 0.005 * nr, {"t"}) for nr in range(first, last + 1)]

    old = [*events("rebuilt", 1, 20), *events("purged", 1, 10), *events("migrated", 1, 10)]
    write_as_pekko(journal, old)
    ids = ("rebuilt", "purged", "migrated")
    journal.insert("all_persistence_ids", [{"persistence_id": pid} for pid in ids])
    delete_messages(journal, "rebuilt", 10)
    # As the plugin's migration leaves older events: their tags are in their rows alone.
    journal.insert(
        "messages", [row | {"tags": set()} for row in old if row["persistence_id"] == "migrated"]
    )
    for nr in range(1, 11):
        if nr > 6:
            journal.insert("messages", [message("migrated", nr, 0.005 * nr, {"t"})])
    assert journal.run("tag_write", *window(0, 1)).status == 0
    # Pekko's Reconciliation deletes and rebuilds an id, which then begins with number 1.
    for row in journal.rows("tag_views"):
        if row["persistence_id"] == "rebuilt":
            delete_row(journal, row)
    for name in ("tag_write_progress", "tag_scanning"):
        journal.control.execute(
            f"DELETE FROM {journal.keyspace}.{name} WHERE persistence_id = 'rebuilt'"
        )
    write_as_pekko(journal, events("rebuilt", 11, 20))
    # An event is lost, and its row.
    lost = next(row for row in old if row["persistence_id"] == "purged" and row["sequence_nr"] == 4)
    delete_message(journal, lost)
    [row] = [row for row in journal.rows("tag_views") if row["timestamp"] == lost["timestamp"]]
    delete_row(journal, row)
    write_as_pekko(journal, events("rebuilt", 11, 20) + events("rebuilt", 21, 21, 1))
    journal.insert("messages", events("purged", 11, 11, 1) + events("migrated", 11, 11, 1))
    for strategy, hours in (("tails", (1, 2)), ("scan", (0, 2))):
        force = ["--force"] if strategy == "scan" else []
        result = journal.run("tag_write", *window(*hours), "--strategy", strategy, *force)
        assert result.status == 0, result.stderr
        assert numbers(journal, "rebuilt") == {nr: nr - 10 for nr in range(11, 22)}
        assert numbers(journal, "purged") == {nr: nr for nr in range(1, 12) if nr != 4}
        assert numbers(journal, "migrated") == {nr: nr for nr in range(1, 12)}
    left = {("purged", "sequence_nr_gap", 5), ("purged", "tag_pid_sequence_nr_gap", 5)}
    assert findings(journal) == left
    written = journal.tag_tables()
    assert journal.run("reconcile", "repair", "--apply").status == 0
    assert journal.tag_tables() == written


def test_a_wrong_number_of_a_lost_event_is_put_right_and_its_row_kept(journal: Journal) -> None:
    """Its row has the only copy of what it held, under a number that no numbering fits."""
    events = [message("p", nr, 0.1 * nr, {"t"}) for nr in range(1, 6)]
    write_as_pekko(journal, events)
    journal.insert("all_persistence_ids", [{"persistence_id": "p"}])
    delete_message(journal, events[3])
    [row] = [row for row in journal.rows("tag_views") if row["sequence_nr"] == 4]
    delete_row(journal, row)
    journal.insert("tag_views", [row | {"tag_pid_sequence_nr": 7}])
    [progress] = journal.rows("tag_write_progress")
    journal.insert("tag_write_progress", [progress | {"sequence_nr": 4, "tag_pid_sequence_nr": 7}])

    held = journal.run("tag_write", *window(0, 1))
    assert held.status == 3, held.stderr
    assert ("p", "wrong_number", 7) in findings(journal)
    repaired = journal.run("reconcile", "repair", "--apply")
    assert repaired.status == 0, repaired.stderr
    assert row in journal.rows("tag_views")
    assert findings(journal) == {("p", "sequence_nr_gap", 5)}
    journal.insert("messages", [message("p", 6, 1.5, {"t"})])
    goes_on = journal.run("tag_write", *window(1, 2))
    assert goes_on.status == 0, goes_on.stderr
    assert numbers(journal, "p") == {nr: nr for nr in range(1, 7)}
