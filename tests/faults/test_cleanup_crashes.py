"""Each command of cleanup, killed with SIGKILL after each kind of write, then run again.

After the kill an actor must know what it knew before, or what it shall know: never a part of it.
After the second run the tables are those of an undisturbed run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.fencing import CHECK, Step, is_checked_before_each, traced
from tests.faults.killing import kill_after
from tests.faults.sample import sampled
from tests.faults.seams import Seam
from tests.integration.pekko_journals import write_as_pekko
from tests.integration.support import Journal
from tests.integration.tag_write.test_tag_write import message
from tidemark.cassandra.schema import SCHEMA_DIR, create_tables

TABLES = (
    "messages",
    "metadata",
    "all_persistence_ids",
    "snapshots",
    "tag_views",
    "tag_write_progress",
    "tag_scanning",
)
HIT = ("--persistence-id", "hit")
EVENTS = 12
TAKEN = (5, 9)
"""The sequence nrs of the snapshots."""
WHOLE = frozenset(range(1, EVENTS + 1))
DELETES = (
    Seam.DELETED_TO_WRITTEN,
    Seam.MESSAGE_PARTITIONS_DELETED,
    Seam.MESSAGE_RANGES_DELETED,
)
FORGETS = (Seam.IDS_UNLISTED, Seam.IDS_FORGOTTEN)
BOUNDARIES: dict[str, tuple[tuple[str, ...], tuple[Seam, ...]]] = {
    "events-to": (("events-to", *HIT, "--to", "10"), DELETES),
    "all-events": (("all-events", *HIT, "--never-use-again"), (*DELETES, *FORGETS)),
    "all-snapshots": (("all-snapshots", *HIT), (Seam.ALL_SNAPSHOTS_DELETED,)),
    "before-snapshot": (
        ("before-snapshot", *HIT, "--keep", "1", "--events"),
        (Seam.OLD_SNAPSHOTS_DELETED, *DELETES),
    ),
    "all": (
        ("all", *HIT, "--never-use-again"),
        (
            Seam.HISTORY_ENDED,
            Seam.TAG_WRITE_TAILS_FORGOTTEN,
            Seam.SCANNING_DELETED,
            Seam.PROGRESS_DELETED,
            Seam.ROWS_DELETED,
            Seam.MESSAGE_PARTITIONS_DELETED,
            Seam.MESSAGE_RANGES_DELETED,
            *FORGETS,
        ),
    ),
    "restore": (
        ("restore", "--from", "{saved}"),
        (
            Seam.EVENTS_RESTORED,
            Seam.SNAPSHOTS_RESTORED,
            Seam.IDS_LISTED,
            Seam.METADATA_RESTORED,
        ),
    ),
}
CASES = sampled(
    [(name, where) for name, (_, writes) in BOUNDARIES.items() for where in writes],
    {("before-snapshot", Seam.DELETED_TO_WRITTEN)},
)
State = dict[str, list[Any]]
Make = Callable[..., Journal]


def prepare(make: Make, directory: Path, name: str) -> Journal:
    """Return a journal of two persistence ids, each with twelve events and two snapshots.

    For `restore`, the events and snapshots before the last are deleted and saved.
    """
    journal = make(
        TARGET_PARTITION_SIZE="4", PROJECTIONS_DIR=str(directory), SAVE_DIRS=saved(directory)
    )
    create_tables(journal.control, SCHEMA_DIR / "pekko_snapshot.cql", journal.keyspace)
    pids = ("hit", "kept")
    write_as_pekko(
        journal,
        [
            message(pid, nr, nr, {"red"}, partition_nr=(nr - 1) // 4)
            for pid in pids
            for nr in range(1, EVENTS + 1)
        ],
    )
    journal.insert("all_persistence_ids", [{"persistence_id": pid} for pid in pids])
    journal.insert(
        "snapshots",
        [
            {"persistence_id": pid, "sequence_nr": nr, "timestamp": nr, "snapshot_data": b"s"}
            for pid in pids
            for nr in TAKEN
        ],
    )
    if name == "restore":
        clean_up(journal, (*BOUNDARIES["before-snapshot"][0], "--save-to", saved(directory)))
    return journal


def arguments_of(name: str, directory: Path) -> tuple[str, ...]:
    return tuple(word.format(saved=saved(directory)) for word in BOUNDARIES[name][0])


def saved(directory: Path) -> str:
    return str(directory.with_name(f"{directory.name}-saved"))


def state(journal: Journal) -> State:
    return {name: journal.rows(name) for name in TABLES}


def known(journal: Journal, pid: str) -> frozenset[int]:
    """Return the events of which an actor knows when it has recovered, as Pekko recovers."""
    of_id = {
        name: [row for row in journal.rows(name) if row["persistence_id"] == pid]
        for name in ("messages", "metadata", "snapshots")
    }
    newest = max((row["sequence_nr"] for row in of_id["snapshots"]), default=0)
    deleted_to = max((row["deleted_to"] or 0 for row in of_id["metadata"]), default=0)
    replayed = {row["sequence_nr"] for row in of_id["messages"]}
    return frozenset(range(1, newest + 1)) | {
        number for number in replayed if number > max(newest, deleted_to)
    }


@dataclass(frozen=True)
class Undisturbed:
    """All tables after a command, what the actor knows then, and the writes in their order."""

    state: State
    known: frozenset[int]
    trace: list[Step]


@pytest.fixture(scope="module")
def undisturbed(
    make_journals: Make, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Undisturbed]:
    """Return a function that runs a command in an undisturbed journal."""
    found: dict[str, Undisturbed] = {}

    def after(name: str) -> Undisturbed:
        if name not in found:
            directory = tmp_path_factory.mktemp("projections")
            _, writes = BOUNDARIES[name]
            journal = prepare(make_journals, directory, name)
            before = state(journal)
            with pytest.MonkeyPatch.context() as patched:
                trace = traced(patched, writes)
                clean_up(journal, arguments_of(name, directory))
            found[name] = Undisturbed(state(journal), known(journal, "hit"), trace)
            assert found[name].state != before
            assert known(journal, "kept") == WHOLE
        return found[name]

    return after


def clean_up(journal: Journal, arguments: tuple[str, ...]) -> None:
    result = journal.run("cleanup", *arguments, "--apply", SNAPSHOT_KEYSPACE=journal.keyspace)
    assert result.status == 0, result.stderr


@pytest.mark.long
@pytest.mark.parametrize("name", BOUNDARIES)
def test_before_each_write_it_asks_whether_it_still_holds_its_locks(
    undisturbed: Callable[[str], Undisturbed], name: str
) -> None:
    trace, (_, writes) = undisturbed(name).trace, BOUNDARIES[name]
    assert [step for step in dict.fromkeys(trace) if step != CHECK] == list(writes)
    assert is_checked_before_each(trace), trace


@pytest.mark.parametrize(("name", "boundary"), CASES)
def test_killed_after_a_write_and_run_again(
    make_journal: Make,
    undisturbed: Callable[[str], Undisturbed],
    tmp_path: Path,
    name: str,
    boundary: Seam,
) -> None:
    arguments = arguments_of(name, tmp_path)
    killed = prepare(make_journal, tmp_path, name)
    kill_after(
        killed, boundary, "cleanup", *arguments, "--apply", SNAPSHOT_KEYSPACE=killed.keyspace
    )
    knows = known(killed, "hit")
    assert knows in (WHOLE, undisturbed(name).known)
    clean_up(killed, arguments)
    assert state(killed) == undisturbed(name).state
