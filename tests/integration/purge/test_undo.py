"""The copy that purge makes before it deletes, and the ways back, in a real Cassandra."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.pekko_journals import write_as_pekko
from tests.integration.support import Journal, Result
from tests.integration.tag_write.test_tag_write import message
from tests.unit.purge.test_undo_copies import after_writing
from tidemark.cassandra.schema import SCHEMA_DIR, create_tables

POLICIES = """\
policies:
  - {name: views, target: tag-views}
  - {name: left-over, target: deleted-events}
  - {name: snaps, target: snapshots, keep: 1}
  - {name: bad, target: quarantine, keep-days: 1}
"""
WRITTEN = {
    "messages": ("persistence_id, sequence_nr", "event"),
    "snapshots": ("persistence_id, sequence_nr", "timestamp"),
}
"""The tables that purge saves: what tells their rows apart, and the cell that tells the time."""
State = dict[str, list[Any]]


@pytest.fixture
def make(make_journal: Callable[..., Journal], tmp_path: Path) -> Callable[[], Journal]:
    """Return a maker of journals with every table that purge can save."""
    (tmp_path / "projections").mkdir()
    file = tmp_path / "retention.yaml"
    file.write_text(POLICIES)

    def made() -> Journal:
        journal = make_journal(
            TARGET_PARTITION_SIZE="4",
            PROJECTIONS_DIR=str(tmp_path / "projections"),
            RETENTION_FILE=str(file),
            SAVE_DIRS=str(tmp_path),
        )
        snapshots = {"TIDEMARK_SNAPSHOT_KEYSPACE": journal.keyspace}
        journal.environment = {**journal.environment, **snapshots}
        create_tables(journal.control, SCHEMA_DIR / "pekko_snapshot.cql", journal.keyspace)
        return journal

    return made


@pytest.fixture
def journal(make: Callable[[], Journal]) -> Journal:
    """Return a journal with something to delete for each policy."""
    journal = make()
    fill(journal)
    return journal


def fill(journal: Journal) -> None:
    """Write something to delete for each policy.

    The events up to 5 are deleted, and a crash has left 1 to 4 of them.
    """
    events = [message("p", nr, nr, {"red"}, partition_nr=(nr - 1) // 4) for nr in range(1, 11)]
    write_as_pekko(journal, [event for event in events if event["sequence_nr"] != 5])
    journal.insert("metadata", [{"persistence_id": "p", "deleted_to": 5}])
    snapshot = {"persistence_id": "p", "snapshot_data": b"s", "ser_id": 20}
    journal.insert("snapshots", [{**snapshot, "sequence_nr": n, "timestamp": n} for n in (6, 9)])


def state(journal: Journal) -> State:
    return {name: journal.rows(name) for name in (*WRITTEN, "metadata")}


def write_times(journal: Journal) -> State:
    found: State = {}
    for name, (key, cell) in WRITTEN.items():
        rows = journal.control.execute(
            f"SELECT {key}, WRITETIME({cell}) AS at FROM {journal.keyspace}.{name}"
        )
        found[name] = sorted(tuple(row.values()) for row in rows)
    return found


def purged(journal: Journal, *options: str, **variables: str) -> Result:
    result = journal.run("purge", "--apply", *options, **variables)
    assert result.status == 0, result.stderr
    return result


def restore(journal: Journal, saved: Path | str, *options: str) -> Result:
    return journal.run("cleanup", "restore", "--from", str(saved), *options)


def test_what_purge_has_saved_comes_back(journal: Journal, tmp_path: Path) -> None:
    """A relative directory is below the first of those for copies; tag views have no copy."""
    before = state(journal)
    planned = journal.run("purge", "--save-to", "saved")
    assert f"saved to file://{tmp_path}/saved first: left-over, snaps" in planned.stdout
    line = "nothing is saved of views; `tag_write.py --force` writes tag views again"
    assert line in planned.stdout
    assert not (tmp_path / "saved").exists()
    result = purged(journal, PURGE_SAVE_TO="saved")
    after = state(journal)
    assert [name for name in WRITTEN if after[name] == before[name]] == []
    assert journal.rows("tag_views") == []
    copies = {path.name for path in (tmp_path / "saved").iterdir()}
    run_id = result.report["run_id"]
    assert copies == {f"{run_id}-{name}" for name in ("left-over", "snaps")}

    plan = restore(journal, "saved")
    assert plan.status == 0, plan.stderr
    assert state(journal) == after
    done = restore(journal, "saved", "--apply")
    assert done.status == 0, done.stderr
    assert done.report["counts"] == {
        "events_restored": 4,
        "snapshots_restored": 1,
        "metadata_restored": 0,
        "ids_not_restored": 0,
    }
    assert done.report["counts"] == plan.report["counts"]
    assert state(journal) == before
    assert restore(journal, "saved", "--apply").report["state"] == "nothing-to-do"


def test_what_cannot_be_saved_is_not_deleted(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(journal)
    with monkeypatch.context() as patched:
        after_writing(patched, "messages", lambda part: part.unlink())
        lost = journal.run("purge", "--apply", "--save-to", "saved")
    assert lost.status == 1
    [line] = lost.error_lines
    assert "the copy cannot be read back: messages has" in line
    assert state(journal) == before
    file = tmp_path / "file"
    file.write_text("no directory")
    for directory, says in (
        (str(file), "what goes cannot be saved"),
        (" ", "directory is empty"),
        (f"{tmp_path}-evil", "is not in a directory for copies (--save-to)"),
        ("webhdfs://their.host/x", "is not in a directory for copies (--save-to)"),
    ):
        refused = journal.run("purge", "--apply", "--save-to", directory)
        assert refused.status != 0
        [line] = refused.error_lines
        assert says in line
    assert state(journal) == before


@pytest.mark.long
def test_into_another_keyspace_rows_keep_their_write_times(
    journal: Journal, make: Callable[[], Journal], tmp_path: Path
) -> None:
    before, written = state(journal), write_times(journal)
    purged(journal, "--save-to", str(tmp_path / "saved"))
    left = state(journal)
    other = make()
    refused = restore(other, tmp_path / "saved", "--apply")
    assert refused.status == 2
    assert f"the copy is of {journal.keyspace}" in refused.error_lines[0]
    result = restore(other, tmp_path / "saved", "--keep-write-times", "--apply")
    assert result.status == 0, result.stderr
    assert f"of {journal.keyspace} goes into {other.keyspace}" in result.stdout
    came, times = state(other), write_times(other)
    for name in WRITTEN:
        gone = [row for row in before[name] if row not in left[name]]
        assert came[name] == gone, name
        assert set(times[name]) == {row for row in written[name] if row in times[name]}, name
        assert len(times[name]) == len(gone)
    again = restore(other, tmp_path / "saved", "--keep-write-times", "--apply")
    assert again.report["state"] == "nothing-to-do", again.stdout


@pytest.mark.long
def test_rows_that_their_delete_hides_are_refused_with_their_number(
    journal: Journal, tmp_path: Path
) -> None:
    before = state(journal)
    purged(journal, "--save-to", str(tmp_path / "saved"))
    after = state(journal)
    refused = restore(journal, tmp_path / "saved", "--keep-write-times", "--apply")
    assert refused.status == 1
    [line] = refused.error_lines
    assert "5 rows are hidden at their old write times" in line
    assert "(gc_grace_seconds 864000)" in line
    assert f"{journal.keyspace}.messages, {journal.keyspace}.snapshots" in line
    assert "restore without --keep-write-times" in line
    assert state(journal) == after
    assert restore(journal, tmp_path / "saved", "--apply").status == 0
    assert state(journal) == before
