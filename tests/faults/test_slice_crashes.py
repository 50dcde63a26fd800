"""A run over several ranges of slices, killed after each kind of write, then run again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.killing import kill_after
from tests.faults.seams import Seam
from tests.integration.project.projections import LATEST, LATEST_TABLE, START, Projections, event
from tests.integration.support import Journal
from tidemark.partitioning.keys import SliceRange, slice_of
from tidemark.partitioning.slice_ranges import text

EVENTS = [
    event(f"Order|{pid}", number, number / 2, kind="in", amount=number)
    for pid in range(24)
    for number in range(1, 4)
]


MIDDLE = SliceRange(256, 511)
"""Slices done before: a run over all slices then does the lower ones, then the higher ones."""


def events_in(*ranges: SliceRange) -> int:
    return sum(
        any(slices.first <= slice_of(event.persistence_id) <= slices.last for slices in ranges)
        for event in EVENTS
    )


@pytest.mark.parametrize(
    ("boundary", "left"),
    [
        # The lower slices are recorded, the higher ones are not.
        pytest.param(Seam.SLICES_RECORDED, [SliceRange(512, 1023)], marks=pytest.mark.long),
        pytest.param(
            Seam.OFFSETS_WRITTEN,
            [SliceRange(0, 255), SliceRange(512, 1023)],
            marks=pytest.mark.soak,
        ),
        # All slices are recorded, but the ledger does not know that the bucket is done.
        pytest.param(Seam.SLICES_SETTLED, [], marks=pytest.mark.soak),
    ],
)
def test_killed_between_ranges_and_run_again(
    make_journal: Callable[..., Journal], tmp_path: Path, boundary: Seam, left: list[SliceRange]
) -> None:
    tables = []
    for name in ("undisturbed", "killed"):
        (tmp_path / name).mkdir()
        projections = Projections(make_journal(), tmp_path / name)
        projections.define(LATEST, LATEST_TABLE)
        projections.insert(*EVENTS)
        projections.validated(0, 1)
        first = projections.run(0, 2, "--slices", text(MIDDLE))
        assert first.report["counts"]["events_read"] == events_in(MIDDLE)
        if name == "killed":
            kill(projections, boundary)
        result = projections.run(0, 2)
        assert result.status == 0, result.stderr
        tables.append(everything(projections))
    assert tables[0] == tables[1]
    assert result.report["counts"].get("events_read", 0) == events_in(*left)


def kill(projections: Projections, boundary: Seam) -> None:
    kill_after(
        projections.journal,
        boundary,
        "project",
        "--window-start",
        f"{START:%Y-%m-%dT%H:%M}Z",
        "--window-end",
        f"{START:%Y-%m-%d}T02:00Z",
        PROJECTIONS_DIR=str(projections.directory),
    )


def everything(projections: Projections) -> list[Any]:
    cursors = projections.journal.own_rows("projection_cursor")
    return [
        projections.journal.rows("latest"),
        projections.offsets(),
        sorted((row["slice"], row["timestamp"]) for row in cursors),
        projections.states(),
    ]
