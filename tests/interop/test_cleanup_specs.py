"""Pekko's CleanupSpec, by its names: cleaned up by us, then started again as real actors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from tests.integration.support import wait_until
from tests.interop.client import Node, event
from tests.interop.conftest import SceneMaker
from tests.interop.support import Scene, complete
from tidemark import clock
from tidemark.window import iso

MANY = [f"many{number}" for number in range(100)]
SEVERAL = ["several-a", "several-b", "several-c"]
ALL_AT_ONCE = ["all", *SEVERAL, *MANY]
SNAPSHOTS = {  # by persistence id: the options, the snapshots, those that stay
    "right-number": (("--keep", "2"), 3, [2, 3]),
    "fewer": (("--keep", "4"), 3, [1, 2, 3]),
    "fewer-after": (("--keep", "4", "--keep-after", "1970-01-01T00:00:01.5Z"), 3, [1, 2, 3]),
    "none": (("--keep", "2"), 0, []),
    "none-after": (("--keep", "2", "--keep-after", "1970-01-01T00:00:00.1Z"), 0, []),
    "newer": (("--keep", "2", "--keep-after", "1970-01-01T00:00:01.5Z"), 4, [2, 3, 4]),
    "older": (("--keep", "2", "--keep-after", "1970-01-01T00:00:05Z"), 4, [3, 4]),
}
THREE_BY_THREE = ("before-latest", "all-kept", "after-now")


@dataclass(frozen=True)
class Case:
    """What must be so of a persistence id once it is cleaned up.

    Attributes:
        pid: the persistence id.
        snapshot: what its actor recovers from.
        events: the sequence nrs that its actor replays behind it.
        last: its last sequence nr.
        left: the sequence nrs of the events in messages; by default those that are replayed.
        snapshots: the sequence nrs of the snapshots that are left.
    """

    pid: str
    snapshot: str = ""
    events: Sequence[int] = ()
    last: int = 0
    left: Sequence[int] | None = None
    snapshots: Sequence[int] = ()


CASES = {
    "delete events for one persistenceId": Case("never-again"),
    "delete events for one persistenceId, but keep seqNr": Case("kept-nr", last=10),
    "delete snapshots for one persistenceId": Case("snapshots", "", range(1, 9), 8),
    "delete tagged events for one persistenceId": Case("tagged", "", range(1, 11), 10),
    "delete all for one persistenceId": Case("all"),
    "delete some for one persistenceId": Case("some", "", (6, 7, 8), 8),
    "clean up before latest snapshot for one persistence id": Case(
        "before-latest", "6", (7, 8, 9), 9, snapshots=[6]
    ),
    "clean up before snapshot including timestamp that results in all events kept for one"
    " persistence id": Case("all-kept", "6", (7, 8, 9), 9, range(4, 10), [3, 6]),
    "clean up before snapshot including timestamp for one persistence id": Case(
        "after-now", "6", (7, 8, 9), 9, snapshots=[6]
    ),
    "delete all for several persistenceId": Case("several-a"),
    "delete all for many persistenceId, many events, many snapshots": Case("many99"),
    "keep the correct number of snapshots": Case("right-number", "3", last=3, snapshots=[2, 3]),
    "keep the all snapshots if fewer than requested without timestamp": Case(
        "fewer", "3", last=3, snapshots=[1, 2, 3]
    ),
    "keep the all snapshots if fewer than requested with timestamp": Case(
        "fewer-after", "3", last=3, snapshots=[1, 2, 3]
    ),
    "work without timestamp when there are no snapshots": Case("none"),
    "work with timestamp when there are no snapshots": Case("none-after"),
    "don't delete snapshots newer than the oldest date": Case(
        "newer", "4", last=4, snapshots=[2, 3, 4]
    ),
    "keep snapshots older than the oldest date to meet snapshotsToKeep": Case(
        "older", "4", last=4, snapshots=[3, 4]
    ),
}


def write(node: Node, pid: str, count: int, *tags: str) -> None:
    """Persist `count` events, each named after its sequence nr."""
    first = node.recover(pid) + 1
    node.persist(pid, [[event(f"evt-{nr}", *tags)] for nr in range(first, first + count)])


def write_all(scene: Scene, node: Node) -> None:
    """Write the histories of the spec, without actors left."""
    for pid in ("never-again", "kept-nr"):
        write(node, pid, 10)
    write(node, "snapshots", 3)
    node.snapshot("snapshots")
    write(node, "snapshots", 5)
    write(node, "tagged", 10, "tag-t")
    write(node, "some", 8)
    for pid in THREE_BY_THREE:
        for _ in range(2):
            write(node, pid, 3)
            node.snapshot(pid)
        write(node, pid, 3)
    write(node, "all", 3)
    node.snapshot("all")
    write(node, "all", 2, "tag-a")
    node.snapshot("all")
    write(node, "all", 3, "tag-b")
    for pid, tags in zip(SEVERAL, (["tag-a"], [], ["tag-c"]), strict=True):
        write(node, pid, 3, *tags)
        node.snapshot(pid)
        write(node, pid, 3, *tags)
    node.batch("many", len(MANY), 50, [], group=10)
    for pid, (_, count, _) in SNAPSHOTS.items():
        take(scene, pid, range(1, count + 1))
    for pid in MANY:
        take(scene, pid, range(10, 51, 10))
    wait_until(
        "progress of all tags",
        lambda: (
            {
                (row["persistence_id"], row["tag"]): row["sequence_nr"]
                for row in scene.journal.rows("tag_write_progress")
            }
            == {
                ("tagged", "tag-t"): 10,
                ("all", "tag-a"): 5,
                ("all", "tag-b"): 8,
                ("several-a", "tag-a"): 6,
                ("several-c", "tag-c"): 6,
            }
        ),
    )
    node.stop()


def take(scene: Scene, pid: str, numbers: Sequence[int]) -> None:
    """Store snapshots, each as old as its sequence nr in seconds since 1970."""
    scene.journal.insert(
        "snapshots",
        [
            {
                "persistence_id": pid,
                "sequence_nr": number,
                "timestamp": number * 1000,
                "ser_id": 20,
                "ser_manifest": "",
                "snapshot_data": str(number).encode(),
            }
            for number in numbers
        ],
    )


def clean_up(scene: Scene, command: str, pids: Sequence[str], *options: str) -> None:
    """Run a command of cleanup, which must succeed."""
    ids = [word for pid in pids for word in ("--persistence-id", pid)]
    result = scene.journal.run(
        "cleanup", command, *ids, *options, "--apply", SNAPSHOT_KEYSPACE=scene.journal.keyspace
    )
    assert result.status == 0, result.stderr


@pytest.fixture(scope="module")
def cleaned(
    make_scenes: SceneMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Scene, Node]]:
    """Yield a scene in which every persistence id is cleaned up, and a node whose actors start.

    There is no projection, which would hold the events that it has not consumed.
    """
    scene = make_scenes("Hour", PROJECTIONS_DIR=str(tmp_path_factory.mktemp("projections")))
    write_all(scene, scene.open())
    scene.close()
    clean_up(scene, "all-events", ["never-again"], "--never-use-again")
    clean_up(scene, "all-events", ["kept-nr"])
    clean_up(scene, "all-snapshots", ["snapshots"])
    clean_up(scene, "tagged-events", ["tagged"])
    clean_up(scene, "events-to", ["some"], "--to", "5")
    clean_up(scene, "all", ALL_AT_ONCE, "--never-use-again")
    before = ("--keep", "1", "--events")
    clean_up(scene, "before-snapshot", ["before-latest"], *before)
    clean_up(
        scene, "before-snapshot", ["all-kept"], *before, "--keep-after", "1970-01-01T00:00:00.1Z"
    )
    clean_up(scene, "before-snapshot", ["after-now"], *before, "--keep-after", iso(clock.now()))
    for pid, (options, _, _) in SNAPSHOTS.items():
        clean_up(scene, "before-snapshot", [pid], *options) if pid != "none" else clean_up(
            scene, "before-snapshot", [pid, "nobody"], *options
        )
    yield scene, scene.open()
    scene.close()


def numbers(scene: Scene, name: str, pid: str) -> list[int]:
    """Return the sequence nrs of a persistence id in a table, in order."""
    rows = scene.journal.rows(name)
    return sorted(row["sequence_nr"] for row in rows if row["persistence_id"] == pid)


@pytest.mark.parametrize("name", CASES)
def test_cleanup_spec(cleaned: tuple[Scene, Node], name: str) -> None:
    """What the actor recovers from, what is left, and that the actor carries on behind it."""
    scene, node = cleaned
    case = CASES[name]
    assert numbers(scene, "messages", case.pid) == list(
        case.events if case.left is None else case.left
    )
    assert numbers(scene, "snapshots", case.pid) == list(case.snapshots)
    if case.last == 0:
        listed = {row["persistence_id"] for row in scene.journal.rows("all_persistence_ids")}
        gone = {"all": ALL_AT_ONCE, "several-a": SEVERAL, "many99": MANY}.get(case.pid, [case.pid])
        assert listed.isdisjoint(gone)
        for table in ("messages", "metadata", "snapshots", "tag_views", "tag_write_progress"):
            kept = {row["persistence_id"] for row in scene.journal.rows(table)}
            assert kept.isdisjoint(gone), table
    if case.pid in ("tagged", "all"):
        tags = {"tagged": ["tag-t"], "all": ["tag-a", "tag-b"]}[case.pid]
        assert [complete(node.current(tag)) for tag in tags] == [[]] * len(tags)
    recovered = node.recovered_from(case.pid)
    assert recovered == (case.snapshot, [f"evt-{nr}" for nr in case.events], case.last)
    assert node.persist(case.pid, [[event("more")]]) == case.last + 1
    node.stop(case.pid)
    assert node.recovered_from(case.pid) == (
        case.snapshot,
        [*(f"evt-{nr}" for nr in case.events), "more"],
        case.last + 1,
    )
