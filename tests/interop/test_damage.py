"""Each kind of damage to the tag views of real actors, repaired by one run of tag-write.

Every kind has a tag of its own with two persistence ids: `<kind>|hurt` is damaged, `<kind>|well` is
not. Afterwards Pekko's readers and actors must behave as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.interop.client import Delivered, Event, Node, event
from tests.interop.conftest import SceneMaker
from tests.interop.support import Scene, complete, keyed, numbers
from tidemark.cassandra.control import Row

EVENTS = 6


def progress_lost(scene: Scene, kind: str) -> None:
    scene.delete("tag_write_progress", persistence_id=f"{kind}|hurt")


def progress_behind(scene: Scene, kind: str) -> None:
    """Set the progress back, as after a crash between tag_views and tag_write_progress."""
    set_progress(scene, kind, to=2)


def rows_without_progress(scene: Scene, kind: str) -> None:
    progress_lost(scene, kind)
    scene.delete("tag_scanning", persistence_id=f"{kind}|hurt")


def scanning_lost(scene: Scene, kind: str) -> None:
    scene.delete("tag_scanning", persistence_id=f"{kind}|hurt")


def tail_missing(scene: Scene, kind: str) -> None:
    """Delete the last rows, as after a crash between messages and tag_views."""
    delete_rows(scene, kind, first=5)
    set_progress(scene, kind, to=4)
    scene.journal.insert("tag_scanning", [{"persistence_id": f"{kind}|hurt", "sequence_nr": 4}])


def scanning_ahead(scene: Scene, kind: str) -> None:
    """Delete rows that tag_scanning and a snapshot cover, so that no recovery writes them."""
    delete_rows(scene, kind, first=3)
    set_progress(scene, kind, to=2)


def last_event_of_a_quiet_id_missing(scene: Scene, kind: str) -> None:
    delete_rows(scene, kind, first=EVENTS)
    set_progress(scene, kind, to=EVENTS - 1)


def rows_missing_and_progress_kept(scene: Scene, kind: str) -> None:
    """Delete rows that Pekko never writes again, because progress says that they exist."""
    delete_rows(scene, kind, first=2, last=4)


def all_rows_missing_and_progress_kept(scene: Scene, kind: str) -> None:
    delete_rows(scene, kind)


def everything_of_an_id_cleared(scene: Scene, kind: str) -> None:
    delete_rows(scene, kind)
    rows_without_progress(scene, kind)


def front_deleted_from_messages(scene: Scene, kind: str) -> None:
    """Let the actor delete its first events, whose rows stay, and lose the rows of the others."""
    delete_rows(scene, kind, first=4)
    set_progress(scene, kind, to=3)
    delete_front(scene, kind)


def front_deleted_and_progress_lost(scene: Scene, kind: str) -> None:
    """Delete the front and the progress, so that only the rows tell the number of past events."""
    progress_lost(scene, kind)
    delete_front(scene, kind)


def no_damage(scene: Scene, kind: str) -> None:
    """Damage nothing: correct rows stay as they are."""


DAMAGES: list[Callable[[Scene, str], None]] = [
    progress_lost,
    progress_behind,
    rows_without_progress,
    scanning_lost,
    tail_missing,
    scanning_ahead,
    last_event_of_a_quiet_id_missing,
    rows_missing_and_progress_kept,
    all_rows_missing_and_progress_kept,
    everything_of_an_id_cleared,
    front_deleted_from_messages,
    front_deleted_and_progress_lost,
    no_damage,
]
KINDS = [damage.__name__ for damage in DAMAGES]
NOTICED_BY_READERS = [
    "tail_missing",
    "scanning_ahead",
    "last_event_of_a_quiet_id_missing",
    "rows_missing_and_progress_kept",
    "all_rows_missing_and_progress_kept",
    "everything_of_an_id_cleared",
    "front_deleted_from_messages",
]


def rows_of(scene: Scene, kind: str) -> list[Row]:
    """Return the rows of the hurt id in tag_views, in sequence nr order."""
    rows = [r for r in scene.journal.rows("tag_views") if r["persistence_id"] == f"{kind}|hurt"]
    return sorted(rows, key=lambda row: row["sequence_nr"])


def delete_rows(scene: Scene, kind: str, first: int = 1, last: int = EVENTS) -> None:
    """Delete the rows of the sequence nrs from `first` to `last`."""
    key = ("tag_name", "timebucket", "timestamp", "persistence_id", "tag_pid_sequence_nr")
    for row in rows_of(scene, kind):
        if first <= row["sequence_nr"] <= last:
            scene.delete("tag_views", **{column: row[column] for column in key})


def delete_front(scene: Scene, kind: str) -> None:
    """Let the actor delete its first three events."""
    node = scene.open_untagged()
    node.delete_messages(f"{kind}|hurt", 3)
    node.stop()


def set_progress(scene: Scene, kind: str, to: int) -> None:
    """Set the progress to an event, as a tag writer does."""
    [row] = [r for r in scene.journal.rows("messages") if is_event(r, kind, to)]
    progress = {"sequence_nr": to, "tag_pid_sequence_nr": to, "offset": row["timestamp"]}
    key = {"persistence_id": f"{kind}|hurt", "tag": kind}
    scene.journal.insert("tag_write_progress", [{**key, **progress}])


def is_event(row: Row, kind: str, sequence_nr: int) -> bool:
    """Return whether a row has this event of the hurt id."""
    return bool(row["persistence_id"] == f"{kind}|hurt" and row["sequence_nr"] == sequence_nr)


@dataclass(frozen=True)
class Repaired:
    """The events that Pekko read before the damage, with it, and after tag-write, by its kind."""

    scene: Scene
    node: Node
    read_before: dict[str, list[Event]]
    read_damaged: dict[str, Delivered]
    rows_before: dict[str, list[Row]]
    rows_after: dict[str, list[Row]]
    read_after: dict[str, list[Event]]


@pytest.fixture(scope="module")
def repaired(make_scenes: SceneMaker) -> Iterator[Repaired]:
    scene = make_scenes("Hour")
    writer = scene.open_untagged()
    ids = [f"{kind}|{health}" for kind in KINDS for health in ("hurt", "well")]
    for number in range(1, EVENTS + 1):
        for persistence_id in ids:
            kind = persistence_id.split("|")[0]
            writer.persist(persistence_id, [[event(f"{number}", kind, "all")]])
            if kind == "scanning_ahead" and number == EVENTS:
                writer.snapshot(persistence_id)
    scene.close()
    scene.move_back()
    node = scene.rebuild_by_pekko(gap_timeout="500ms")
    scanned = [{"persistence_id": pid, "sequence_nr": EVENTS} for pid in ids]
    scene.journal.insert("tag_scanning", scanned)
    rows_before = scene.journal.tag_tables()
    read_before = {kind: complete(node.current(kind)) for kind in KINDS}
    for damage, kind in zip(DAMAGES, KINDS, strict=True):
        damage(scene, kind)
    read_damaged = {kind: node.current(kind) for kind in KINDS}
    scene.tag_write()
    rows_after = scene.journal.tag_tables()
    read_after = {kind: complete(node.current(kind)) for kind in KINDS}
    yield Repaired(scene, node, read_before, read_damaged, rows_before, rows_after, read_after)
    scene.close()


@pytest.mark.parametrize("kind", KINDS)
def test_readers_get_what_they_got_before(repaired: Repaired, kind: str) -> None:
    assert repaired.read_after[kind] == repaired.read_before[kind]
    assert len(repaired.read_after[kind]) == 2 * EVENTS
    if kind in NOTICED_BY_READERS:
        damaged = repaired.read_damaged[kind]
        assert damaged.failure or damaged.rows != repaired.read_before[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["tag_views", "tag_write_progress", "tag_scanning"])
def test_rows_are_those_of_before(repaired: Repaired, name: str, kind: str) -> None:
    before, after = (
        [row for row in tables[name] if row["persistence_id"].startswith(f"{kind}|")]
        for tables in (repaired.rows_before, repaired.rows_after)
    )
    assert after == before
    assert before


@pytest.mark.parametrize("kind", KINDS)
def test_actors_recover_and_everything_is_read_once(repaired: Repaired, kind: str) -> None:
    node, hurt = repaired.node, f"{kind}|hurt"
    assert node.recover(hurt) == EVENTS
    assert node.persist(hurt, [[event("more", kind)]]) == EVENTS + 1
    events = complete(node.current(kind))
    assert events[:-1] == repaired.read_before[kind]
    assert keyed(events[-1:]) == [(hurt, EVENTS + 1)]
    assert numbers(repaired.scene.journal.rows("tag_views"), hurt, kind) == [*range(1, EVENTS + 2)]
