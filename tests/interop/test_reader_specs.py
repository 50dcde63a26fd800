"""The plugin's specs of eventsByTag: its reader over tag views that Tidemark wrote.

The plugin's own specs write rows straight into tag_views; here the events are written straight
into messages, at given times, and tag-write makes the rows. Each case has a tag of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest

from tests.interop.client import Delivered, LiveQuery, Node, event
from tests.interop.conftest import SceneMaker
from tests.interop.support import Scene, complete, keyed, numbers, wait_for
from tidemark.cassandra.control import Row
from tidemark.partitioning import keys
from tidemark.window import from_millis, to_millis

PAGE_SIZE = 3
FOREVER = "120s"
# The times of a case's events, in seconds since the start of the first Minute bucket.
PLACES: dict[str, list[float]] = {
    "one-tag": [1, 2, 3, 4],
    "paged": [1, 2, 3, 4],
    "previous-bucket": [421, 422],
    "three-buckets": [301, 302, 361, 421, 422],
    "live": [301, 361, 421],
    "never-comes": [61, 62, 63, 64],
    "one-missing": [61, 62, 63, 64],
    "three-missing": [61, 62, 63, 64, 65, 66],
    "two-missing-in-the-bucket-before": [61, 62, 115, 121],
    "missing-across-buckets": [61, 119, 120, 121],
    "first-seen-is-third": [61, 62, 63],
    "first-seen-is-third-first-in-the-bucket-before": [59, 61, 62],
    "many-at-once": [1.0] * 20,
}
MISSING = {
    "one-missing": [3],
    "three-missing": [3, 4, 5],
    "two-missing-in-the-bucket-before": [2, 3],
    "missing-across-buckets": [2, 3],
    "first-seen-is-third": [1, 2],
    "first-seen-is-third-first-in-the-bucket-before": [1, 2],
}


def messages(scene: Scene) -> Iterator[Row]:
    """Yield the events of every case."""
    for tag, seconds in PLACES.items():
        for number, second in enumerate(seconds, start=1):
            tags = [] if tag == "one-tag" and number == 2 else [tag]
            at = scene.first + timedelta(seconds=second)
            yield scene.message(f"p|{tag}", number, at, *tags)
    # Only 10 and 11 are left of this id, and progress counts the nine before.
    for number in (10, 11):
        at = scene.first + timedelta(seconds=300 + number)
        yield scene.message("p|from-ten", number, at, "from-ten")
    # Ids whose clocks disagree: the order of writing is not the order of time.
    for place in range(170):
        at = scene.first + timedelta(seconds=200 - place)
        yield scene.message(f"clock|{place}", 1, at, "clocks")
        yield scene.message(f"clock|{place}", 2, at + timedelta(seconds=120), "clocks")


@pytest.fixture(scope="module")
def scene(make_scenes: SceneMaker) -> Iterator[Scene]:
    """Yield a scene with Minute buckets, as in the plugin's specs."""
    made = make_scenes("Minute")
    made.journal.insert("messages", messages(made))
    ninth = {"sequence_nr": 9, "tag_pid_sequence_nr": 9}
    key = {"persistence_id": "p|from-ten", "tag": "from-ten"}
    offset = made.message("p|from-ten", 9, made.first)["timestamp"]
    made.journal.insert("tag_write_progress", [{**key, **ninth, "offset": offset}])
    made.tag_write()
    yield made
    made.close()


@pytest.fixture(scope="module")
def node(scene: Scene) -> Node:
    return scene.open(page_size=PAGE_SIZE, events_by_tag__gap_timeout="500ms")


def at(scene: Scene, seconds: float) -> UUID:
    """Return the lowest timeuuid of a time, after which a reader from a timestamp starts."""
    ticks = keys.epoch_ms_ticks(to_millis(scene.first + timedelta(seconds=seconds)))
    return UUID(int=UUID(keys.ticks_timeuuid(ticks, clock_sequence=0, node=0)).int & ~(2**64 - 1))


def remove(scene: Scene, tag: str, missing: list[int]) -> None:
    """Delete the rows of these sequence nrs from the view."""
    key = ("tag_name", "timebucket", "timestamp", "persistence_id", "tag_pid_sequence_nr")
    for row in scene.journal.rows("tag_views"):
        if row["tag_name"] == tag and row["sequence_nr"] in missing:
            scene.delete("tag_views", **{column: row[column] for column in key})


def expected(tag: str) -> list[tuple[str, int]]:
    return [(f"p|{tag}", number) for number in range(1, len(PLACES[tag]) + 1)]


def test_EventsByTagStageSpec_current_finds_only_events_of_the_tag_in_order(node: Node) -> None:
    assert keyed(complete(node.current("one-tag"))) == [("p|one-tag", nr) for nr in (1, 3, 4)]


def test_EventsByTagStageSpec_current_empty_tag_completes(node: Node) -> None:
    assert node.current("bogus") == Delivered([], None)


@pytest.mark.parametrize("tag", ["paged", "previous-bucket", "three-buckets", "many-at-once"])
def test_EventsByTagStageSpec_current_paging_and_buckets(node: Node, tag: str) -> None:
    """Tags hold an event more than a page; the bucket before; three buckets; one millisecond."""
    assert keyed(complete(node.current(tag))) == expected(tag)


