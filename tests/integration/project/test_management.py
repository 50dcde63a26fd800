"""Projections paused, resumed and looked at while nothing runs, in a real Cassandra."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.integration.project.projections import (
    LATEST,
    LATEST_TABLE,
    SOME_EVENTS,
    TOTALS,
    TOTALS_TABLE,
    Projections,
    totals,
)
from tests.integration.support import Journal
from tidemark.context import RunContext
from tidemark.errors import TidemarkError
from tidemark.project.definition import catalog
from tidemark.project.management import pause as management
from tidemark.project.offset_store import management_state
from tidemark.project.offset_store.management_state import PauseState
from tidemark.project.offset_store.offsets import OffsetStore


@pytest.fixture
def projections(journal: Journal, tmp_path: Path) -> Projections:
    """Return two projections over the same events; three hours are validated."""
    two = Projections(journal, tmp_path)
    two.define(TOTALS, TOTALS_TABLE)
    two.define(LATEST, LATEST_TABLE, file="two.sql")
    two.insert(*SOME_EVENTS)
    two.validated(0, 1, 2)
    return two


def audited(projections: Projections) -> list[tuple[str, str, str]]:
    """Return (operation, subject without its keyspace, run id) of the audit rows, in order."""
    rows = sorted(projections.journal.own_rows("audit"), key=lambda row: row["at"].time)
    return [(row["operation"], row["subject"].partition("/")[2], row["run_id"]) for row in rows]


def test_paused_projection_is_left_out_and_resumed_it_takes_up_all_that_it_missed(
    projections: Projections,
) -> None:
    paused = projections.manage("pause", "totals", "--run-id", "r1")
    assert paused.status == 0, paused.stderr
    assert "totals: paused" in paused.stdout

    ran = projections.run(0, 3)
    assert ran.status == 0, ran.stderr
    assert "totals: left out, paused" in ran.stdout
    assert "project.py resume totals" in ran.stdout
    assert {name for name, *_ in projections.states()} == {"latest"}
    assert projections.journal.rows("totals") == []

    assert projections.manage("resume", "totals", "--run-id", "r2").status == 0
    assert projections.run(0, 3).report["pieces"]["done"] == 3
    assert projections.journal.rows("totals") == totals(SOME_EVENTS)
    assert audited(projections) == [("pause", "totals", "r1"), ("resume", "totals", "r2")]


def test_what_stands_so_already_is_said_and_leaves_no_audit_row(projections: Projections) -> None:
    assert "is not paused already, never paused" in projections.manage("resume", "totals").stdout
    assert projections.manage("pause", "totals").report["counts"] == {"changed": 1}
    again = projections.manage("pause", "totals", "latest")
    assert "totals: is paused already, paused " in again.stdout
    assert again.report["counts"] == {"changed": 1}
    assert [operation for operation, *_ in audited(projections)] == ["pause", "pause"]


def test_of_two_changes_at_once_one_loses_cleanly(
    projections: Projections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both changes read the same state before either writes."""
    settings = projections.journal.settings()
    settings = settings.model_copy(update={"projections_dir": projections.directory})
    both_have_read = threading.Barrier(2, timeout=60)
    read = management_state.pause_state

    def read_and_wait(*arguments: object) -> PauseState:
        row = read(*arguments)  # type: ignore[arg-type]
        if row.paused is None and threading.current_thread() is not threading.main_thread():
            both_have_read.wait()
        return row

    monkeypatch.setattr(management_state, "pause_state", read_and_wait)
    errors: list[TidemarkError] = []

    def pause(run_id: str) -> None:
        try:
            run = RunContext("project", settings, projections.journal.control, run_id)
            management.set_paused(run, ["totals"], paused=True)
        except TidemarkError as error:
            errors.append(error)

    threads = [threading.Thread(target=pause, args=(name,)) for name in ("r1", "r2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [error] = errors
    assert "projection totals was changed meanwhile: paused" in str(error)
    [definition] = catalog.select(projections.directory, ["totals"]).definitions
    assert read(OffsetStore(projections.journal.control, settings, definition)).paused
    assert len(audited(projections)) == 1


def test_status_says_what_is_open_since_when_and_why(projections: Projections) -> None:
    assert projections.run(0, 2, "--projection", "totals").status == 0
    projections.manage("pause", "latest")
    before = projections.states()
    result = projections.manage("status")
    assert result.status == 0, result.stderr
    lines = [line.strip() for line in result.stdout.splitlines()]
    at = lines.index("totals version 1: 2 done, 1 open")
    assert lines[at + 1] == "began with 2024-03-01 00:00"
    assert lines[at + 2] == "oldest open time bucket 2024-03-01 02:00, lag 1:00:00"
    at = lines.index("latest version 1: 3 open")
    assert lines[at + 1].startswith("paused ")
    assert lines[at + 2] == "not begun: it begins with the first time bucket that there is"
    assert lines[at + 3] == "oldest open time bucket 2024-03-01 00:00, lag 3:00:00"
    assert result.report["counts"] == {
        "projections": 2,
        "paused": 1,
        "validated_buckets": 3,
        "open_pieces": 4,
    }
    assert "starting Spark" not in result.stderr
    assert projections.states() == before


@pytest.mark.long
def test_status_shows_the_error_of_a_failed_piece_and_a_changed_definition(
    projections: Projections,
) -> None:
    assert projections.run(0, 3, "--projection", "totals").status == 0
    projections.define(TOTALS.replace("count(*)", "2 * count(*)"))
    projections.define(
        LATEST.replace("kind, amount", "kind, CAST(raise_error('boom') AS INT) AS amount"),
        file="two.sql",
    )
    assert projections.run(0, 1, "--projection", "latest").status != 0
    text = projections.manage("status").stdout
    assert "totals version 1: 3 changed, 3 open" in text
    assert "2024-03-01 00:00: " in text
    assert "boom" in text, text


@pytest.mark.parametrize("command", ["status", "pause", "resume"])
def test_unknown_projection_is_named_and_nothing_is_changed(
    projections: Projections, command: str
) -> None:
    result = projections.manage(command, "totals", "none")
    assert result.status == 2
    [line] = result.error_lines
    assert "no projection is named none" in line
    assert "latest, totals" in line
    assert projections.journal.control.table_columns(
        projections.journal.own_keyspace, management_state.TABLE
    ) is None or not projections.journal.own_rows(management_state.TABLE)
