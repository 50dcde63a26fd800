"""The plugin's Reconciliation and Cleanup specs, over tag views that Tidemark wrote.

Pekko's tools find our rows (they list tags from our progress rows and delete by our keys), and
tag-write restores the rows that they removed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.client import Node, event
from tests.interop.conftest import SceneMaker
from tests.interop.support import Scene, complete, keyed, numbers, read_all
from tidemark.cassandra.control import Row

EVENTS = 6
TAGS = ("tag1", "tag2", "tag3")


def write(node: Node, persistence_id: str, count: int, *tags: str) -> None:
    """Persist `count` events, one by one."""
    node.persist(persistence_id, [[event(f"event-{n}", *tags)] for n in range(1, count + 1)])


def of_ids(rows: list[Row], *persistence_ids: str) -> list[Row]:
    """Return the rows of these persistence ids."""
    return [row for row in rows if row["persistence_id"] in persistence_ids]


@pytest.fixture
def two_ids(make_scene: SceneMaker) -> Scene:
    """Return a scene of pid1 with tag1 and pid2 with three tags, in our tag views."""
    scene = make_scene("Hour")
    writer = scene.open_untagged()
    write(writer, "pid1", EVENTS, "tag1")
    write(writer, "pid2", EVENTS, *TAGS)
    scene.close()
    scene.move_back()
    scene.tag_write()
    return scene


def test_BuildTagView_TruncateAll_TagQuery_specs(two_ids: Scene) -> None:
    """Pekko truncates, then rebuilds pid1 and pid2: our rows are back, as after our own rebuild.

    TagQuerySpec, TruncateAllSpec, BuildTagViewForPersistenceIdSpec.
    """
    scene, node = two_ids, two_ids.open()
    ours, read = scene.journal.tag_tables(), read_all(node, TAGS)
    assert node.reconcile("tags", id="pid1") == ["tag1"]
    assert sorted(node.reconcile("tags", id="pid2")) == list(TAGS)
    assert sorted(set(node.reconcile("all_tags"))) == list(TAGS)

    node.reconcile("truncate")
    assert scene.journal.tag_tables() == {name: [] for name in ours}
    node.reconcile("rebuild", ids=["pid1"])
    assert scene.journal.rows("tag_views") == of_ids(ours["tag_views"], "pid1")
    node.reconcile("rebuild", ids=["pid2"])
    assert scene.journal.rows("tag_views") == ours["tag_views"]

    node.reconcile("truncate")
    scene.tag_write("--force")
    assert scene.journal.tag_tables() == ours
    assert read_all(node, TAGS) == read


def test_DeleteTagView_RebuildAllPersisetceIds_specs(two_ids: Scene) -> None:
    """Pekko deletes only the given id, which its actor's recovery restores, and so do we.

    DeleteTagViewForPersistenceIdSpec, RebuildAllPersisetceIdsSpec.
    """
    scene, node = two_ids, two_ids.open()
    ours, read = scene.journal.rows("tag_views"), complete(node.current("tag1"))
    node.reconcile("delete", ids=["pid2"], tag="tag1")
    of_pid1 = [("pid1", n) for n in range(1, EVENTS + 1)]
    assert keyed(complete(node.current("tag1"))) == of_pid1
    assert node.recover("pid2") == EVENTS
    scene.wait_for_tag_rows(len(ours))
    assert complete(node.current("tag1")) == read

    node.stop("pid2")
    node.reconcile("delete", ids=["pid1", "pid2"], tag="tag1")
    assert complete(node.current("tag1")) == []
    scene.delete("all_persistence_ids", persistence_id="pid2")
    scene.tag_write("--force")
    assert scene.journal.rows("tag_views") == ours
    assert complete(node.current("tag1")) == read
    node.reconcile("rebuild_all_persistence_ids")
    ids = [row["persistence_id"] for row in scene.journal.rows("all_persistence_ids")]
    assert sorted(ids) == ["pid1", "pid2"]


CLEANED = (
    "all-events",
    "events-to",
    "before-snapshot",
    "tagged-events",
    "never-again",
    "not-cleaned",
)
"""Persistence ids, named after their clean-up."""


@pytest.fixture(scope="module")
def cleaned(make_scenes: SceneMaker) -> Iterator[tuple[Scene, list[Row]]]:
    """Yield a scene after Pekko's clean-up of each id and a new tag-write, with our old rows."""
    scene = make_scenes("Hour")
    writer = scene.open_untagged()
    for persistence_id in CLEANED:
        write(writer, persistence_id, 4, persistence_id, "all")
        if persistence_id == "before-snapshot":
            writer.snapshot(persistence_id)
        write(writer, persistence_id, EVENTS - 4, persistence_id, "all")
    scene.close()
    scene.move_back()
    scene.tag_write()
    ours = scene.journal.rows("tag_views")
    node = scene.open()
    node.clean_up("delete_all_events", "all-events", never_use_again=False)
    node.clean_up("delete_events_to", "events-to", to=3)
    node.clean_up("cleanup_before_snapshot", "before-snapshot", keep=1)
    node.clean_up("delete_all_tagged_events", "tagged-events")
    node.clean_up("delete_all", "never-again", never_use_again=True)
    assert of_ids(scene.journal.rows("tag_views"), "tagged-events", "never-again") == []
    scene.tag_write("--force")
    yield scene, ours
    scene.close()


@pytest.mark.parametrize("persistence_id", CLEANED)
def test_CleanupSpec_rows_and_numbers_after_clean_up(
    cleaned: tuple[Scene, list[Row]], persistence_id: str
) -> None:
    """Rows of deleted messages stay unless Pekko deletes them; every message has its row."""
    scene, ours = cleaned
    left = [] if persistence_id == "never-again" else of_ids(ours, persistence_id)
    rows = of_ids(scene.journal.rows("tag_views"), persistence_id)
    assert [row for row in rows if row["sequence_nr"] <= EVENTS] == left


@pytest.mark.parametrize("persistence_id", CLEANED)
def test_CleanupSpec_actors_carry_on(cleaned: tuple[Scene, list[Row]], persistence_id: str) -> None:
    """Sequence nrs and tag pid sequence nrs go on, or start anew where Pekko forgot the id."""
    scene, _ = cleaned
    node = scene.open()
    before = 0 if persistence_id == "never-again" else EVENTS
    assert node.recover(persistence_id) == before
    write(node, persistence_id, 2, persistence_id)
    expected = list(range(1, before + 3))
    assert keyed(complete(node.current(persistence_id))) == [(persistence_id, n) for n in expected]
    assert numbers(scene.journal.rows("tag_views"), persistence_id, persistence_id) == expected
