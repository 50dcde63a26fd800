"""A run over several ranges of slices killed after each kind of write, then run again."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.test_crashes import CRASH, wait_for_locks
from tests.integration.projections import LATEST, LATEST_TABLE, START, Projections, event
from tests.integration.support import ROOT, Journal

SCRIPT = str(ROOT / "spark_apps" / "project.py")
EVENTS = [
    event(f"Order|{pid}", number, number / 2, kind="in", amount=number)
    for pid in range(24)
    for number in range(1, 4)
]


@pytest.mark.parametrize(
    ("boundary", "options", "read_again"),
    [
        # Of four ranges the first one is recorded, the others are not.
        ("tidemark.projection.offset_store.slice_records:record", ("--slice-ranges", "4"), 54),
        pytest.param(
            "tidemark.projection.offset_store.consumption:write_offsets",
            ("--slice-ranges", "4"),
            72,
            marks=pytest.mark.soak,
        ),
        # All slices are recorded, but the ledger does not know that the bucket is done.
        pytest.param(
            "tidemark.projection.offset_store.slice_records:record",
            ("--slices", "0-1023"),
            0,
            marks=pytest.mark.soak,
        ),
        pytest.param(
            "tidemark.projection.running.slice_session:settle",
            ("--slice-ranges", "4"),
            0,
            marks=pytest.mark.soak,
        ),
    ],
)
def test_killed_between_ranges_and_run_again(
    make_journal: Callable[..., Journal],
    tmp_path: Path,
    boundary: str,
    options: tuple[str, ...],
    read_again: int,
) -> None:
    tables = []
    for name in ("undisturbed", "killed"):
        (tmp_path / name).mkdir()
        projections = Projections(make_journal(LOCK_TTL="10"), tmp_path / name)
        projections.define(LATEST, LATEST_TABLE)
        projections.insert(*EVENTS)
        projections.validated(0, 1)
        if name == "killed":
            kill(projections, boundary, *options)
        result = projections.run(0, 2)
        assert result.status == 0, result.stderr
        tables.append(everything(projections))
    assert tables[0] == tables[1]
    assert result.report["counts"].get("events_read", 0) == read_again


def kill(projections: Projections, boundary: str, *options: str) -> None:
    process = projections.journal.start(
        CRASH,
        boundary,
        SCRIPT,
        "--window-start",
        f"{START:%Y-%m-%dT%H:%M}",
        "--window-end",
        f"{START:%Y-%m-%d}T02:00",
        *options,
        PROJECTIONS_DIR=str(projections.directory),
    )
    _, stderr = process.communicate()
    assert process.returncode == -signal.SIGKILL, stderr
    wait_for_locks(projections.journal)


def everything(projections: Projections) -> list[Any]:
    cursors = projections.journal.own_rows("projection_cursor")
    return [
        projections.journal.rows("latest"),
        projections.offsets(),
        sorted((row["slice"], row["timestamp"]) for row in cursors),
        projections.states(),
    ]
