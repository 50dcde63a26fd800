"""The operations rebuild and truncate of reconcile, which bring Pekko's own rows back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.pekko_journals import delete_message, delete_messages, write_as_pekko
from tests.integration.reconcile.test_check import delete_row, view_row
from tests.integration.support import Journal
from tests.integration.tag_write.test_tag_write import message, window

SCOPES = {
    "everything": ("--all",),
    "one id": ("--persistence-id", "a"),
    "two ids": ("--persistence-id", "a", "--persistence-id", "ü|✓"),
    "one tag": ("--tag", "red"),
    "one id of one tag": ("--persistence-id", "a", "--tag", "red"),
    "time buckets": window(1, 3),
    "time buckets of one tag": (*window(1, 3), "--tag", "red"),
}
SAMPLE = ("everything", "one id of one tag")


@pytest.fixture
def written(make_journal: Callable[..., Journal]) -> Journal:
    """Return three ids over six hours and several partitions of messages, as Pekko wrote them."""
    journal = make_journal(TARGET_PARTITION_SIZE="5")
    tags = [{"red", "blue"}, {"red"}, set()]
    write_as_pekko(
        journal,
        [
            message(pid, nr, 0.5 * nr, tags[(nr + shift) % 3], partition_nr=(nr - 1) // 5)
            for shift, pid in enumerate(["a", "ü|✓", "c"])
            for nr in range(1, 12)
        ],
    )
    return journal


def damage(journal: Journal) -> None:
    """Lose and double a row in every scope: of id a, under red, in hours 1 to 3."""
    lost, doubled, *_ = (
        row
        for row in journal.rows("tag_views")
        if row["persistence_id"] == "a" and row["tag_name"] == "red" and 1 < row["sequence_nr"] < 6
    )
    key = ("tag_name", "timebucket", "timestamp", "persistence_id", "tag_pid_sequence_nr")
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.tag_views WHERE " + " AND ".join(f"{k} = ?" for k in key),
        [lost[k] for k in key],
    )
    journal.insert("tag_views", [{**doubled, "tag_pid_sequence_nr": 99}])


@pytest.mark.parametrize(
    "scope",
    [pytest.param(scope, marks=() if scope in SAMPLE else pytest.mark.long) for scope in SCOPES],
)
def test_a_damaged_scope_comes_back_as_it_was(written: Journal, scope: str) -> None:
    before = written.tag_tables()
    damage(written)
    assert written.rows("tag_views") != before["tag_views"]
    result = written.run("reconcile", "rebuild", *SCOPES[scope], "--apply")
    assert result.status == 0, result.stderr
    assert written.rows("tag_views") == before["tag_views"]
    assert written.rows("tag_write_progress") == before["tag_write_progress"]
    if "--tag" not in SCOPES[scope]:
        assert written.rows("tag_scanning") == before["tag_scanning"]
    assert [row["operation"] for row in written.own_rows("audit")].count("rebuild") == 1
    assert written.run("reconcile", "check").status == 0


def test_dry_run_is_the_default(written: Journal) -> None:
    before = written.tag_tables()
    for command in (("rebuild", "--all"), ("truncate",)):
        result = written.run("reconcile", *command)
        assert result.status == 0, result.stderr
        assert "2 tags in 12 partitions" in result.stdout
        assert "dry run: nothing was changed; --apply does it" in result.stdout
        assert written.tag_tables() == before
    assert {row["dry_run"] for row in written.own_rows("audit")} == {True}


def test_truncate_empties_the_three_tables(written: Journal) -> None:
    messages = written.rows("messages")
    assert written.run("reconcile", "truncate", "--apply").status == 0
    assert written.tag_tables() == {
        "tag_views": [],
        "tag_write_progress": [],
        "tag_scanning": [],
    }
    assert written.rows("messages") == messages


@pytest.mark.long
@pytest.mark.parametrize("scope", ["everything", "one id", "one tag"])
def test_event_that_no_reader_could_read_is_quarantined_in_every_scope(
    written: Journal, scope: str
) -> None:
    broken = message("a", 12, 6, {"red"}, event=None, partition_nr=2)
    written.insert("messages", [broken])
    result = written.run("reconcile", "rebuild", *SCOPES[scope], "--apply")
    assert result.status == 0, result.stderr
    assert result.report["counts"]["quarantined"] == 1
    [row] = written.own_rows("quarantine")
    assert (row["persistence_id"], row["sequence_nr"]) == ("a", 12)
    assert all(row["sequence_nr"] < 12 for row in written.rows("tag_views"))


@pytest.mark.long
def test_deleted_front_is_numbered_from_one_as_pekko_does_and_the_plan_says_so(
    written: Journal,
) -> None:
    delete_messages(written, "a", to=4)
    plan = written.run("reconcile", "rebuild", "--all")
    assert "1 persistence ids had messages deleted" in plan.stdout
    assert written.run("reconcile", "rebuild", "--all", "--apply").status == 0
    numbers = sorted(
        (row["sequence_nr"], row["tag_pid_sequence_nr"])
        for row in written.rows("tag_views")
        if row["persistence_id"] == "a" and row["tag_name"] == "red"
    )
    assert [number for _, number in numbers] == list(range(1, len(numbers) + 1))
    assert numbers[0][0] > 4


@pytest.mark.long
def test_rows_without_an_event_stay_and_are_counted(journal: Journal) -> None:
    """They may be the only copy of the event, and a reader that misses their number fails."""
    events = [message("p", nr, nr - 0.5, {"t"}) for nr in range(1, 11)]
    write_as_pekko(journal, events)
    delete_messages(journal, "p", to=5)
    delete_message(journal, events[6])
    whole = journal.rows("tag_views")
    lost = view_row(journal, "p", "t", 8)
    delete_row(journal, lost)
    journal.insert("tag_views", [{**lost, "tag_pid_sequence_nr": 12}])
    for scope in (window(3, 8), ("--tag", "t")):
        plan = journal.run("reconcile", "rebuild", *scope)
        assert "of deleted or lost events stay as they are" in plan.stdout
        result = journal.run("reconcile", "rebuild", *scope, "--apply")
        assert result.status == 0, result.stderr
        assert journal.rows("tag_views") == whole
    assert result.report["counts"]["tag_rows_left"] == 6
    assert result.report["counts"]["tag_rows_rewritten"] == 4


def test_purged_time_buckets_stay_empty(journal: Journal) -> None:
    """Otherwise a retention would be undone, and the ledger would still say purged."""
    journal.insert("messages", [message("p", nr, nr - 0.5, {"red", "blue"}) for nr in (1, 2, 3)])
    assert journal.run("tag_write", *window(0, 3)).status == 0
    assert journal.run("purge", *window(0, 2), "--apply").status == 0
    before = journal.tag_tables()
    assert [row["sequence_nr"] for row in before["tag_views"]] == [3, 3]
    for scope in (("--all",), ("--tag", "red"), window(0, 3)):
        result = journal.run("reconcile", "rebuild", *scope, "--apply")
        assert result.status == 0, result.stderr
        assert journal.rows("tag_views") == before["tag_views"]
        assert journal.rows("tag_write_progress") == before["tag_write_progress"]
    assert result.report["state"] == "done"
    assert journal.run("tag_write", *window(0, 2), "--force").status == 0
    assert len(journal.rows("tag_views")) == 6


@pytest.mark.parametrize(
    ("options", "status", "expected"),
    [
        ((), 2, "nothing to work on"),
        (("--persistence-id", "nobody"), 2, "no such persistence id in messages: nobody"),
        (("--tag", "none"), 2, "no such tag in messages: none"),
        ((*window(0, 1), "--persistence-id", "a"), 2, "is rebuilt for all its persistence ids"),
    ],
    ids=["no scope", "unknown id", "unknown tag", "window and id"],
)
def test_what_cannot_be_meant_is_refused_in_one_line(
    written: Journal, options: tuple[str, ...], status: int, expected: str
) -> None:
    before = written.tag_tables()
    result = written.run("reconcile", "rebuild", *options, "--apply")
    assert result.status == status, result.stderr
    [line] = result.error_lines
    assert expected in line
    assert written.tag_tables() == before
