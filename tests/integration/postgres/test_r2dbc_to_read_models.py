"""From a journal in PostgreSQL to a read model in PostgreSQL, in all modes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.postgres.databases import Database
from tests.integration.postgres.r2dbc_journal import START, R2dbcEvent, R2dbcJournal, event
from tests.integration.postgres.read_models import READ_MODELS, rows_in
from tests.integration.project.projections import HOUR_MS, START_MS, Projections
from tests.integration.support import Journal
from tidemark.partitioning import keys

HOUR = 3600


def move(pid: str, number: int, seconds: float, kind: str = "in", amount: int = 1) -> R2dbcEvent:
    return event(pid, number, seconds, kind=kind, amount=amount)


FIRST = [
    move("o|1", 1, 10),
    move("o|1", 2, 20, amount=10),
    move("o|2", 1, 30, amount=100),
    move("o|3", 1, 40),
    move("o|3", 2, 50, "gone"),
]
NEXT = [
    # Committed after the run of its hour.
    move("o|2", 2, HOUR - 60, "late", 1000),
    move("o|1", 3, HOUR + 10, "out", -1),
    # A persistence id that begins late.
    move("o|4", 1, HOUR - 30, amount=5),
]
LAST = [
    # Shown by the gap before the next event, which is far from its own hour.
    move("o|1", 4, 100, "late", 7),
    move("o|1", 5, 2 * HOUR + 10, amount=3),
    move("o|2", 3, 2 * HOUR + 20, "gone"),
]


def amount_of(row: R2dbcEvent) -> tuple[str, int]:
    fields = json.loads(row.payload)
    return fields["kind"], fields["amount"]


def by_id(events: Iterable[R2dbcEvent]) -> dict[str, list[R2dbcEvent]]:
    found: dict[str, list[R2dbcEvent]] = defaultdict(list)
    for row in sorted(events, key=lambda row: row.sequence_nr):
        found[row.persistence_id].append(row)
    return found


def latest(events: Iterable[R2dbcEvent]) -> list[tuple[Any, ...]]:
    last = [rows[-1] for rows in by_id(events).values()]
    return [
        (row.persistence_id, row.sequence_nr, *amount_of(row))
        for row in last
        if amount_of(row)[0] != "gone"
    ]


def log(events: Iterable[R2dbcEvent]) -> list[tuple[Any, ...]]:
    return [(row.persistence_id, row.sequence_nr, row.moment, *amount_of(row)) for row in events]


def totals(events: Iterable[R2dbcEvent]) -> list[tuple[Any, ...]]:
    sums: dict[tuple[int, str], list[int]] = defaultdict(list)
    for row in events:
        kind, amount = amount_of(row)
        hour = int((row.moment - START).total_seconds() // HOUR)
        sums[START_MS + hour * HOUR_MS, kind].append(amount)
    return [(*key, len(amounts), sum(amounts)) for key, amounts in sums.items()]


def balances(events: Iterable[R2dbcEvent]) -> list[tuple[Any, ...]]:
    found = []
    for pid, rows in by_id(events).items():
        kept: list[tuple[str, int]] | None = None
        for row in rows:
            kept = None if amount_of(row)[0] == "gone" else [*(kept or []), amount_of(row)]
        if kept is not None:
            total = sum(amount for _, amount in kept)
            found.append((pid, rows[-1].sequence_nr, total, [kind for kind, _ in kept]))
    return found


EXPECTED: dict[str, Callable[[Iterable[R2dbcEvent]], list[tuple[Any, ...]]]] = {
    "upsert": latest,
    "append": log,
    "bucket": totals,
    "fold": balances,
}


@pytest.fixture
def projections(
    make_journal: Callable[..., Journal],
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Projections:
    """Return projections over a journal in the schema that has the read models, too."""
    plugin = R2dbcJournal(database)
    plugin.create()
    for name, value in {**database.endpoint.environment(), **plugin.variables()}.items():
        monkeypatch.setenv(name, value)
    directory = tmp_path / "projections"
    directory.mkdir()
    return Projections(make_journal(), directory)


@pytest.mark.parametrize("mode", READ_MODELS)
def test_late_events_a_bad_hour_and_what_follows(
    mode: str, projections: Projections, database: Database
) -> None:
    model, plugin = READ_MODELS[mode], R2dbcJournal(database)
    columns = model.columns.format(
        key=model.key.replace("(", "").replace(")", ""), timestamp="timestamptz", texts="text[]"
    )
    database.execute(f"CREATE TABLE {model.table} ({columns})")
    projections.define(model.of_postgres(database), file=model.file)
    written: list[R2dbcEvent] = []
    for hour, events in enumerate((FIRST, NEXT, LAST)):
        plugin.insert(*events)
        written += events
        projections.validated(hour)
        result = projections.run(hour, hour + 1)
        assert result.status == 0, result
        expected = sorted(EXPECTED[mode](written), key=repr)
        assert rows_in(database, model.table) == expected, hour
    if mode == "bucket":
        database.execute(
            f"UPDATE {model.table} SET n = 17 WHERE time_bucket = %s", START_MS + HOUR_MS
        )
    again = projections.run(1, 2, "--force")
    assert again.status == 0, again
    assert rows_in(database, model.table) == expected


def test_offsets_that_are_taken_over_are_next_to_the_read_model(
    projections: Projections, database: Database
) -> None:
    model, plugin = READ_MODELS["append"], R2dbcJournal(database)
    columns = model.columns.format(key="persistence_id, sequence_nr", timestamp="timestamptz")
    database.execute(f"CREATE TABLE {model.table} ({columns})")
    projections.define(model.of_postgres(database), file=model.file)
    plugin.insert(*FIRST)
    consumed = FIRST[:1]
    for row in consumed:
        database.execute(
            "INSERT INTO akka_projection_timestamp_offset_store VALUES"
            " ('log', '0-1023', %s, %s, %s, %s, now())",
            *(keys.slice_of(row.persistence_id), row.persistence_id, row.sequence_nr, row.moment),
        )
    took = projections.manage("take-over", "log", "--other", "log", "--apply")
    assert took.status == 0, took.stderr
    assert took.report["counts"] == {"offsets_taken_over": 1}
    projections.validated(0)
    result = projections.run(0, 1)
    assert result.status == 0, result
    assert rows_in(database, model.table) == sorted(log(FIRST[1:]), key=repr)
    assert projections.journal.own_rows("projection_offset") == []
