"""Offsets that are changed by hand, killed with SIGKILL between any two writes.

The run after it must give the same result, and the command must come to its end when done again.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.sample import sampled
from tests.faults.test_crashes import CRASH, wait_for_locks
from tests.integration.projections import TOTALS, TOTALS_TABLE, Projections, event
from tests.integration.support import ROOT, Journal

EVENTS = [event("p|1", number, number - 0.5, "red", kind="in", amount=1) for number in range(1, 4)]
ID = ("totals", "--persistence-id", "p|1", "--tag", "red", "--apply")
COMMANDS = {
    "clear": ("clear", "totals", "--apply"),
    "back": ("set-offset", *ID, "--to", "1"),
    "skip": ("skip", *ID),
}
CHANGES = [
    ("clear", "tidemark.projection.management.change:_raise_revision"),
    ("clear", "tidemark.ledger.audit:record"),
    ("clear", "tidemark.ledger.pieces:Pieces.restate"),
    ("clear", "tidemark.projection.offset_store.offsets:OffsetStore.forget_offsets"),
    ("clear", "tidemark.projection.offset_store.offsets:OffsetStore.forget_cursors"),
    ("clear", "tidemark.projection.offset_store.skips:forget"),
    ("back", "tidemark.ledger.pieces:Pieces.restate"),
    ("back", "tidemark.projection.offset_store.skips:cut"),
    ("back", "tidemark.projection.offset_store.offsets:OffsetStore.set_offset"),
]
CASES = sampled(
    CHANGES,
    {
        ("clear", "tidemark.ledger.pieces:Pieces.restate"),
        ("clear", "tidemark.projection.offset_store.offsets:OffsetStore.forget_offsets"),
        ("back", "tidemark.projection.offset_store.skips:cut"),
    },
)
SKIPS = sampled(
    [
        ("skip", "tidemark.ledger.quarantine:write_one"),
        ("skip", "tidemark.projection.offset_store.skips:add"),
        ("skip", "tidemark.projection.offset_store.offsets:OffsetStore.set_offset"),
    ],
    {("skip", "tidemark.projection.offset_store.skips:add")},
)


@pytest.fixture
def projections(make_journal: Callable[..., Journal], tmp_path: Path) -> Projections:
    """One projection by a tag."""
    journal = make_journal(LOCK_TTL="5", EVENTS_BY_TAG_FIRST_TIME_BUCKET="20240229T20")
    one = Projections(journal, tmp_path)
    one.define(TOTALS, TOTALS_TABLE)
    one.validated(0, 1, 2)
    return one


def kill(projections: Projections, boundary: str, *arguments: str) -> None:
    """Start a command, and kill it right after a function."""
    script = str(ROOT / "spark_apps" / "project.py")
    directory = {"PROJECTIONS_DIR": str(projections.directory)}
    process = projections.journal.start(CRASH, boundary, script, *arguments, **directory)
    _, stderr = process.communicate()
    assert process.returncode == -signal.SIGKILL, stderr
    wait_for_locks(projections.journal)


@pytest.mark.parametrize(("command", "boundary"), CASES)
def test_clear_and_back_killed_after_a_write(
    projections: Projections, command: str, boundary: str
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
def test_skip_killed_after_a_write(projections: Projections, command: str, boundary: str) -> None:
    """The poison event 2 is skipped once, whether the command ends or is done again."""
    projections.insert(EVENTS[0])
    assert projections.run(0, 1).report["pieces"]["done"] == 1
    projections.insert(*EVENTS[1:])
    kill(projections, boundary, *COMMANDS[command])
    if projections.journal.own_rows("projection_offset")[0]["tag_pid_sequence_nr"] != 2:
        assert projections.manage(*COMMANDS[command]).report["state"] == "done"
    assert projections.run(0, 3).report["pieces"]["done"] == 2
    assert len(projections.journal.own_rows("quarantine")) == 1
    assert [row["time_bucket"] for row in projections.journal.rows("totals")] == sorted(
        one.time_bucket for one in (EVENTS[0], EVENTS[2])
    )
