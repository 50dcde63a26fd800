"""Projections of Tidemark over a journal that the real plugin wrote, against the plugin's queries.

Mode fold lists the sequence nrs in folding order, mode bucket shows a row for each event.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.integration.project import fold_books
from tests.integration.project.fold_books import fold
from tests.integration.project.projections import Projections
from tests.interop.akka import AkkaScene, in_order
from tests.interop.client import Group, event

LISTED = """\
/*---
name: listed
version: 1
source: {entity-types: [Order, Cart]}
mode: bucket
target: {keyspace}.listed
event: amount INT
accept-sequence-number-reset-after: 10 s
---*/

SELECT time_bucket, persistence_id, sequence_nr, amount, concat_ws(',', array_sort(tags)) AS tags
FROM events
"""
LISTED_TABLE = """\
CREATE TABLE {keyspace}.listed (time_bucket bigint, persistence_id text, sequence_nr bigint,
    amount int, tags text, PRIMARY KEY ((time_bucket), persistence_id, sequence_nr))"""
ACCEPT = ('state="', 'deleted_before_consumed="accept",\n    state="')


def move(amount: int, *tags: str) -> dict[str, Any]:
    return event(json.dumps({"kind": "in", "amount": amount}), *tags)


def moves(*amounts: int) -> list[Group]:
    """Return transactions of one event each."""
    return [[move(amount)] for amount in amounts]


@pytest.fixture
def over_akka(akka_scene: AkkaScene, projections: Projections) -> Projections:
    """Return projections whose journal is the one that Akka writes."""
    journal = projections.journal
    journal.environment = {**journal.environment, **akka_scene.plugin.variables()}
    return projections


def run(projections: Projections, first: int, end: int, *options: str) -> None:
    projections.validated(*range(first, end))
    result = projections.run(first, end, *options)
    assert result.status == 0, result.stderr


def read_all(scene: AkkaScene, *entity_types: str) -> dict[str, list[tuple[int, int, str]]]:
    """Return number, amount and tags by id, in the order in which Akka's query delivers them."""
    found: dict[str, list[tuple[int, int, str]]] = {}
    for entity_type in entity_types:
        events = scene.node.current(entity_type)
        assert in_order(events) == in_order(sorted(events, key=lambda each: each.sequence_nr))
        for each in events:
            amount = json.loads(each.payload)["amount"]
            item = (each.sequence_nr, amount, ",".join(each.tags))
            found.setdefault(each.persistence_id, []).append(item)
    return found


def folded(projections: Projections, table: str) -> dict[str, tuple[list[int], int]]:
    """Return the numbers in folding order, and the sum of the amounts, by persistence id."""
    rows = projections.journal.rows(table)
    return {row["persistence_id"]: (list(row["folded"]), row["balance"]) for row in rows}


def of(events: dict[str, list[tuple[int, int, str]]]) -> dict[str, tuple[list[int], int]]:
    """Return what `folded` returns, computed from the events of Akka's query."""
    return {
        pid: ([number for number, _, _ in listed], sum(amount for _, amount, _ in listed))
        for pid, listed in events.items()
    }


def listed(projections: Projections) -> dict[str, list[tuple[int, int, str]]]:
    """Return what `read_all` returns, from the rows of the projection `listed`."""
    found: dict[str, list[tuple[int, int, str]]] = {}
    rows = sorted(projections.journal.rows("listed"), key=lambda row: row["sequence_nr"])
    for row in rows:
        item = (row["sequence_nr"], row["amount"], row["tags"])
        found.setdefault(row["persistence_id"], []).append(item)
    return found


def define(projections: Projections) -> None:
    """Define `books` over all events, `orders` over those of Order, and `listed`."""
    fold_books.define(projections, fold().replace(*ACCEPT), fold_books.TABLE)
    orders = fold(source={"entity-types": ["Order"]}).replace(*ACCEPT).replace("books", "orders")
    keyspace = projections.journal.keyspace
    (projections.directory / "orders.py").write_text(orders.replace("KEYSPACE", keyspace))
    projections.journal.control.execute_ddl(
        fold_books.TABLE.replace(".books", ".orders").format(keyspace=keyspace)
    )
    projections.define(LISTED, LISTED_TABLE)


