"""Each operation of `reconcile` over tag views of real actors, unnoticed by readers and actors.

The earlier rows are Pekko's own: its Reconciliation wrote them from the messages of its actors.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.reconcile.test_check import DAMAGES, TAGS, lose
from tests.integration.support import Result
from tests.interop.client import Event, Node, event
from tests.interop.conftest import SceneMaker
from tests.interop.support import BUCKETS, Scene, complete, keyed, read_all
from tidemark.partitioning.keys import BucketSize
from tidemark.window import from_millis, to_millis

EVENTS = 10
READ = ("red", "blue ✓")
NO_DELAY = {"EVENTS_BY_TAG_EVENTUAL_CONSISTENCY_DELAY": "0"}
"""The delay of runs here: the actors are stopped, so that no write is in flight."""


def written_by_pekko(scene: Scene, *persistence_ids: str) -> Node:
    """Write ten events of each id in past time buckets, and their tag views by Pekko."""
    writer = scene.open_untagged()
    for number in range(1, EVENTS + 1):
        for persistence_id in persistence_ids:
            tags = sorted(TAGS[(number - 1) % 5])
            writer.persist(persistence_id, [[event(f"{persistence_id} {number}", *tags)]])
    scene.close()
    scene.move_back()
    node = scene.rebuild_by_pekko()
    scanned = [{"persistence_id": pid, "sequence_nr": EVENTS} for pid in persistence_ids]
    scene.journal.insert("tag_scanning", scanned)
    return node


def reconcile(scene: Scene, *arguments: str) -> Result:
    """Run an operation, which must succeed."""
    result = scene.journal.run("reconcile", *arguments, "--apply", **NO_DELAY)
    assert result.status == 0, result.stderr
    return result


def carries_on(node: Node, ids: list[str], before: dict[str, list[Event]]) -> None:
    """Let each actor recover and write another red event; every event must be read exactly once."""
    ends = {pid: node.recover(pid) for pid in ids}
    for pid in ids:
        assert node.persist(pid, [[event("more", "red")]]) == ends[pid] + 1
    after = read_all(node, READ)
    rows_before = len(before["red"])
    assert after["red"][:rows_before] == before["red"]
    assert sorted(keyed(after["red"][rows_before:])) == sorted((pid, ends[pid] + 1) for pid in ids)
    assert after["blue ✓"] == before["blue ✓"]
    node.stop(*ids)


def test_repair_of_every_damage(make_scene: SceneMaker) -> None:
    scene = make_scene("Hour", TARGET_PARTITION_SIZE="4")
    node = written_by_pekko(scene, *DAMAGES)
    before, rows = read_all(node, READ), scene.journal.tag_tables()
    for pid, (damage, _) in DAMAGES.items():
        damage(scene.journal, pid)
    assert node.current("red").failure or complete(node.current("red")) != before["red"]
    reconcile(scene, "repair")
    assert read_all(node, READ) == before
    assert scene.journal.rows("tag_views") == rows["tag_views"]
    assert scene.journal.rows("tag_write_progress") == rows["tag_write_progress"]
    carries_on(node, list(DAMAGES), before)


IDS = ["a|1", "a|2", "ü|✓"]


@pytest.fixture(scope="module")
def shared(make_scenes: SceneMaker) -> Iterator[tuple[Scene, Node]]:
    """Yield a journal whose actors write another event each after every operation."""
    scene = make_scenes("Hour", TARGET_PARTITION_SIZE="4")
    yield scene, written_by_pekko(scene, *IDS)
    scene.close()


def window(scene: Scene) -> tuple[str, ...]:
    bounds = (scene.bucket(2).isoformat(), scene.bucket(BUCKETS - 1).isoformat())
    return ("--window-start", bounds[0], "--window-end", bounds[1])


@pytest.mark.parametrize(
    "commands",
    [
        [("rebuild", "--all")],
        [("rebuild", "--persistence-id", "a|1")],
        [("rebuild", "--tag", "red")],
        [("rebuild",)],
        [("truncate",), ("rebuild", "--all")],
        [("delete", "--persistence-id", "a|1"), ("rebuild", "--persistence-id", "a|1")],
        [("delete", "--tag", "red"), ("rebuild", "--tag", "red")],
    ],
    ids=lambda commands: ", ".join(" ".join(command) for command in commands),
)
def test_what_is_rebuilt_is_read_as_before(
    shared: tuple[Scene, Node], commands: list[tuple[str, ...]]
) -> None:
    """A bare `rebuild` stands for a rebuild of time buckets."""
    scene, node = shared
    before, rows = read_all(node, READ), scene.journal.rows("tag_views")
    lose(scene.journal, "a|1")
    for command in commands:
        reconcile(scene, *command, *(window(scene) if command == ("rebuild",) else ()))
    assert scene.journal.rows("tag_views") == rows
    assert read_all(node, READ) == before
    carries_on(node, IDS, before)


def test_what_is_deleted_is_gone_until_its_actor_recovers(make_scene: SceneMaker) -> None:
    """The actor writes its rows again, as after Pekko's deleteTagViewForPersistenceIds."""
    scene = make_scene("Hour", TARGET_PARTITION_SIZE="4")
    node = written_by_pekko(scene, *IDS)
    before, rows = read_all(node, READ), scene.journal.rows("tag_views")
    lose(scene.journal, "a|1")
    reconcile(scene, "delete", "--persistence-id", "a|1", "--tag", "red")
    left = [key for key in keyed(before["red"]) if key[0] != "a|1"]
    assert keyed(complete(node.current("red"))) == left
    assert complete(node.current("blue ✓")) == before["blue ✓"]
    node.recover("a|1")
    scene.wait_for_tag_rows(len(rows))
    assert read_all(node, READ) == before
    carries_on(node, IDS, before)


