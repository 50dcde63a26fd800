"""Each operation of reconcile, killed with SIGKILL after each kind of write, then run again.

The tables must be byte-equal to those of an undisturbed journal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.faults.fencing import CHECK, Step, is_checked_before_each, traced
from tests.faults.killing import kill_after
from tests.faults.sample import sampled
from tests.faults.seams import Seam
from tests.integration.pekko_journals import delete_messages, write_as_pekko
from tests.integration.reconcile import test_check as damages
from tests.integration.support import Journal
from tests.integration.tag_write.test_tag_write import message, window

TABLES = ("messages", "metadata", "tag_views", "tag_write_progress", "tag_scanning")
OF_A_RUN = ("run_id", "found_at")
HARMLESS = {Seam.BUCKET_SIZE_RECORDED}
"""Writes that cannot conflict with another run's: both would write the same bucket size."""
State = dict[str, list[Any]]


@dataclass(frozen=True)
class Case:
    """An operation with its arguments, the journal that it works on, and its writes in order."""

    arguments: tuple[str, ...]
    prepare: Callable[[Journal], None]
    boundaries: tuple[Seam, ...]


def damaged(journal: Journal) -> None:
    """Damage the journal for each kind of write that repair has."""
    broken = {
        "lost": damages.lose,
        "doubled": damages.double,
        "renumbered": damages.renumber,
        "behind": damages.progress_behind,
        "ahead": damages.scanning_ahead,
    }
    write_as_pekko(journal, [event for pid in broken for event in damages.ten_events(pid)])
    for pid, damage in broken.items():
        damage(journal, pid)
    journal.insert("messages", [message("lost", 11, 6, {"red"}, event=None, partition_nr=2)])
    orphan = {"persistence_id": "behind", "tag": "never", "sequence_nr": 9}
    journal.insert("tag_write_progress", [{**orphan, "tag_pid_sequence_nr": 9}])


def front_deleted(journal: Journal) -> None:
    """Write two ids with two tags, the first events of one deleted from messages."""
    tags = [{"red", "blue"}, {"blue"}]
    write_as_pekko(
        journal,
        [
            message(pid, number, number, tags[number % 2])
            for pid in ("kept", "hit")
            for number in range(1, 9)
        ],
    )
    delete_messages(journal, "hit", to=5)


def doubled_rows(journal: Journal) -> None:
    """Write extra rows, as the only damage."""
    write_as_pekko(journal, damages.ten_events("doubled"))
    damages.double(journal, "doubled")


BOUNDARIES = {
    "delete an id": Case(
        ("delete", "--persistence-id", "hit", "--apply"),
        front_deleted,
        (
            Seam.TAG_WRITE_TAILS_FORGOTTEN,
            Seam.SCANNING_DELETED,
            Seam.PROGRESS_DELETED,
            Seam.ROWS_DELETED,
        ),
    ),
    "delete a tag": Case(
        ("delete", "--tag", "red", "--apply"),
        front_deleted,
        (
            Seam.TAILS_FORGOTTEN_BY_SPARK,
            Seam.SCANNING_DELETED_BY_SPARK,
            Seam.PROGRESS_DELETED_BY_SPARK,
            Seam.PARTITIONS_DELETED,
        ),
    ),
    "propagate-deletes": Case(
        ("propagate-deletes", "--all", "--apply"),
        front_deleted,
        (Seam.DELETES_PROPAGATED,),
    ),
    "truncate": Case(
        ("truncate", "--apply"),
        damaged,
        (
            Seam.TABLE_EMPTIED,
            Seam.TAG_WRITE_TAILS_FORGOTTEN,
        ),
    ),
    "rebuild everything": Case(
        ("rebuild", "--all", "--apply"),
        damaged,
        (
            Seam.BUCKET_SIZE_RECORDED,
            Seam.TABLE_EMPTIED,
            Seam.TAG_WRITE_TAILS_FORGOTTEN,
            Seam.TAG_VIEWS_WRITTEN,
            Seam.EVENTS_QUARANTINED,
            Seam.PROGRESS_WRITTEN,
            Seam.SCANNING_WRITTEN,
            Seam.TAG_WRITE_TAILS_WRITTEN,
        ),
    ),
    "rebuild an id": Case(
        ("rebuild", "--persistence-id", "lost", "--apply"),
        damaged,
        (
            Seam.SCANNING_DELETED,
            Seam.PROGRESS_DELETED,
            Seam.ROWS_DELETED,
            Seam.TAG_VIEWS_WRITTEN,
            Seam.PROGRESS_WRITTEN,
            Seam.SCANNING_WRITTEN,
        ),
    ),
    "rebuild a tag": Case(
        ("rebuild", "--tag", "red", "--apply"),
        damaged,
        (
            Seam.TAILS_FORGOTTEN_BY_SPARK,
            Seam.TAG_VIEWS_WRITTEN,
            Seam.REPAIR_ROWS_DELETED,
            Seam.PROGRESS_WRITTEN,
        ),
    ),
    "rebuild time buckets": Case(
        ("rebuild", *window(1, 3), "--apply"),
        doubled_rows,
        (
            Seam.TAILS_FORGOTTEN_BY_SPARK,
            Seam.REPAIR_ROWS_DELETED,
            Seam.TAG_VIEWS_WRITTEN,
        ),
    ),
    "repair": Case(
        ("repair", "--apply"),
        damaged,
        (
            Seam.TAILS_FORGOTTEN_BY_SPARK,
            Seam.EVENTS_QUARANTINED,
            Seam.TAG_VIEWS_WRITTEN,
            Seam.REPAIR_ROWS_DELETED,
            Seam.PROGRESS_WRITTEN,
            Seam.PROGRESS_DELETED_BY_SPARK,
            Seam.SCANNING_WRITTEN,
        ),
    ),
}
WRITES = {where for case in BOUNDARIES.values() for where in case.boundaries}
CASES = sampled(
    [(name, where) for name, case in BOUNDARIES.items() for where in case.boundaries],
    {("delete an id", Seam.PROGRESS_DELETED)},
)


