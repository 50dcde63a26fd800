"""Each application, killed with SIGKILL after each kind of write, then run again.

The tables must be byte-equal to those of an undisturbed journal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.faults.killing import kill_after
from tests.faults.sample import sampled
from tests.faults.seams import Seam
from tests.integration.flights import CHAIN, WINDOW, FlightsJournal
from tests.integration.support import Journal

State = dict[str, list[Any]]
FLIGHTS = 150
FLIGHTS_OF_TWO_DAYS = 900
EXAMPLES = {"fold": "aircraft_use", "append": "flight_log", "export": "flights_lake"}
"""The example definition of each mode."""
BY_ID = ("aircraft_state", EXAMPLES["fold"], EXAMPLES["append"])
"""Projections in modes by id."""
LAGGING = ("piece", "projection_cursor")
"""Tables whose rows may differ for these projections if a run has died.

What a run has noted as consumed the next one does not read again, so it neither counts it nor moves
cursors by it. Cursors lag then until the next event of their slice.
"""
BOUNDARIES = {
    "tag_write": [
        Seam.BUCKET_SIZE_RECORDED,
        Seam.TAG_VIEWS_WRITTEN,
        Seam.PROGRESS_WRITTEN,
        Seam.SCANNING_WRITTEN,
        Seam.TAG_WRITE_TAILS_WRITTEN,
    ],
    "validate": [
        Seam.RUN_PROGRESS_NOTED,
        Seam.OLDER_FINDINGS_DELETED,
    ],
    "project": [
        Seam.ORIGIN_NOTED,
        Seam.BUCKET_ROWS_WRITTEN,
        Seam.OLDER_ROWS_DELETED,
        Seam.NEWEST_WRITTEN,
        Seam.OFFSETS_WRITTEN,
        Seam.CURSORS_WRITTEN,
        Seam.GAPS_REPLACED,
    ],
    "purge": [
        Seam.PARTITIONS_DELETED,
    ],
}
CASES = sampled(
    [(application, where) for application, places in BOUNDARIES.items() for where in places],
    {("tag_write", Seam.TAG_VIEWS_WRITTEN)},
)


def without_lagging(tables: State) -> State:
    """Return the tables without the rows that may differ after a run has died."""
    return {
        name: [row for row in rows if name not in LAGGING or not any(by in row for by in BY_ID)]
        for name, rows in tables.items()
    }


def options(application: str) -> tuple[str, ...]:
    return (*WINDOW, "--apply") if application == "purge" else WINDOW


@dataclass
class Undisturbed:
    """A journal in which nothing is killed."""

    loaded: FlightsJournal
    states: dict[str, State] = field(default_factory=dict)

    def after(self, application: str) -> State:
        """Return all tables after an application, which runs behind those before it."""
        chain = [*CHAIN, "purge"]
        for name in chain[len(self.states) : chain.index(application) + 1]:
            result = self.loaded.journal.run(name, *options(name))
            assert result.status == 0, result.stderr
            self.states[name] = self.loaded.everything()
        return self.states[application]


@pytest.fixture(scope="module")
def undisturbed(
    make_journals: Callable[..., Journal], tmp_path_factory: pytest.TempPathFactory
) -> Undisturbed:
    directory = tmp_path_factory.mktemp("undisturbed") / "projections"
    return Undisturbed(FlightsJournal.create(make_journals, directory, FLIGHTS))


@pytest.mark.parametrize(("application", "boundary"), CASES)
def test_killed_after_a_write_and_run_again(
    make_journal: Callable[..., Journal],
    undisturbed: Undisturbed,
    tmp_path: Path,
    application: str,
    boundary: Seam,
) -> None:
    killed = FlightsJournal.create(make_journal, tmp_path / "p", FLIGHTS)
    chain = [*CHAIN, "purge"]
    killed.run_chain(*chain[: chain.index(application)])

    kill_after(killed.journal, boundary, application, *options(application))
    pieces = killed.journal.own_rows("piece")
    assert "running" in {row["state"] for row in pieces}

    again = killed.journal.run(application, *options(application))
    assert again.status == 0, again.stderr
    expected = without_lagging(undisturbed.after(application))
    assert without_lagging(killed.everything()) == expected
    assert {row["state"] for row in killed.journal.own_rows("piece")} == {"done"}


@pytest.mark.parametrize(
    ("mode", "boundary"),
    sampled(
        [
            ("fold", Seam.NEWEST_WRITTEN),
            ("fold", Seam.OFFSETS_WRITTEN),
            ("fold", Seam.CURSORS_WRITTEN),
            ("append", Seam.EVENTS_APPENDED),
            ("export", Seam.BATCH_EXPORTED),
            ("export", Seam.EXPORTED_BUCKET_REPLACED),
            ("export", Seam.EXPORTED_BATCHES_REMOVED),
        ],
        set(),
    ),
)
def test_an_example_killed_after_a_write_and_run_again(
    make_journal: Callable[..., Journal], tmp_path: Path, mode: str, boundary: Seam
) -> None:
    states = []
    options = (*WINDOW, "--force", "--projection", EXAMPLES[mode])
    for name in ("undisturbed", "killed"):
        loaded = FlightsJournal.create(
            make_journal, tmp_path / name, FLIGHTS_OF_TWO_DAYS, "examples"
        )
        if name == "killed":
            kill_after(loaded.journal, boundary, "project", *options)
        result = loaded.journal.run("project", *options)
        assert result.status == 0, result.stderr
        tables = without_lagging(loaded.everything())
        assert {row["state"] for row in loaded.journal.own_rows("piece")} == {"done"}
        states.append((tables, exported(tmp_path / name / "export")))
    assert states[0] == states[1]
    tables, files = states[0]
    assert len(files) > 1 if mode == "export" else tables[EXAMPLES[mode]]


def exported(directory: Path) -> dict[str, bytes]:
    """Return every file by its directory, as its own name holds the journal's, which differs."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    content = {str(path.parent.relative_to(directory)): path.read_bytes() for path in files}
    assert len(content) == len(files)
    return content


@pytest.mark.soak
@pytest.mark.parametrize("boundary", [Seam.FINDINGS_WRITTEN, Seam.VALIDATED_TAILS_WRITTEN])
def test_validate_killed_after_a_write_and_run_again(
    make_journal: Callable[..., Journal], tmp_path: Path, boundary: Seam
) -> None:
    """Findings are only written for damage, so a tag row is lost in both journals."""
    tables = []
    for name in ("undisturbed", "killed"):
        damaged = FlightsJournal.create(make_journal, tmp_path / name, FLIGHTS)
        damaged.run_chain("tag_write")
        # Tails are only written in an indexed journal.
        damaged.journal.index_timestamps()
        lose_a_tag_row(damaged.journal)
        if name == "killed":
            kill_after(damaged.journal, boundary, "validate", *WINDOW)
        assert damaged.journal.run("validate", *WINDOW).status == 3
        tables.append(damaged.everything())
    assert tables[0] == tables[1]
    assert tables[0]["finding"]


def lose_a_tag_row(journal: Journal) -> None:
    """Delete the same row in every journal of the same events."""
    key = ("tag_name", "timebucket", "timestamp", "persistence_id", "tag_pid_sequence_nr")
    row = min(
        (row for row in journal.rows("tag_views") if row["tag_pid_sequence_nr"] == 2),
        key=lambda row: (row["tag_name"], row["persistence_id"]),
    )
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.tag_views WHERE "
        + " AND ".join(f"{name} = ?" for name in key),
        [row[name] for name in key],
    )
