"""A run that is suspended between the check of its locks and a write, and wakes up too late.

Its successor has done the same work and more by then; what the first one sends at last changes no
row of it. Two real processes, each with its own Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.killing import suspend_sending, wait_for_locks, wake
from tests.faults.seams import Seam
from tests.faults.test_crashes import FLIGHTS_OF_TWO_DAYS
from tests.integration.flights import WINDOW, FlightsJournal
from tests.integration.support import Journal
from tests.integration.tag_write.test_tag_write import a_small_journal, message, window
from tidemark.cassandra.control import Row

PROBE = "z|1"
"""An id that is not there any more when the successor works: what is written of it came late."""
DELETES_FIRST = ("rebuild", "--persistence-id", "a|1", "--apply")


@contextmanager
def asleep(journal: Journal, seam: Seam, application: str, *arguments: str) -> Iterator[None]:
    """Have a run sleep before a seam for the block, which begins once its locks have expired.

    What it is about to send is sent anyway; then it must end since it has lost its locks.
    """
    process = suspend_sending(journal, seam, application, *arguments)
    try:
        wait_for_locks(journal)
        yield
    finally:
        stderr = wake(process)
    assert process.returncode == 1, stderr
    assert "nothing more was written; run again" in stderr or "lost the lock" in stderr, stderr


@pytest.mark.parametrize(
    ("seam", "name"),
    [
        (Seam.TAG_VIEWS_WRITTEN, "tag_views"),
        pytest.param(Seam.PROGRESS_WRITTEN, "tag_write_progress", marks=pytest.mark.long),
        pytest.param(Seam.SCANNING_WRITTEN, "tag_scanning", marks=pytest.mark.long),
    ],
)
def test_what_tag_write_sends_after_it_has_lost_its_locks_arrives_and_does_not_win(
    make_journal: Callable[..., Journal], seam: Seam, name: str
) -> None:
    journal = make_journal(LOCK_TTL="5")
    probes = [message(PROBE, number, hours=number / 10, tags={"red"}) for number in (1, 2)]
    journal.insert("messages", [*a_small_journal(), *probes])
    with asleep(journal, seam, "tag_write", *window(0, 6)):
        assert write_times(journal, name, PROBE) == []
        journal.control.execute(
            f"DELETE FROM {journal.keyspace}.messages"
            " WHERE persistence_id = ? AND partition_nr = 0",
            (PROBE,),
        )
        journal.insert("messages", [message("a|1", 12, hours=6.2, tags={"red"})])
        heir = journal.run("tag_write", *window(0, 8))
        assert heir.status == 0, heir.stderr
        expected = without_probe(journal)
    late = write_times(journal, name, PROBE)
    assert late
    assert max(late) < max(write_times(journal, name, "a|1"))
    assert without_probe(journal) == expected
    ids = {row["persistence_id"] for row in a_small_journal()}
    named = [option for one in ids for option in ("--persistence-id", one)]
    assert journal.run("reconcile", "check", *named).status == 0


def write_times(journal: Journal, name: str, persistence_id: str) -> list[int]:
    rows = journal.control.execute(
        f"SELECT persistence_id, WRITETIME(sequence_nr) AS at FROM {journal.keyspace}.{name}"
    )
    return [row["at"] for row in rows if row["persistence_id"] == persistence_id]


def without_probe(journal: Journal) -> dict[str, list[Row]]:
    return {
        name: [row for row in rows if row["persistence_id"] != PROBE]
        for name, rows in journal.tag_tables().items()
    }


@pytest.mark.parametrize(
    "seam",
    [
        pytest.param(Seam.SCANNING_DELETED, marks=pytest.mark.long),
        pytest.param(Seam.PROGRESS_DELETED, marks=pytest.mark.long),
        pytest.param(Seam.ROWS_DELETED, marks=pytest.mark.long),
        pytest.param(Seam.TAG_VIEWS_WRITTEN, marks=pytest.mark.long),
        pytest.param(Seam.PROGRESS_WRITTEN, marks=pytest.mark.long),
    ],
)
def test_what_rebuild_sends_after_it_has_lost_its_locks_changes_no_tag_view(
    make_journal: Callable[..., Journal], seam: Seam
) -> None:
    journal = make_journal(LOCK_TTL="5")
    journal.insert("messages", a_small_journal())
    assert journal.run("tag_write", *window(0, 6)).status == 0
    with asleep(journal, seam, "reconcile", *DELETES_FIRST):
        journal.insert("messages", [message("a|1", 12, hours=6.2, tags={"red"})])
        rebuilt = journal.run("reconcile", *DELETES_FIRST)
        assert rebuilt.status == 0, rebuilt.stderr
        heir = journal.run("tag_write", *window(0, 8))
        assert heir.status == 0, heir.stderr
        expected = journal.tag_tables()
    assert journal.tag_tables() == expected
    assert journal.run("reconcile", "check", "--all").status == 0


@pytest.mark.parametrize(
    "seam",
    [
        pytest.param(Seam.NEWEST_WRITTEN, marks=pytest.mark.long),
        pytest.param(Seam.OFFSETS_WRITTEN, marks=pytest.mark.long),
        pytest.param(Seam.CURSORS_WRITTEN, marks=pytest.mark.long),
        pytest.param(Seam.OLDER_ROWS_DELETED, marks=pytest.mark.long),
    ],
)
def test_what_a_run_sends_after_it_has_lost_its_locks_changes_no_read_model(
    make_journal: Callable[..., Journal], tmp_path: Path, seam: Seam
) -> None:
    loaded = FlightsJournal.create(make_journal, tmp_path / "p", FLIGHTS_OF_TWO_DAYS, LOCK_TTL="5")
    loaded.run_chain("tag_write", "validate")
    start, first, *_ = WINDOW
    with asleep(loaded.journal, seam, "project", start, first, "--window-end", "2013-01-02"):
        heir = loaded.journal.run("project", *WINDOW)
        assert heir.status == 0, heir.stderr
        expected = loaded.everything()
    assert loaded.everything() == expected
