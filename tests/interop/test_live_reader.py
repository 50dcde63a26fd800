"""Runs of tag-write while Pekko reads live, and journals whose tags only Tidemark writes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.integration.support import wait_until
from tests.interop.client import Event, Node, event
from tests.interop.conftest import SceneMaker
from tests.interop.support import (
    BUCKETS,
    Scene,
    all_tags,
    assert_progress,
    complete,
    keyed,
    read_all,
    wait_for,
)


def test_late_rows_are_found_by_a_live_readers_back_track(make_scene: SceneMaker) -> None:
    """EventsByTagSpecBackTracking: late events of an idle id and of one never seen, a bucket back.

    The reader has come to the present; a run of tag-write writes rows into the bucket before.
    """
    scene = make_scene("Day")
    yesterday = scene.bucket(BUCKETS)
    early, late = (yesterday + timedelta(hours=hours) for hours in (1, 20))
    scene.journal.insert("messages", [scene.message("idle", n, early, "red") for n in (1, 2)])
    scene.tag_write("--force", first=BUCKETS, end=BUCKETS + 1)
    node = scene.open(events_by_tag__back_track__long_interval="500ms")
    live = node.live("red")
    node.persist("busy", [[event("now", "red")]])
    wait_for(live, 3)
    scene.journal.insert(
        "messages",
        [scene.message(name, n, late, "red") for name, ns in LATE.items() for n in ns],
    )
    scene.tag_write("--force", first=BUCKETS, end=BUCKETS + 1)
    wait_for(live, 7)
    node.persist("idle", [[event("more", "red")]])
    node.persist("never-seen", [[event("more", "red")]])
    wait_for(live, 9)
    rows = complete(live.stop())
    assert keyed(rows)[:3] == [("idle", 1), ("idle", 2), ("busy", 1)]
    assert sorted(keyed(rows)) == sorted(keyed(complete(node.current("red"))))


LATE = {"idle": (3, 4), "never-seen": (1, 2)}


def test_tidemark_writes_all_tags_and_a_reader_follows_from_its_offset(
    make_scene: SceneMaker,
) -> None:
    """Pekko has events-by-tag disabled; each run of tag-write adds the events written since."""
    scene = make_scene("Minute")
    writer, reader = scene.open_untagged(), scene.open()
    read: list[Event] = []
    for first in (0, 4):
        for number in range(5):
            for persistence_id in ("a|1", "a|2", "a|3"):
                tags = ["red", "blue"] if number % 2 else ["red"]
                group = [event(f"{first}.{number}.{n}", *tags) for n in range(number)]
                if group:
                    writer.persist(persistence_id, [group])
        scene.move_back(first, first + 4)
        scene.tag_write(first=first, end=first + 4)
        new = complete(reader.current("red", read[-1].offset if read else None))
        assert len(new) == 30
        read += new
    assert complete(reader.current("red")) == read
    of_tidemark = scene.journal.tag_tables()
    everything = read_all(reader, all_tags(scene.journal))
    reader.reconcile("truncate")
    reader.reconcile("rebuild")
    of_pekko = scene.journal.tag_tables()
    assert of_pekko["tag_views"] == of_tidemark["tag_views"]
    assert_progress(of_pekko, of_tidemark["tag_write_progress"])
    assert read_all(reader, all_tags(scene.journal)) == everything


def test_live_reader_at_the_present_gets_no_rows_beyond_its_look_back(
    make_scene: SceneMaker,
) -> None:
    """Only a current query from the reader's offset gets them.

    A row in the previous bucket, which is within the look-back, shows that the reader has looked
    back since the older rows appeared.
    """
    scene = make_scene("Day")
    node = scene.open(events_by_tag__back_track__long_interval="500ms")
    tag(scene, ("old", 1, scene.bucket(1)), ("old", 2, scene.bucket(2)), end=3)
    live = node.live("red")
    wait_for(live, 2)
    tag(scene, ("old", 3, scene.bucket(4)), ("older", 1, scene.bucket(5)), first=3)
    scene.journal.insert("messages", [scene.message("previous", 1, scene.bucket(BUCKETS), "red")])
    scene.tag_write("--force", first=BUCKETS, end=BUCKETS + 1)
    wait_for(live, 3)
    delivered = complete(live.stop())
    assert keyed(delivered) == [("old", 1), ("old", 2), ("previous", 1)]
    restarted = complete(node.current("red", delivered[1].offset))
    assert keyed(restarted) == [("old", 3), ("older", 1), ("previous", 1)]


def test_live_reader_that_trails_tag_write_gets_every_row(make_scene: SceneMaker) -> None:
    """Its eventual-consistency delay keeps it before the rows that a run is yet to write."""
    scene = make_scene()
    tip = scene.bucket(4) + timedelta(minutes=10)
    tag(scene, ("a", 1, scene.bucket(2)), ("b", 1, scene.bucket(3)), end=4)
    live = trailing(scene, tip).live("red")
    wait_for(live, 2)
    ahead = tip + timedelta(seconds=5)
    new = [("a", 2, ahead), ("b", 2, ahead), ("c", 1, ahead), ("a", 3, ahead), ("c", 2, ahead)]
    tag(scene, *new, first=4)
    wait_for(live, 7)
    assert complete(live.stop()) == complete(scene.open().current("red"))


def test_repaired_row_fails_a_reader_that_lags_behind_and_a_restart_helps(
    make_scene: SceneMaker,
) -> None:
    """The reader, which is in an old bucket, looks back there and has not met the id of the row.

    From its last offset it goes on without the row; from an offset before the row it gets the row.
    """
    scene = make_scene()
    early, tip = scene.bucket(4), scene.bucket(4) + timedelta(minutes=40)
    tag(
        scene,
        ("repaired", 1, scene.bucket(0)),
        ("busy", 1, scene.bucket(3)),
        ("busy", 2, early + timedelta(minutes=10)),
        ("busy", 3, early + timedelta(minutes=30)),
        end=6,
    )
    node = scene.open()
    started = complete(node.current("red"))[1]
    lagging = trailing(scene, tip)
    live = lagging.live("red", started.offset)
    wait_for(live, 2)
    tag(scene, ("repaired", 2, early + timedelta(minutes=20)), first=6)
    wait_until("the failure of the live query", lambda: live.delivered().failure is not None)
    failed = live.stop()
    assert failed.failure is not None
    assert failed.failure.type.endswith("MissingTaggedEventException")
    assert keyed(failed.rows) == [("busy", 2), ("busy", 3)]
    assert keyed(complete(node.current("red", failed.rows[-1].offset))) == []
    again = complete(node.current("red", started.offset))
    assert keyed(again) == [("busy", 2), ("repaired", 2), ("busy", 3)]


def tag(
    scene: Scene, *events: tuple[str, int, datetime], first: int = 0, end: int = BUCKETS
) -> None:
    """Insert events (persistence id, sequence nr, time) of the tag red, and run tag-write."""
    scene.journal.insert("messages", [scene.message(*event, "red") for event in events])
    scene.tag_write(first=first, end=end)


def trailing(scene: Scene, tip: datetime) -> Node:
    """Start a node whose live readers are at `tip` now, by their eventual-consistency delay."""
    delay = datetime.now(UTC) - tip
    seconds = f"{round(delay.total_seconds())}s"
    return scene.open(
        events_by_tag__eventual_consistency_delay=seconds,
        events_by_tag__back_track__long_interval="500ms",
    )
