"""Two processes on a piece, and applications that stop writing when their lock is lost."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.fencing import CHECK, is_checked_before_each, traced
from tests.faults.killing import wake
from tests.faults.seams import Seam
from tests.faults.test_crashes import lose_a_tag_row
from tests.integration.flights import WINDOW, FlightsJournal, defined, first_events
from tests.integration.flights import message as flight
from tests.integration.support import ROOT, Journal, wait_until
from tests.integration.tag_write.test_tag_write import a_small_journal, message, window
from tidemark.context import RunContext
from tidemark.tag_write import store

SCRIPT = ROOT / "spark_apps" / "tag_write.py"
WRITES = (
    Seam.UNWRITABLE_QUARANTINED,
    Seam.TAG_VIEWS_WRITTEN,
    Seam.PROGRESS_WRITTEN,
    Seam.SCANNING_WRITTEN,
    Seam.TAG_WRITE_TAILS_WRITTEN,
    Seam.LATE_ROWS_RECORDED,
    Seam.FINDINGS_WRITTEN,
    Seam.OLDER_FINDINGS_DELETED,
    Seam.VALIDATED_TAILS_WRITTEN,
    Seam.PARTITIONS_DELETED,
)
WRITES_OF_PROJECT = (
    Seam.EVENTS_QUARANTINED,
    Seam.EVENTS_RELEASED,
    Seam.ORIGIN_NOTED,
    Seam.GAPS_REPLACED,
    Seam.EXPORTED_BATCHES_REMOVED,
    Seam.EXPORTED_BUCKET_REMOVED,
    Seam.EXPORTED_BUCKET_REPLACED,
    Seam.BATCH_EXPORTED,
    Seam.OLDER_ROWS_DELETED,
    Seam.BUCKET_ROWS_WRITTEN,
    Seam.CURSORS_WRITTEN,
    Seam.EVENTS_APPENDED,
    Seam.NEWEST_WRITTEN,
    Seam.OFFSETS_WRITTEN,
)
"""Writes of every mode. A run over ranges of slices writes with its settling, which is fenced."""


def test_of_two_processes_on_one_piece_the_second_is_refused_and_a_late_one_writes_no_more(
    make_journal: Callable[..., Journal],
) -> None:
    """The first process is suspended after it has begun, as a machine that sleeps."""
    journal = make_journal(LOCK_TTL="5")
    journal.insert("messages", a_small_journal())
    asleep = journal.start(SCRIPT, *window(0, 6))
    wait_until("the first process to begin", lambda: states(journal) == {"running"})
    os.killpg(asleep.pid, signal.SIGSTOP)
    try:
        [holder] = {row["owner"] for row in journal.own_rows("lock")}
        refused = journal.run("tag_write", *window(0, 6))
        assert refused.status == 1
        assert f"is held by {holder} since" in refused.error_lines[0]
        assert journal.rows("tag_views") == []
        wait_until("its locks to expire", lambda: not journal.own_rows("lock"))
        heir = journal.run("tag_write", *window(0, 6))
        assert heir.status == 0, heir.stderr
        # If the first process wrote the row once more, it would reappear.
        lose_a_tag_row(journal)
        before = journal.tag_tables()
    finally:
        stderr = wake(asleep)
    assert asleep.returncode == 1, stderr
    assert "tag-write: error: " in stderr
    assert journal.tag_tables() == before
    assert states(journal) == {"done"}
    assert {row["attempt"] for row in journal.own_rows("piece")} == {2}


def states(journal: Journal) -> set[str]:
    return {row["state"] for row in journal.own_rows("piece")}


@pytest.mark.parametrize("command", ["tag_write", "reconcile"])
def test_a_run_whose_lock_is_taken_in_the_middle_writes_nothing_more(
    make_journal: Callable[..., Journal], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """The lock is taken right after the tag views are written; then only progress could follow."""
    journal = make_journal(LOCK_TTL="5")
    journal.insert("messages", a_small_journal())
    arguments = ("rebuild", "--all", "--apply") if command == "reconcile" else window(0, 6)
    lost = threading.Event()
    write, stop = store.write_tag_views, RunContext.stop_jobs

    def write_and_be_robbed(*values: Any, **options: Any) -> None:
        write(*values, **options)
        steal_locks(journal)
        wait_until("the loss to be noticed", lost.is_set)

    def stop_and_tell(run: RunContext) -> None:
        stop(run)
        lost.set()

    with monkeypatch.context() as patched:
        patched.setattr(store, "write_tag_views", write_and_be_robbed)
        patched.setattr(RunContext, "stop_jobs", stop_and_tell)
        robbed = journal.run(command, *arguments)
    assert robbed.status == 1
    assert "to thief" in robbed.error_lines[0]
    assert journal.rows("tag_views")
    assert journal.rows("tag_write_progress") == journal.rows("tag_scanning") == []
    assert {row["owner"] for row in journal.own_rows("lock")} == {"thief"}
    assert states(journal) <= {"running"}


def steal_locks(journal: Journal) -> None:
    for row in journal.own_rows("lock"):
        journal.control.execute(
            f"UPDATE {journal.own_keyspace}.lock SET owner = 'thief' WHERE resource = ?",
            [row["resource"]],
        )


def test_before_each_write_a_run_asks_whether_it_still_holds_its_locks(
    make_journal: Callable[..., Journal], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = make_journal(PROJECTIONS_DIR=str(tmp_path))
    poison = message("poison", 1, hours=0.1, tags={"red"}, event=None)
    journal.insert("messages", [*a_small_journal(), poison])
    journal.index_timestamps()
    trace = traced(monkeypatch, WRITES)
    assert journal.run("tag_write", *window(0, 6)).status == 0
    late = [message("a|1", 12, hours=0.2, tags={"red"}), message("a|1", 13, hours=6.2, tags=set())]
    journal.insert("messages", late)
    assert journal.run("tag_write", *window(6, 8)).report["counts"]["late_tag_rows"] == 1
    lose_a_tag_row(journal)
    assert journal.run("validate", *window(0, 6)).status == 3
    journal.run("validate", *window(0, 6))
    assert journal.run("purge", *window(0, 2), "--apply").status == 0
    assert set(trace) == {CHECK, *WRITES}
    assert is_checked_before_each(trace), trace


@pytest.mark.long
def test_before_each_write_project_asks_whether_it_still_holds_its_locks(
    make_journal: Callable[..., Journal], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs have all shipped projections, and an event that none can read at first."""
    journal = defined(make_journal, tmp_path / "p", "projections", "examples")
    for file in (tmp_path / "p").iterdir():
        text = file.read_text().replace('on_error="fail",', "")
        text = text.replace("    event=", '    on_error="skip",\n    event=')
        file.write_text(text.replace("\nevent:", "\non-error: skip\nevent:"))
    events = [flight(event) for event in first_events(60)]
    events[-1] = {**events[-1], "event": b"{"}
    journal.insert("messages", events)
    flights = FlightsJournal(journal, ())
    flights.run_chain("tag_write", "validate")
    trace = traced(monkeypatch, WRITES_OF_PROJECT)
    flights.run_chain("project")
    journal.insert("messages", [flight(first_events(60)[-1])])
    assert journal.run("project", *WINDOW, "--force").status == 0
    assert set(trace) == {CHECK, *WRITES_OF_PROJECT}
    assert is_checked_before_each(trace), trace
