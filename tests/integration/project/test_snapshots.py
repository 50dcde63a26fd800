"""Projections that start from snapshots, with Pekko's own table of snapshots."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.integration.project.fold_books import TABLE, books, define, fold
from tests.integration.project.projections import LATEST, LATEST_TABLE, START_MS, Projections, event
from tests.integration.support import Result
from tidemark.cassandra.schema import SCHEMA_DIR, create_tables

STATES = LATEST.replace("mode:", "start: snapshot\nmode:").replace("latest", "states")
STATES_TABLE = LATEST_TABLE.replace("latest", "states")


def move(pid: str, number: int, hours: float) -> Any:
    return event(pid, number, hours, kind="in", amount=1)


def snapshot(pid: str, number: int, hours: float, amount: int | None) -> Mapping[str, Any]:
    """Return a snapshot as Pekko writes it, or without an amount as its older releases did."""
    payload = json.dumps({"kind": "state", "amount": amount}).encode()
    serialized = {"ser_id": 20, "ser_manifest": "", "snapshot_data": payload}
    return {
        "persistence_id": pid,
        "sequence_nr": number,
        "timestamp": START_MS + int(hours * 3_600_000),
        **(serialized if amount is not None else {"snapshot": b"old"}),
    }


@pytest.fixture
def snapshots(projections: Projections) -> Projections:
    """Return projections with the snapshots' keyspace set to the journal's, without their table."""
    journal = projections.journal
    names = {"TIDEMARK_SNAPSHOT_KEYSPACE": journal.keyspace}
    journal.environment = {**journal.environment, **names}
    return projections


def take(projections: Projections, *snapshots: Mapping[str, Any]) -> None:
    projections.journal.insert("snapshots", snapshots)


def create_table(projections: Projections) -> None:
    journal = projections.journal
    create_tables(journal.control, SCHEMA_DIR / "pekko_snapshot.cql", journal.keyspace)


def delete_messages(projections: Projections, pid: str, to: int) -> None:
    """Delete as Pekko's deleteMessages does, which a snapshot's retention criteria call."""
    journal = projections.journal
    journal.control.execute_many(
        f"DELETE FROM {journal.keyspace}.messages"
        " WHERE persistence_id = ? AND partition_nr = 0 AND sequence_nr = ?",
        [(pid, number) for number in range(1, to + 1)],
    )
    journal.insert("metadata", [{"persistence_id": pid, "deleted_to": to}])


def states(projections: Projections) -> dict[str, tuple[int, str, int]]:
    return {
        row["persistence_id"]: (row["sequence_nr"], row["kind"], row["amount"])
        for row in projections.journal.rows("states")
    }


def frontiers(projections: Projections, name: str) -> dict[str, tuple[int, int | None]]:
    """Return the consumed number and the number of the first snapshot, by persistence id."""
    return {
        row["persistence_id"]: (row["sequence_nr"], row["snapshot_sequence_nr"])
        for row in projections.journal.own_rows("projection_offset")
        if row["projection"].endswith(f"/{name}")
    }


def ran(result: Result) -> dict[str, int]:
    assert result.status == 0, result.stderr
    return {name: number for name, number in result.report["counts"].items() if number}


def test_an_id_begins_with_its_newest_snapshot_before_the_window_ends(
    snapshots: Projections,
) -> None:
    snapshots.define(STATES.replace("event:", "on-error: skip\nevent:"), STATES_TABLE)
    missing = snapshots.run(1, 3)
    assert missing.status == 3
    assert "table snapshots does not exist" in missing.error_lines[0]

    create_table(snapshots)
    snapshots.insert(
        # The snapshot is before the projection's first bucket, and so are the events after it.
        *(move("a|1", number, 0.1 * number) for number in (1, 2, 3)),
        move("a|1", 4, 1.2),
        # One snapshot is too old, another too young.
        *(move("a|2", number, 1 + 0.1 * number) for number in range(1, 6)),
        # No snapshot.
        move("a|3", 1, 1.1),
        # All of its events are deleted; the hour of its snapshot is not validated yet.
        move("a|4", 1, 2.1),
        # A gap behind the snapshot.
        move("a|5", 4, 1.4),
        # The snapshot is in the older column.
        move("a|6", 1, 1.1),
        move("a|6", 2, 1.2),
    )
    delete_messages(snapshots, "a|4", 1)
    take(
        snapshots,
        snapshot("a|1", 1, 0.15, 101),
        snapshot("a|1", 2, 0.25, 102),
        snapshot("a|2", 1, 1.15, 101),
        snapshot("a|2", 3, 1.35, 103),
        snapshot("a|2", 5, 3, 105),
        snapshot("a|4", 1, 2.5, 101),
        snapshot("a|5", 2, 0.9, 102),
        snapshot("a|6", 1, 1.15, None),
    )
    snapshots.validated(0, 1)
    counts = ran(snapshots.run(1, 3))
    assert states(snapshots) == {
        "a|1": (4, "in", 1),
        "a|2": (5, "in", 1),
        "a|3": (1, "in", 1),
        "a|4": (1, "state", 101),
        "a|5": (2, "state", 102),
        "a|6": (2, "in", 1),
    }
    assert frontiers(snapshots, "states") == {
        "a|1": (4, 2), "a|2": (5, 3), "a|3": (1, None), "a|4": (1, 1), "a|5": (2, 2), "a|6": (2, 1),
    }  # fmt: skip
    # Read: 5 snapshots; a|1 3, 4; a|2 4, 5; a|3 1; a|6 2. Accepted are those in the hours done.
    assert counts == {
        "events_read": 11, "rows_written": 6, "quarantined": 1, "accepted": 6, "duplicate": 6,
        "rejected_seq_nr": 1, "snapshots": 5,
    }  # fmt: skip
    (letter,) = snapshots.journal.own_rows("quarantine")
    assert (letter["persistence_id"], letter["sequence_nr"]) == ("a|6", 1)
    assert letter["cause"] == "snapshot: snapshot_data is empty; the column snapshot is not read"

    # The next run finds new events by key. Later snapshots of known ids are ignored; the events
    # that the first snapshots stood for are not processed when their bucket is done again.
    snapshots.insert(move("a|5", 3, 1.3), move("a|3", 2, 2.2), move("a|7", 9, 2.3))
    snapshots.list_persistence_ids()
    take(snapshots, snapshot("a|3", 2, 2.4, 102), snapshot("a|7", 8, 2.2, 108))
    snapshots.validated(2)
    counts = ran(snapshots.run(1, 3, "--force"))
    assert counts["snapshots"] == 1
    assert (
        counts["events_read"] == 10
    )  # as above without a|1 3 and snapshots, and a|5 3 4, a|3 2, a|7
    now = states(snapshots)
    assert (now["a|3"], now["a|5"], now["a|7"]) == ((2, "in", 1), (4, "in", 1), (9, "in", 1))
    assert frontiers(snapshots, "states")["a|3"] == (2, None)
    assert frontiers(snapshots, "states")["a|7"] == (9, 8)


@pytest.mark.long
def test_a_fold_begins_with_the_snapshot_whatever_became_of_the_run_before(
    snapshots: Projections,
) -> None:
    journal = snapshots.journal
    source = {"persistence-ids": ["a|1", "a|2", "a|3"]}
    define(snapshots, fold(source=source, start="snapshot"), TABLE)
    create_table(snapshots)
    snapshots.insert(
        *(move("a|1", number, 0.1 * number) for number in (1, 2, 3)),
        move("a|1", 4, 1.2),
        *(move("a|2", number, 1 + 0.1 * number) for number in (1, 2, 3)),
        move("a|3", 1, 1.1),
    )
    delete_messages(snapshots, "a|1", 1)
    take(snapshots, snapshot("a|1", 2, 0.25, 100), snapshot("a|2", 2, 1.25, 100))
    snapshots.validated(0, 1, 2)
    assert ran(snapshots.run(1, 2))["snapshots"] == 2
    first = {"a|1": (4, 102, [-1, 2, 3, 4]), "a|2": (3, 101, [-1, 2, 3]), "a|3": (1, 1, [1])}
    assert books(snapshots) == first

    # The run died after the result: there is no offset, but a newer snapshot of a|2.
    journal.control.execute_many(
        f"DELETE FROM {journal.own_keyspace}.projection_offset"
        " WHERE projection = ? AND slice = ? AND persistence_id = ?",
        [
            (row["projection"], row["slice"], row["persistence_id"])
            for row in journal.own_rows("projection_offset")
        ],
    )
    snapshots.insert(move("a|2", 4, 1.5), move("a|2", 5, 1.6), move("a|3", 2, 1.7))
    take(snapshots, snapshot("a|2", 4, 1.55, 200))
    assert ran(snapshots.run(1, 2, "--force"))["snapshots"] == 2
    second = {"a|1": first["a|1"], "a|2": (5, 201, [-1, 4, 5]), "a|3": (2, 2, [1, 2])}
    assert books(snapshots) == second

    # A new version reads no events from before the snapshots, as none are left.
    delete_messages(snapshots, "a|1", 2)
    delete_messages(snapshots, "a|2", 4)
    define(snapshots, fold(source=source, start="snapshot", factor=10, version=2))
    snapshots.insert(*(move(pid, number, 2.1) for pid, number in (("a|1", 5), ("a|2", 6))))
    ran(snapshots.run(2, 3))
    assert books(snapshots) == {
        "a|1": (5, 1030, [-1, 2, 3, 4, 5]),
        "a|2": (6, 2020, [-1, 4, 5, 6]),
        "a|3": second["a|3"],
    }

    # An id that is set back keeps its first snapshot; a cleared id begins with the newest.
    back = ("set-offset", "books", "--persistence-id", "a|2", "--to", "4", "--apply")
    assert snapshots.manage(*back).status == 0
    assert frontiers(snapshots, "books")["a|2"] == (4, 4)
    assert snapshots.manage("clear", "books", "--apply").status == 0
    take(snapshots, snapshot("a|2", 6, 2.2, 300))
    assert ran(snapshots.run(2, 3))["snapshots"] == 2
    assert frontiers(snapshots, "books")["a|2"] == (6, 6)