def write(scene: AkkaScene, ids: Sequence[str], numbers: int) -> None:
    """Let each id write single events and batches, with all combinations of two tags."""
    tags = [("red",), ("blue", "red"), (), ("blue",)]
    scene.node.persist(
        {
            pid: [
                moves(*range(1, numbers))[nr - 1]
                if nr % 3
                else [move(10 * nr + extra, *tags[(nr + extra) % 4]) for extra in range(4)]
                for nr in range(1, numbers)
            ]
            for pid in ids
        }
    )


def test_the_events_are_those_of_akkas_queries(
    akka_scene: AkkaScene, over_akka: Projections
) -> None:
    define(over_akka)
    scene, node = akka_scene, akka_scene.node
    orders, carts = [f"Order|{nr}" for nr in range(7)], [f"Cart|{nr}" for nr in range(5)]
    write(scene, orders + carts, 6)
    node.persist({"Rep|p|R1": moves(1, 2), "Other|1": moves(5)})
    node.persist({"Byte|1": moves(1, 2, 3)}, as_bytes=True)
    node.persist({"Kept|1": moves(*range(1, 11))}, snapshot_every=4)
    # Before any run: a front is deleted, everything is deleted, and numbers begin again.
    node.delete_events_to("Order|1", 3)
    node.delete_all_events("Order|2", reset=False)
    node.delete_all_events("Order|3", reset=True)
    node.delete_all_events("Cart|4", reset=False)
    node.persist({"Order|2": moves(7), "Order|3": moves(8, 9)})
    node.stop()
    scene.move_to(0)
    # A fold over what is left of deleted ids.
    run(over_akka, 0, 1, "--accept-purged")
    types = ("Order", "Cart", "Rep", "Other", "Byte", "Kept")
    first = read_all(scene, *types)
    assert [number for number, _, _ in first["Order|1"]] == list(range(4, 9))
    assert [[number for number, _, _ in first[f"Order|{nr}"]] for nr in (2, 3)] == [[9], [1, 2]]
    assert folded(over_akka, "books") == of(first)
    assert folded(over_akka, "orders") == of(read_all(scene, "Order"))
    assert listed(over_akka) == read_all(scene, "Order", "Cart")

    # New events of old and new ids, and deletions of what is consumed.
    write(scene, [orders[0], carts[0], "Order|new"], 6)
    node.delete_events_to("Cart|0", 5)
    scene.move_to(1)
    run(over_akka, 1, 2, "--accept-purged")
    second = read_all(scene, *types)
    both = {pid: first.get(pid, []) + second[pid] for pid in second}
    unique = {pid: sorted(set(events)) for pid, events in both.items()}
    assert folded(over_akka, "books") == of(unique)
    assert listed(over_akka) == {pid: unique[pid] for pid in listed(over_akka)}
    run(over_akka, 2, 3, "--accept-purged")
    assert folded(over_akka, "books") == of(unique)


def test_numbers_that_begin_again_after_they_were_consumed(
    akka_scene: AkkaScene, over_akka: Projections
) -> None:
    over_akka.define(LISTED, LISTED_TABLE)
    scene, node = akka_scene, akka_scene.node
    node.persist({"Order|1": moves(1, 2, 3), "Order|2": moves(4)})
    scene.move_to(0)
    run(over_akka, 0, 1)
    before = listed(over_akka)
    assert before == read_all(scene, "Order")
    node.delete_all_events("Order|1", reset=True)
    node.persist({"Order|1": moves(11, 12), "Order|2": moves(5)})
    scene.move_to(1)
    run(over_akka, 1, 2)
    node.persist({"Order|1": moves(13)})
    scene.move_to(2)
    run(over_akka, 2, 3)
    newest = {
        pid: [item for item in items if item not in before[pid]]
        for pid, items in listed(over_akka).items()
    }
    after = read_all(scene, "Order")
    assert after["Order|1"] == [(1, 11, ""), (2, 12, ""), (3, 13, "")]
    assert newest == {"Order|1": after["Order|1"], "Order|2": after["Order|2"][1:]}
