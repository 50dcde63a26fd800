"""A projection of akka-projection-r2dbc and one of Tidemark continue after each other."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.integration.project.projections import Projections
from tests.integration.support import wait_until
from tests.interop.akka import AkkaScene
from tests.interop.test_r2dbc_source import moves, over_akka, run
from tidemark.partitioning import keys

__all__ = ["over_akka"]

LOG = """\
/*---
name: log
version: 1
source: {entity-types: [Order]}
mode: append
target: {keyspace}.log
event: amount INT
---*/

SELECT persistence_id, sequence_nr, amount FROM events
"""
LOG_TABLE = """\
CREATE TABLE {keyspace}.log (persistence_id text, sequence_nr bigint, amount int,
    PRIMARY KEY ((persistence_id), sequence_nr))"""
IDS = [f"Order|{nr}" for nr in range(12)]
Numbers = list[tuple[str, int]]


def logged(projections: Projections) -> Numbers:
    """Return the events in the table of Tidemark's projection, sorted."""
    rows = projections.journal.rows("log")
    return sorted((row["persistence_id"], row["sequence_nr"]) for row in rows)


def project_some(scene: AkkaScene, ranges: int, limit: int, new: Numbers) -> None:
    """Let the projection handle at most `limit` of the new events in each slice range."""
    width = keys.NUMBER_OF_SLICES // ranges
    by_range = Counter(keys.slice_of(pid) // width for pid, _ in new)
    before = len(scene.seen())
    projection = scene.node.project("orders", "Order", ranges, limit)
    scene.wait_for_seen(before + sum(min(limit, number) for number in by_range.values()))
    projection.stop()


def exchange(projections: Projections, *arguments: str) -> int:
    """Run take-over or hand-over; return the number of offsets."""
    result = projections.manage(arguments[0], "log", *arguments[1:], "orders", "--apply")
    assert result.status == 0, result.stderr
    [number] = result.report["counts"].values()
    return int(number)


def test_half_of_the_events_each_in_4_then_8_then_2_ranges(
    akka_scene: AkkaScene, over_akka: Projections
) -> None:
    over_akka.define(LOG, LOG_TABLE)
    scene, node = akka_scene, akka_scene.node
    written: Numbers = []

    def write(hour: int, *ids: str) -> Numbers:
        """Let each id write two events at a time of the hour."""
        numbers = node.persist({pid: moves(1, 2) for pid in ids})
        scene.move_to(hour)
        new = [(pid, nr) for pid, last in zip(ids, numbers, strict=True) for nr in (last - 1, last)]
        written.extend(new)
        return new

    # Akka begins in four ranges, and stops half-way.
    project_some(scene, 4, 3, write(0, *IDS))
    first = scene.seen()
    assert 3 < len(first) < len(written)
    assert exchange(over_akka, "take-over", "--other") == len({pid for pid, _ in first})
    run(over_akka, 0, 1)
    assert logged(over_akka) == sorted(set(written) - set(first))

    # Tidemark goes on for an hour, and Akka continues in eight ranges, again half-way.
    write(1, *IDS[:6], "Order|new-1")
    run(over_akka, 1, 2)
    assert sorted([*scene.seen(), *logged(over_akka)]) == sorted(written)
    assert exchange(over_akka, "hand-over", "--other") == len(IDS) + 1
    project_some(scene, 8, 2, write(2, *IDS, "Order|new-1", "Order|new-2"))
    second = scene.seen()
    assert len(first) < len(second)
    assert sorted([*second, *logged(over_akka)]) != sorted(written)
    assert not set(second) & set(logged(over_akka))
    exchange(over_akka, "take-over", "--other")
    run(over_akka, 2, 3)
    assert sorted([*second, *logged(over_akka)]) == sorted(written)

    # The rest is Akka's, in two ranges.
    exchange(over_akka, "hand-over", "--other")
    project_some(scene, 2, 1000, write(3, *IDS, "Order|new-3"))
    assert sorted([*scene.seen(), *logged(over_akka)]) == sorted(written)


@pytest.mark.parametrize(
    "akka_scene",
    [
        {
            "akka.projection.r2dbc.offset-store.keep-number-of-entries": 0,
            "akka.projection.r2dbc.offset-store.delete-interval": "300 ms",
        }
    ],
    indirect=True,
)
def test_offsets_that_the_projection_has_deleted(
    akka_scene: AkkaScene, over_akka: Projections
) -> None:
    """It deletes rows by the newest row of its slice range, except for the newest of each slice."""
    over_akka.define(LOG, LOG_TABLE)
    scene, node = akka_scene, akka_scene.node
    first, second = [pid for nr in range(9999) if keys.slice_of(pid := f"Order|{nr}") == 7][:2]
    other = next(pid for nr in range(9999) if keys.slice_of(pid := f"Order|{nr}") == 8)
    for pid in (first, second):
        node.persist({pid: moves(1)})
    scene.move_to(0)
    node.persist({other: moves(1)})
    scene.move_to(1)
    projection = node.project("orders", "Order", ranges=4)
    scene.wait_for_seen(3)
    query = "SELECT persistence_id FROM akka_projection_timestamp_offset_store"
    kept = {(second,), (other,)}
    wait_until("deleted offsets", lambda: set(scene.database.rows(query)) == kept)
    projection.stop()
    assert exchange(over_akka, "take-over", "--other") == 3
    node.persist({pid: moves(2) for pid in (first, second, other)})
    scene.move_to(2)
    run(over_akka, 0, 3)
    assert logged(over_akka) == sorted((pid, 2) for pid in (first, second, other))
