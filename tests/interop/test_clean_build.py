"""Tidemark builds the tag views of a journal that real actors wrote; Pekko reads and carries on.

Pekko's own tag views of the same messages come from its Reconciliation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.integration.support import Journal
from tests.interop.client import Event, Node, event
from tests.interop.conftest import SceneMaker
from tests.interop.support import (
    Scene,
    all_tags,
    assert_progress,
    complete,
    keyed,
    numbers,
    read_all,
    tagged,
)
from tidemark.cassandra.control import Row
from tidemark.cassandra.schema import table

PARTITION_SIZE = 10
UNICODE = "ünï|✓ 日本"
FRONT_DELETED_TO = 4


@dataclass(frozen=True)
class Built:
    """A journal with Pekko's own rows and reads, and its reads after Tidemark's build."""

    scene: Scene
    node: Node
    of_pekko: dict[str, list[Row]]
    read_by_pekko: dict[str, list[Event]]
    of_tidemark: dict[str, list[Row]]
    read_after_us: dict[str, list[Event]]


@pytest.fixture(
    scope="module",
    params=["Minute", pytest.param("Hour", marks=pytest.mark.long), "Day"],
)
def built(request: pytest.FixtureRequest, make_scenes: SceneMaker) -> Iterator[Built]:
    scene = make_scenes(request.param, TARGET_PARTITION_SIZE=str(PARTITION_SIZE))
    write_everything(scene.open_untagged())
    scene.close()
    scene.move_back()
    add_metadata(scene.journal)
    node = scene.open()
    node.reconcile("rebuild")
    tags = all_tags(scene.journal)
    of_pekko, read_by_pekko = scene.journal.tag_tables(), read_all(node, tags)
    node.reconcile("truncate")
    scene.tag_write()
    of_tidemark, read_after_us = scene.journal.tag_tables(), read_all(node, tags)
    yield Built(scene, node, of_pekko, read_by_pekko, of_tidemark, read_after_us)
    scene.close()


def write_everything(node: Node) -> None:
    """Let actors persist singly and in groups, take snapshots, delete, and tag in every way."""
    for round_ in range(6):
        node.persist("one|by-one", [[event(f"o{round_}", "red")]])
        node.persist("some|untagged", [[event(f"s{round_}", *(["red"] if round_ % 2 else []))]])
        node.persist("never|tagged", [[event(f"n{round_}")]])
        node.persist(UNICODE, [[event(f"é{round_} ✓", "grün ✓", "red")]])
    # The groups end behind the edges of partitions 0, 1 and 2, so rows are one partition further.
    for size in (3, 7, 4, 9, 8):
        node.persist("groups|1", [[event(f"g{size}.{i}", "red", "blue") for i in range(size)]])
    node.persist("many|tags", [[event("m", *(f"tag-{n}" for n in range(12)))]])
    node.persist("snapshot|1", [[event(f"before {i}", "blue")] for i in range(5)])
    node.snapshot("snapshot|1")
    node.persist("snapshot|1", [[event(f"after {i}", "blue")] for i in range(3)])
    node.persist("snapshot|last", [[event(f"before {i}", "blue")] for i in range(3)])
    node.snapshot("snapshot|last")
    node.persist("front|deleted", [[event(f"f{i}", "red")] for i in range(9)])
    node.delete_messages("front|deleted", FRONT_DELETED_TO)


def add_metadata(journal: Journal) -> None:
    """Set the metadata of every third event, as typed actors do; on the others it stays unset."""
    for row in journal.rows("messages"):
        if row["sequence_nr"] % 3 == 0:
            journal.control.execute(
                f"UPDATE {table(journal.keyspace, 'messages')} SET meta_ser_id = 20,"
                " meta_ser_manifest = '', meta = ? WHERE persistence_id = ? AND partition_nr = ?"
                " AND sequence_nr = ? AND timestamp = ?",
                (
                    b"metadata",
                    *(row[key] for key in ("persistence_id", "partition_nr", "sequence_nr")),
                    row["timestamp"],
                ),
            )


def test_pekko_reads_of_our_views_what_it_reads_of_its_own(built: Built) -> None:
    assert built.read_after_us == built.read_by_pekko
    assert len(built.read_after_us) == 15
    for tag, events in built.read_after_us.items():
        assert keyed(events) == tagged(built.scene.journal, tag)
    assert {e.metadata for e in built.read_after_us["blue"]} == {"metadata", None}


def test_rows_are_those_of_pekkos_own_rebuild(built: Built) -> None:
    assert built.of_tidemark["tag_views"] == built.of_pekko["tag_views"]
    assert_progress(built.of_pekko, built.of_tidemark["tag_write_progress"])
    assert len(built.of_tidemark["tag_views"]) == 111


def test_rows_span_several_partitions_of_messages(built: Built) -> None:
    rows = [r for r in built.scene.journal.rows("messages") if r["persistence_id"] == "groups|1"]
    beyond = [r for r in rows if r["partition_nr"] > (r["sequence_nr"] - 1) // PARTITION_SIZE]
    assert {r["partition_nr"] for r in rows} == {0, 1, 2, 3}
    assert beyond


def test_reading_from_any_offset_gives_the_rest(built: Built) -> None:
    """Offsets are timeuuids, exclusive (EventsByTagSpec)."""
    everything = built.read_after_us["red"]
    for place in range(0, len(everything), 9):
        rest = complete(built.node.current("red", everything[place].offset))
        assert rest == everything[place + 1 :]


def test_actors_recover_from_our_progress_and_carry_on(built: Built) -> None:
    """Recovery writes no row twice; the actors' next events are read once, in their place."""
    node, journal = built.node, built.scene.journal
    before = journal.rows("tag_views")
    written: dict[str, Any] = {}
    for persistence_id in sorted({row["persistence_id"] for row in journal.rows("messages")}):
        last = node.recover(persistence_id)
        group = [event(f"more {n}", "red", "blue", "new") for n in range(2)]
        assert node.persist(persistence_id, [group, group[:1]]) == last + 3
        written[persistence_id] = [last + 1, last + 2, last + 3]
    after = journal.rows("tag_views")
    added = [(pid, nr) for pid, nrs in written.items() for nr in nrs]
    assert [
        row for row in after if (row["persistence_id"], row["sequence_nr"]) not in added
    ] == before
    for tag in ("red", "blue", "new"):
        events = complete(node.current(tag))
        assert events[: len(events) - len(added)] == built.read_after_us.get(tag, [])
        assert sorted(keyed(events[-len(added) :])) == sorted(added)
        for persistence_id in written:
            given = numbers(after, persistence_id, tag)
            assert given == list(range(1, len(given) + 1))