def test_EventsByTagStageSpec_offset_in_old_buckets_without_search(
    scene: Scene, node: Node
) -> None:
    """The first numbers are 10 and 11, with an offset and without one."""
    for offset in (at(scene, 240), None):
        rows = complete(node.current("from-ten", offset))
        assert keyed(rows) == [("p|from-ten", 10), ("p|from-ten", 11)]
    assert numbers(scene.journal.rows("tag_views"), "p|from-ten", "from-ten") == [10, 11]


def test_EventsByTagStageSpec_missing_event_fails_until_repaired(scene: Scene, node: Node) -> None:
    before = node.current("never-comes")
    remove(scene, "never-comes", [3])
    failed = node.current("never-comes")
    assert failed.failure is not None
    assert failed.failure.type == "MissingTaggedEventException"
    assert failed.rows == before.rows[:2]
    scene.tag_write("--force", first=1, end=2)
    assert node.current("never-comes") == before
    assert keyed(complete(before)) == expected("never-comes")


def test_EventsByTagStageSpec_live_missing_events_arrive(scene: Scene) -> None:
    """Live readers hold back events behind a gap until tag-write fills it; all come in order."""
    node = scene.open(
        events_by_tag__gap_timeout=FOREVER, events_by_tag__new_persistence_id_scan_timeout=FOREVER
    )
    for tag, missing in MISSING.items():
        remove(scene, tag, missing)
    live: dict[str, LiveQuery] = {tag: node.live(tag) for tag in MISSING}
    for tag, missing in MISSING.items():
        wait_for(live[tag], missing[0] - 1)
    scene.tag_write("--force", first=0, end=3)
    for tag, query in live.items():
        wait_for(query, len(PLACES[tag]))
        assert keyed(complete(query.stop())) == expected(tag)


def test_EventsByTagStageSpec_live_finds_previous_buckets_and_new_events(scene: Scene) -> None:
    """This holds also for a tag that was empty when the query began."""
    node = scene.open()
    live, not_yet = node.live("live"), node.live("not-yet")
    assert node.persist("p|live", [[event("new", "live", "not-yet")]]) == 4
    wait_for(live, 4)
    assert keyed(complete(live.stop())) == [*expected("live"), ("p|live", 4)]
    wait_for(not_yet, 1)
    assert keyed(complete(not_yet.stop())) == [("p|live", 4)]


def test_EventsByTagSpec_from_timestamp_offset(scene: Scene, node: Node) -> None:
    """The reader gets the events at and after the time."""
    rows = complete(node.current("three-buckets", at(scene, 361)))
    assert keyed(rows) == expected("three-buckets")[2:]


def test_EventsByTagSpec_sorted_by_timestamp_although_written_in_another_order(node: Node) -> None:
    """EventsByTagFindDelayedEventsSpec: 170 ids whose clocks disagree."""
    rows = complete(node.current("clocks"))
    assert len(rows) == 340
    assert [row.offset.time for row in rows] == sorted(row.offset.time for row in rows)


def test_clock_that_went_back_is_read_as_of_pekkos_own_rows(make_scene: SceneMaker) -> None:
    """Two nodes wrote an id, and the clock of the second was behind (issue 706 of the plugin).

    Numbers follow sequence nrs, so a reader of old buckets meets a gap: the same one, with the
    same end, as in the rows of Pekko's own tag writers, which got each event by itself.
    """
    scene = make_scene("Hour")
    node = scene.open(events_by_tag__gap_timeout="300ms")
    for number, seconds in {1: 10, 2: 30, 3: 20, 4: 40}.items():
        at_time = scene.bucket(3) + timedelta(seconds=seconds)
        scene.journal.insert("messages", [scene.message("clock", number, at_time, "red")])
        assert node.recover("clock") == number
        scene.wait_for_tag_rows(number)
        node.stop("clock")
    of_pekko, read_by_pekko = scene.journal.rows("tag_views"), node.current("red")
    node.reconcile("truncate")
    scene.tag_write()
    assert scene.journal.rows("tag_views") == of_pekko
    assert numbers(of_pekko, "clock", "red") == [1, 2, 3, 4]
    assert node.current("red") == read_by_pekko


@pytest.mark.parametrize("bucket_size", ["Minute", "Hour", "Day"])
def test_TimeBucketSpec_rows_lie_where_pekko_looks(
    make_scene: SceneMaker, bucket_size: str
) -> None:
    """Rounding down, the bucket before, the next one, and both edges, at the time of the spec."""
    scene = make_scene(bucket_size, EVENTS_BY_TAG_FIRST_TIME_BUCKET="20140101T00:00")
    size_ms, rounded = scene.bucket_size.milliseconds, ROUNDED_DOWN[bucket_size]
    scene.first = from_millis(rounded - size_ms)
    at_ms = {rounded - 1: -1, rounded: 0, 1409545135047: 0, rounded + size_ms - 1: 0}
    at_ms[rounded + size_ms] = 1
    for number, epoch_ms in enumerate(at_ms, start=1):
        row = scene.message("p", number, from_millis(epoch_ms), "red")
        scene.journal.insert("messages", [row])
    scene.tag_write(first=0, end=3)
    rows = sorted(scene.journal.rows("tag_views"), key=lambda row: row["sequence_nr"])
    assert [row["timebucket"] for row in rows] == [
        rounded + buckets * size_ms for buckets in at_ms.values()
    ]
    live = scene.open().live("red")
    wait_for(live, len(at_ms))
    assert keyed(complete(live.stop())) == [("p", number) for number in range(1, 6)]


ROUNDED_DOWN = {"Day": 1409529600000, "Hour": 1409544000000, "Minute": 1409545080000}
