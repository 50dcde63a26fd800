"""Runs of tag-write while Pekko reads live, and journals whose tags only Tidemark writes."""

from __future__ import annotations

from datetime import timedelta

from tests.interop.client import Event, event
from tests.interop.conftest import SceneMaker
from tests.interop.support import (
    BUCKETS,
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
