"""What the real plugin writes into our tables: rows, markers, snapshots and offsets."""

from __future__ import annotations

from typing import Any

from tests.interop.akka import AkkaScene
from tests.interop.client import event
from tidemark.partitioning import keys

COLUMNS = (
    "slice, entity_type, persistence_id, seq_nr, event_ser_id, event_ser_manifest, event_payload,"
    " deleted, adapter_manifest, tags"
)


def rows(scene: AkkaScene) -> list[tuple[Any, ...]]:
    """Return the rows of the journal, except for their times and writers."""
    return scene.database.rows(
        f"SELECT {COLUMNS} FROM event_journal ORDER BY persistence_id, seq_nr"
    )


def row(pid: str, number: int, payload: str, *tags: str, serializer: int = 20) -> tuple[Any, ...]:
    key = (keys.slice_of(pid), keys.entity_type(pid), pid, number)
    return (*key, serializer, "", payload.encode(), False, "", sorted(tags) or None)


def marker(pid: str, number: int) -> tuple[Any, ...]:
    key = (keys.slice_of(pid), keys.entity_type(pid), pid, number)
    return (*key, 0, "", b"", True, "", None)


def test_events_have_the_columns_of_our_schema(akka_scene: AkkaScene) -> None:
    batch = [event("b-2", "red"), event("b-3"), event("b-4", "blue", "red")]
    text = {"Order|a": [[event("a-1", "red")], [event("a-2")]], "Order|b": [[event("b-1")], batch]}
    assert akka_scene.node.persist(text) == [2, 4]
    akka_scene.node.persist({"Cart|ä € 😀": [[event('{"n": 1}')]]}, as_bytes=True)
    akka_scene.node.persist({"plain": [[event("p-1")]]})
    sorted_tags = [(*found[:-1], found[-1] and sorted(found[-1])) for found in rows(akka_scene)]
    assert sorted_tags == [
        row("Cart|ä € 😀", 1, '{"n": 1}', serializer=4),
        row("Order|a", 1, "a-1", "red"),
        row("Order|a", 2, "a-2"),
        row("Order|b", 1, "b-1"),
        row("Order|b", 2, "b-2", "red"),
        row("Order|b", 3, "b-3"),
        row("Order|b", 4, "b-4", "blue", "red"),
        row("plain", 1, "p-1"),
    ]


def test_a_batch_has_one_time_and_each_write_a_later_one(akka_scene: AkkaScene) -> None:
    groups = [[event("1")], [event("2"), event("3"), event("4")], [event("5")]]
    akka_scene.node.persist({"Order|a": groups})
    times = [
        moment
        for (moment,) in akka_scene.database.rows(
            "SELECT db_timestamp FROM event_journal ORDER BY seq_nr"
        )
    ]
    assert times[0] < times[1] == times[2] == times[3] < times[4]
    akka_scene.database.execute(
        "UPDATE event_journal SET db_timestamp = '2030-01-01' WHERE seq_nr = 5"
    )
    akka_scene.node.persist({"Order|a": [[event("6")], [event("7"), event("8")]]})
    later = akka_scene.database.rows(
        "SELECT extract(microseconds FROM db_timestamp)::int FROM event_journal"
        " WHERE db_timestamp > '2029-01-01' ORDER BY seq_nr"
    )
    assert later == [(0,), (1,), (2,), (2,)]


def test_what_deletions_leave(akka_scene: AkkaScene) -> None:
    node = akka_scene.node
    ids = [f"Del|{name}" for name in ("front", "all", "reset")]
    node.persist({pid: [[event(f"e-{n}")] for n in (1, 2, 3)] for pid in ids})
    node.delete_events_to("Del|front", 2)
    node.delete_all_events("Del|all", reset=False)
    node.delete_all_events("Del|reset", reset=True)
    younger = "SELECT persistence_id FROM event_journal WHERE deleted AND db_timestamp > ALL"
    younger += " (SELECT db_timestamp FROM event_journal WHERE NOT deleted)"
    assert set(akka_scene.database.rows(younger)) == {("Del|front",), ("Del|all",)}
    assert node.persist({pid: [[event("new")]] for pid in ids}) == [4, 4, 1]
    assert rows(akka_scene) == [
        marker("Del|all", 3),
        row("Del|all", 4, "new"),
        marker("Del|front", 2),
        row("Del|front", 3, "e-3"),
        row("Del|front", 4, "new"),
        row("Del|reset", 1, "new"),
    ]
    writers = "SELECT DISTINCT writer <> '', deleted FROM event_journal"
    assert set(akka_scene.database.rows(writers)) == {(True, False), (False, True)}


def test_snapshots_and_retention(akka_scene: AkkaScene) -> None:
    akka_scene.node.persist({"Kept|a": [[event(f"e-{n}")] for n in range(1, 11)]}, snapshot_every=4)
    akka_scene.node.stop()
    [found] = akka_scene.database.rows(
        "SELECT slice, entity_type, persistence_id, seq_nr, ser_id, ser_manifest, snapshot,"
        " meta_ser_id, write_timestamp BETWEEN extract(epoch FROM now()) * 1000 - 600000"
        " AND extract(epoch FROM now()) * 1000 FROM snapshot"
    )
    pid = "Kept|a"
    assert found == (keys.slice_of(pid), "Kept", pid, 8, 20, "", b"e-8", None, True)
    numbers = [(number, is_deleted) for _, _, _, number, *_, is_deleted, _, _ in rows(akka_scene)]
    assert numbers[0][1]
    assert numbers[-2:] == [(9, False), (10, False)]


def test_replicated_ids(akka_scene: AkkaScene) -> None:
    akka_scene.node.persist({"Rep|p-0|R1": [[event("r-1", "red")]]})
    [found] = akka_scene.database.rows(
        "SELECT slice, entity_type, seq_nr, event_payload, tags, meta_ser_id, meta_ser_manifest"
        " FROM event_journal"
    )
    assert found == (keys.slice_of("Rep|p-0|R1"), "Rep", 1, b"r-1", ["red"], 40, "RE")


def test_a_projection_writes_a_row_of_offset_for_each_event(akka_scene: AkkaScene) -> None:
    ids = [f"Order|p-{nr}" for nr in range(8)]
    akka_scene.node.persist({pid: [[event("1")], [event("2")]] for pid in ids})
    projection = akka_scene.node.project("orders", "Order", ranges=4)
    akka_scene.wait_for_seen(16)
    projection.stop()
    wanted = sorted((pid, number) for pid in ids for number in (1, 2))
    assert akka_scene.seen() == wanted
    offsets = akka_scene.database.rows(
        "SELECT o.projection_name, o.projection_key, o.slice, o.persistence_id, o.seq_nr FROM"
        " akka_projection_timestamp_offset_store o JOIN event_journal e ON e.slice = o.slice"
        " AND e.persistence_id = o.persistence_id AND e.seq_nr = o.seq_nr"
        " AND e.db_timestamp = o.timestamp_offset"
    )
    keyed = [("orders", _key(pid, 4), keys.slice_of(pid), pid, nr) for pid, nr in wanted]
    assert sorted(offsets) == sorted(keyed)


def _key(pid: str, ranges: int) -> str:
    width = keys.NUMBER_OF_SLICES // ranges
    first = keys.slice_of(pid) // width * width
    return f"{first}-{first + width - 1}"
