"""The plugin's recovery, restart, crash and scanning specs, on tag views that Tidemark built.

The first events of every id are written with events-by-tag disabled, and their tag views by
tag-write; after that real actors carry on from our progress rows. Ids are named after the cases.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.client import Node, event
from tests.interop.conftest import SceneMaker
from tests.interop.support import Scene, complete, numbers, wait_for

TAKEN_OVER = 4
SCANNED = [f"scanned-{number}" for number in range(25)]
CASES = (
    "another-node",
    "views-missing",
    "before-a-snapshot",
    "snapshot-at-the-last-event",
    "restarts",
    "stopped-before-written",
    "stopped-then-restarted",
    "crashes",
)


@pytest.fixture(scope="module")
def scene(make_scenes: SceneMaker) -> Iterator[Scene]:
    """Yield a scene with Day buckets, whose ids have the events e-1 to e-4 in our tag views."""
    made = make_scenes("Day")
    writer = made.open_untagged()
    for persistence_id in CASES:
        first = 1
        if persistence_id == "before-a-snapshot":
            write(writer, persistence_id, 1, 2)
            writer.snapshot(persistence_id)
            first = 3
        write(writer, persistence_id, first, TAKEN_OVER)
    writer.snapshot("snapshot-at-the-last-event")
    for persistence_id in SCANNED:
        writer.persist(persistence_id, [[event("msg")]])
    made.close()
    made.move_back()
    made.tag_write()
    yield made
    made.close()


def write(node: Node, persistence_id: str, first: int, last: int) -> None:
    """Persist e-first to e-last, one by one, tagged with the id itself."""
    node.persist(
        persistence_id, [[event(f"e-{n}", persistence_id)] for n in range(first, last + 1)]
    )


def read(node: Node, persistence_id: str) -> list[str]:
    """Return the payloads of the id's tag, read to the end without a failure."""
    return [row.payload for row in complete(node.current(persistence_id))]


def payloads(last: int) -> list[str]:
    return [f"e-{n}" for n in range(1, last + 1)]


def assert_numbered(scene: Scene, persistence_id: str, last: int) -> None:
    rows = scene.journal.rows("tag_views")
    assert numbers(rows, persistence_id, persistence_id) == list(range(1, last + 1))


def test_EventsByTagRecoverySpec_continue_tag_sequence_nrs(scene: Scene) -> None:
    """Rows 1-4 are ours; 5-8 come from one node, 9-12 from another, 13-16 from the first again."""
    persistence_id = "another-node"
    first_node, second_node = scene.open(), scene.open()
    for node, first in ((first_node, 5), (second_node, 9), (first_node, 13)):
        write(node, persistence_id, first, first + 3)
        node.stop(persistence_id)
    live = scene.open().live(persistence_id)
    wait_for(live, 16)
    assert [row.payload for row in complete(live.stop())] == payloads(16)
    assert_numbered(scene, persistence_id, 16)


@pytest.mark.parametrize("persistence_id", ["views-missing", "before-a-snapshot"])
def test_EventsByTagRecoverySpec_recover_tag_if_missing(scene: Scene, persistence_id: str) -> None:
    """The actor writes our rows again unchanged, including events before a snapshot."""
    of_us = [r for r in scene.journal.rows("tag_views") if r["tag_name"] == persistence_id]
    for row in of_us:
        scene.delete("tag_views", tag_name=row["tag_name"], timebucket=row["timebucket"])
    for name in ("tag_write_progress", "tag_scanning"):
        scene.delete(name, persistence_id=persistence_id)
    node = scene.open()
    write(node, persistence_id, 5, 8)
    assert read(node, persistence_id) == payloads(8)
    rows = [r for r in scene.journal.rows("tag_views") if r["tag_name"] == persistence_id]
    assert [row for row in rows if row["sequence_nr"] <= TAKEN_OVER] == of_us
    assert len(of_us) == TAKEN_OVER


def test_EventsByTagRecoverySpec_snapshot_is_for_the_latest_sequence_nr(scene: Scene) -> None:
    node = scene.open()
    write(node, "snapshot-at-the-last-event", 5, 5)
    assert read(node, "snapshot-at-the-last-event") == payloads(5)
    assert_numbered(scene, "snapshot-at-the-last-event", 5)


def test_EventsByTagRestartSpec_continue_tag_sequence_nrs_for_restarts(scene: Scene) -> None:
    node = scene.open()
    for restart in range(10):
        first = TAKEN_OVER + 1 + restart * 10
        write(node, "restarts", first, first + 9)
        node.stop("restarts")
    assert read(node, "restarts") == payloads(104)
    assert_numbered(scene, "restarts", 104)


def test_EventsByTagRestartSpec_no_wrong_number_when_stopped_prematurely(scene: Scene) -> None:
    """The stopped actor's event may have a row or not, but no row with a wrong number."""
    persistence_id = "stopped-before-written"
    node = scene.open()
    node.recover(persistence_id)
    node.persist_and_stop(persistence_id, [[event("e-5", persistence_id)]])
    assert read(node, persistence_id) in (payloads(4), payloads(5))
    given = numbers(scene.journal.rows("tag_views"), persistence_id, persistence_id)
    assert given in ([1, 2, 3, 4], [1, 2, 3, 4, 5])


def test_EventsByTagRestartSpec_right_numbers_when_stopped_and_restarted(scene: Scene) -> None:
    """Issue 562 of the plugin."""
    persistence_id = "stopped-then-restarted"
    node = scene.open()
    node.recover(persistence_id)
    node.persist_and_stop(persistence_id, [[event("e-5", persistence_id)]])
    write(node, persistence_id, 6, 7)
    assert read(node, persistence_id) == payloads(7)
    assert_numbered(scene, persistence_id, 7)


def test_EventsByTagCrashSpec_crashes_of_the_persistent_actor(scene: Scene) -> None:
    """The actor crashes 20 times, with 5 events after each crash."""
    node = scene.open()
    for crash in range(20):
        first = TAKEN_OVER + 1 + crash * 5
        node.crash("crashes")
        write(node, "crashes", first, first + 4)
    assert read(node, "crashes") == payloads(104)
    assert_numbered(scene, "crashes", 104)


def test_TagScanningSpec_scanning_of_many_persistent_actors(scene: Scene) -> None:
    """Untagged events are scanned over too; a recovering actor does not move scanning back."""
    node = scene.open()
    for persistence_id in SCANNED:
        assert node.recover(persistence_id) == 1
    rows: list[dict[str, Any]] = scene.journal.rows("tag_scanning")
    scanned = {row["persistence_id"]: row["sequence_nr"] for row in rows}
    assert {persistence_id: scanned[persistence_id] for persistence_id in SCANNED} == dict.fromkeys(
        SCANNED, 1
    )