def state(journal: Journal) -> State:
    """Return everything that an operation may change, without names of the run."""
    quarantined = [
        {name: value for name, value in row.items() if name not in (*OF_A_RUN, "source")}
        for row in journal.own_rows("quarantine")
    ]
    tails = [
        {name: value for name, value in row.items() if name != "journal_keyspace"}
        for row in journal.own_rows("tag_write_tail")
    ]
    ordered = {"quarantine": in_order(quarantined), "tag_write_tail": in_order(tails)}
    return {name: journal.rows(name) for name in TABLES} | ordered


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str(sorted(row.items())))


@dataclass(frozen=True)
class Undisturbed:
    """All tables after an operation, with its writes and checks in their order."""

    state: State
    trace: list[Step]


@pytest.fixture(scope="module")
def undisturbed(make_journals: Callable[..., Journal]) -> Callable[[str], Undisturbed]:
    """Return a function that runs an operation in an undisturbed journal."""
    references: dict[str, Undisturbed] = {}

    def after(name: str) -> Undisturbed:
        if name not in references:
            case = BOUNDARIES[name]
            reference = make_journals(TARGET_PARTITION_SIZE="4")
            case.prepare(reference)
            before = {table: reference.rows(table) for table in TABLES}
            with pytest.MonkeyPatch.context() as patched:
                trace = traced(patched, WRITES - HARMLESS)
                result = reference.run("reconcile", *case.arguments)
            assert result.status == 0, result.stderr
            references[name] = Undisturbed(state(reference), trace)
            assert {table: references[name].state[table] for table in TABLES} != before
        return references[name]

    return after


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("repair", "rebuild a tag") else pytest.param(name, marks=pytest.mark.long)
        for name in BOUNDARIES
    ],
)
def test_before_each_write_it_asks_whether_it_still_holds_its_locks(
    undisturbed: Callable[[str], Undisturbed], name: str
) -> None:
    trace = undisturbed(name).trace
    assert set(trace) >= {CHECK, *BOUNDARIES[name].boundaries} - HARMLESS
    assert is_checked_before_each(trace), trace


@pytest.mark.parametrize(("name", "boundary"), CASES)
def test_killed_after_a_write_and_run_again(
    make_journal: Callable[..., Journal],
    undisturbed: Callable[[str], Undisturbed],
    name: str,
    boundary: Seam,
) -> None:
    case = BOUNDARIES[name]
    killed = make_journal(TARGET_PARTITION_SIZE="4")
    case.prepare(killed)
    kill_after(killed, boundary, "reconcile", *case.arguments)

    again = killed.run("reconcile", *case.arguments)
    assert again.status == 0, again.stderr
    assert state(killed) == undisturbed(name).state