def test_readers_accept_what_deletes_leave(make_scene: SceneMaker) -> None:
    """As propagate-deletes takes rows from the front only, any first number is followed by no gap.

    Readers start from the beginning, from the offset of every event that is left, and live.
    """
    scene = make_scene("Hour", TARGET_PARTITION_SIZE="4")
    node = written_by_pekko(scene, *IDS)
    before = read_all(node, READ)
    node.delete_messages("a|1", 6)
    node.delete_messages("ü|✓", EVENTS)
    node.stop(*IDS)
    reconcile(scene, "propagate-deletes", "--all")
    gone = {("a|1", n) for n in range(1, 7)}
    # For an id without events, the progress keeps the last number of each tag.
    gone |= {("ü|✓", n) for n in range(1, EVENTS + 1)}
    left = {
        tag: [e for e in events if (e.persistence_id, e.sequence_nr) not in gone]
        for tag, events in before.items()
    }
    assert read_all(node, READ) == left
    for tag, events in left.items():
        for place, e in enumerate(events):
            assert complete(node.current(tag, e.offset)) == events[place + 1 :]
    live = node.live("red")
    carries_on(node, IDS, left)
    assert complete(live.stop())[: len(left["red"])] == left["red"]


@pytest.mark.parametrize("size", ["Minute", "Day"])
def test_the_other_bucket_size_is_read_as_before(make_scene: SceneMaker, size: str) -> None:
    """Pekko is switched to the new table and size, and its actors carry on there."""
    scene = make_scene("Hour", TARGET_PARTITION_SIZE="4")
    before = read_all(written_by_pekko(scene, *IDS), READ)
    scene.close()
    result = reconcile(scene, "rebucket", "--to", size)
    new_table = f"tag_views_{size.lower()}"
    assert f'events-by-tag.table = "{new_table}"' in result.stdout
    to = BucketSize.parse(size)
    start = to_millis(scene.first) // to.milliseconds * to.milliseconds
    switched = Scene(scene.journal, scene.pekko, to, from_millis(start))
    node = switched.open(events_by_tag__table=new_table)
    try:
        assert read_all(node, READ) == before
        carries_on(node, IDS, before)
    finally:
        switched.close()
