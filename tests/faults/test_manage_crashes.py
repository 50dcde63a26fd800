"""Changes of offsets by hand, killed with SIGKILL between any two writes.

The next run must give the same result, and the repeated command must come to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.killing import kill_after
from tests.faults.sample import sampled
from tests.faults.seams import Seam
from tests.integration.project.fold_books import TABLE as BOOKS_TABLE
from tests.integration.project.fold_books import books, define, fold
from tests.integration.project.projections import TOTALS, TOTALS_TABLE, Event, Projections, event
from tests.integration.support import Journal

EVENTS = [event("p|1", number, number - 0.5, "red", kind="in", amount=1) for number in range(1, 4)]
ID = ("totals", "--persistence-id", "p|1", "--tag", "red", "--apply")
COMMANDS = {
    "clear": ("clear", "totals", "--apply"),
    "back": ("set-offset", *ID, "--to", "1"),
    "skip": ("skip", *ID),
}
CHANGES = [
    ("clear", Seam.REVISION_RAISED),
    ("clear", Seam.OPERATION_AUDITED),
    ("clear", Seam.PIECES_RESTATED),
    ("clear", Seam.OFFSETS_FORGOTTEN),
    ("clear", Seam.CURSORS_FORGOTTEN),
    ("clear", Seam.SKIPS_FORGOTTEN),
    ("back", Seam.PIECES_RESTATED),
    ("back", Seam.SKIPS_CUT),
    ("back", Seam.OFFSET_SET),
]
CASES = sampled(CHANGES, set())
SKIPS = sampled(
    [
        ("skip", Seam.EVENT_QUARANTINED),
        ("skip", Seam.SKIP_ADDED),
        ("skip", Seam.OFFSET_SET),
    ],
    {("skip", Seam.SKIP_ADDED)},
)
RETRY = ("quarantine", "retry", "books", "--apply")
FOLDS = {"retry": RETRY, "clear": ("clear", "books", "--apply")}
FOLD_CHANGES = sampled(
    [
        ("retry", Seam.STATES_VOIDED),
        ("retry", Seam.PIECES_RESTATED),
        ("clear", Seam.ALL_STATES_VOIDED),
        ("clear", Seam.PIECES_RESTATED),
    ],
    set(),
)


@pytest.fixture
def projections(make_journal: Callable[..., Journal], tmp_path: Path) -> Projections:
    """Return a projection by a tag."""
    journal = make_journal(EVENTS_BY_TAG_FIRST_TIME_BUCKET="20240229T20")
    projected = Projections(journal, tmp_path)
    projected.define(TOTALS, TOTALS_TABLE)
    projected.validated(0, 1, 2)
    return projected


def kill(projections: Projections, boundary: Seam, *arguments: str) -> None:
    definitions = {"PROJECTIONS_DIR": str(projections.directory)}
    kill_after(projections.journal, boundary, "project", *arguments, **definitions)


@pytest.mark.parametrize(("command", "boundary"), CASES)
def test_clear_and_back_killed_after_a_write(
    projections: Projections, command: str, boundary: Seam
) -> None:
    projections.insert(*EVENTS)
    assert projections.run(0, 3).report["pieces"]["done"] == 3
    offsets, rows = projections.offsets(), projections.journal.rows("totals")
    kill(projections, boundary, *COMMANDS[command])
    ran = projections.run(2, 3)
    assert ran.status == 0, ran.stderr
    assert projections.journal.rows("totals") == rows
    assert {state for _, _, state, _ in projections.states()} == {"done"}
    again = projections.manage(*COMMANDS[command])
    assert again.report["state"] == "done", again.stderr
    assert projections.run(2, 3).status == 0
    assert projections.offsets() == offsets
    assert projections.journal.rows("totals") == rows


@pytest.mark.parametrize(("command", "boundary"), SKIPS)
def test_skip_killed_after_a_write(projections: Projections, command: str, boundary: Seam) -> None:
    """The poison event 2 is skipped once, whether the command ends or is repeated."""
    projections.insert(EVENTS[0])
    assert projections.run(0, 1).report["pieces"]["done"] == 1
    projections.insert(*EVENTS[1:])
    kill(projections, boundary, *COMMANDS[command])
    if projections.journal.own_rows("projection_offset")[0]["tag_pid_sequence_nr"] != 2:
        assert projections.manage(*COMMANDS[command]).report["state"] == "done"
    assert projections.run(0, 3).report["pieces"]["done"] == 2
    assert len(projections.journal.own_rows("quarantine")) == 1
    assert [row["time_bucket"] for row in projections.journal.rows("totals")] == sorted(
        event.time_bucket for event in (EVENTS[0], EVENTS[2])
    )


def run_with_a_broken_event(projections: Projections) -> Event:
    """Return the event, which the state of p|1 lacks, as the journal should have it."""
    define(projections, fold().replace('mode="fold"', 'mode="fold", on_error="skip"'), BOOKS_TABLE)
    projections.insert(EVENTS[0], replace(EVENTS[1], payload=b"{"), EVENTS[2])
    projections.list_persistence_ids()
    ran = projections.run(0, 3, "--projection", "books")
    assert ran.report["counts"]["quarantined"] == 1
    assert books(projections) == {"p|1": (3, 2, [1, 3])}
    return EVENTS[1]


@pytest.mark.parametrize(("command", "boundary"), FOLD_CHANGES)
def test_states_are_right_after_a_change_that_is_killed_and_repeated(
    projections: Projections, command: str, boundary: Seam
) -> None:
    projections.insert(run_with_a_broken_event(projections))
    kill(projections, boundary, *FOLDS[command])
    assert projections.run(2, 3, "--projection", "books").status == 0
    assert books(projections)["p|1"] in ((3, 2, [1, 3]), (3, 3, [1, 2, 3]))
    assert projections.manage(*FOLDS[command]).status == 0
    assert projections.run(2, 3, "--projection", "books").status == 0
    assert books(projections) == {"p|1": (3, 3, [1, 2, 3])}
    assert projections.journal.own_rows("quarantine") == []


@pytest.mark.parametrize(
    "boundary",
    [
        pytest.param(seam, marks=pytest.mark.soak)
        for seam in (Seam.GAPS_REPLACED, Seam.EVENTS_RELEASED)
    ],
)
def test_a_run_killed_around_the_quarantine_is_done_again_by_the_next(
    projections: Projections, boundary: Seam
) -> None:
    projections.insert(run_with_a_broken_event(projections))
    assert projections.manage(*RETRY).status == 0
    window = ("--window-start", "2024-03-01T02:00:00Z", "--window-end", "2024-03-01T03:00:00Z")
    kill(projections, boundary, "--projection", "books", *window)
    assert "running" in {state for _, _, state, _ in projections.states()}
    assert projections.run(2, 3, "--projection", "books").status == 0
    assert {state for _, _, state, _ in projections.states()} == {"done"}
    assert books(projections) == {"p|1": (3, 3, [1, 2, 3])}
    assert projections.journal.own_rows("quarantine") == []
