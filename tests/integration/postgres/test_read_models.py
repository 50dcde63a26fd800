"""Read models in PostgreSQL have the rows that the same definitions make in Cassandra."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from embedded.postgres.server import PostgresEndpoint
from tests.integration.postgres.databases import Database
from tests.integration.postgres.read_models import (
    READ_MODELS,
    UPSERT_COLUMNS,
    make_tables,
    rows_in,
)
from tests.integration.project.projections import Projections, event
from tests.integration.support import Journal
from tidemark.errors import LockLost, PostgresUnavailable
from tidemark.journals.pekko.series import Series
from tidemark.partitioning.slice_ranges import ALL
from tidemark.postgres.session import Session
from tidemark.postgres.transaction import Transaction, begun
from tidemark.project.definition import catalog
from tidemark.project.offset_store.offset_places import Offset
from tidemark.project.offset_store.postgres_offsets import PostgresOffsets
from tidemark.project.postgres import fence, states
from tidemark.project.postgres.place import PostgresPlace
from tidemark.settings import Settings

EVENTS = (
    event("a|1", 1, 0.1, kind="in", amount=1),
    event("a|1", 2, 0.2, kind="tab\there", amount=10),
    event("a|2", 1, 0.3, kind="back\\slash\n", amount=100),
    event("a|3", 1, 0.4, kind='quote"{},', amount=7),
    event("a|3", 2, 0.5, kind="gone"),
    event("a|2", 2, 1.1, kind="gone"),
    event("a|1", 3, 1.2, kind="in", amount=10_000),
    event("a|2", 3, 1.3, kind="in", amount=5),
)


@pytest.fixture
def projections(
    make_journal: Callable[..., Journal],
    tmp_path: Path,
    postgres: PostgresEndpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> Projections:
    for name, value in postgres.environment().items():
        monkeypatch.setenv(name, value)
    directory = tmp_path / "projections"
    directory.mkdir()
    return Projections(make_journal(), directory)


def in_cassandra(projections: Projections, table: str, columns: list[str]) -> list[tuple[Any, ...]]:
    rows = projections.journal.rows(table)
    values = [[row[name] for name in columns] for row in rows]
    return sorted(
        (
            tuple(v.replace(tzinfo=UTC) if hasattr(v, "tzinfo") else v for v in row)
            for row in values
        ),
        key=repr,
    )


@pytest.mark.parametrize("mode", READ_MODELS)
def test_both_databases_have_the_same_rows(
    mode: str, projections: Projections, database: Database
) -> None:
    model = READ_MODELS[mode]
    make_tables(model, database, projections)
    projections.insert(*EVENTS)
    projections.validated(0, 1)
    columns = [
        name
        for (name,) in database.rows(
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_schema = current_schema() AND table_name = %s ORDER BY ordinal_position",
            model.table,
        )
    ]

    projections.define(model.of_postgres(database), file=model.file)
    for first, end in ((0, 1), (1, 2)):
        result = projections.run(first, end)
        assert result.status == 0, result
    ours = rows_in(database, model.table)
    assert ours
    assert database.rows("SELECT count(*) FROM tidemark_projection_offset") == [(3,)]
    assert not database.rows(
        "SELECT tablename FROM pg_tables WHERE tablename LIKE 'tidemark_staging%%'"
    )
    name = f"{mode}_in_cassandra"
    definition = model.of_cassandra(projections.journal.keyspace)
    for old in ("latest", "log", "totals", "balances"):
        definition = definition.replace(f"name: {old}\n", f"name: {name}\n")
        definition = definition.replace(f'name="{old}"', f'name="{name}"')
    projections.define(definition, file=model.file)
    for first, end in ((0, 1), (1, 2)):
        result = projections.run(first, end)
        assert result.status == 0, result
    assert ours == in_cassandra(projections, model.table, columns)


def test_a_row_that_breaks_a_constraint_is_an_error_of_its_event(
    projections: Projections, database: Database
) -> None:
    model = READ_MODELS["upsert"]
    database.execute(
        f"CREATE TABLE latest ({UPSERT_COLUMNS}, CONSTRAINT small CHECK (amount < 1000))"
    )
    projections.insert(*EVENTS)
    projections.validated(0, 1)
    sql = model.of_postgres(database).replace("event:", "on-error: skip\nevent:", 1)
    projections.define(sql, file=model.file)
    result = projections.run(0, 2)
    assert result.status == 0, result
    assert [row[:2] for row in rows_in(database, "latest")] == [("a|1", 2), ("a|2", 3)]
    (letter,) = projections.journal.own_rows("quarantine")
    assert (letter["persistence_id"], letter["sequence_nr"]) == ("a|1", 3)
    assert 'violates check constraint "small"' in letter["cause"]


@pytest.mark.parametrize(
    ("mode", "kept", "quarantined"),
    [
        ("upsert", [("a|1", 2), ("a|2", 1)], [("a|1", 3)]),
        ("append", [("a|1", 1), ("a|1", 2), ("a|2", 1)], [("a|1", 3)]),
        # A state cannot leave out one event: all of this batch are left out.
        ("fold", [("a|2", 1)], [("a|1", 1), ("a|1", 2), ("a|1", 3)]),
    ],
)
def test_text_that_postgres_cannot_store_is_an_error_of_its_event(
    projections: Projections,
    database: Database,
    mode: str,
    kept: list[tuple[str, int]],
    quarantined: list[tuple[str, int]],
) -> None:
    model = READ_MODELS[mode]
    make_tables(model, database, projections)
    projections.insert(
        event("a|1", 1, 0.1, kind="in", amount=1),
        event("a|1", 2, 0.2, kind="in", amount=10),
        event("a|1", 3, 0.3, kind="no\0text", amount=100),
        event("a|2", 1, 0.4, kind="in", amount=7),
    )
    projections.validated(0, 1)
    definition = model.of_postgres(database)
    policy = ('    mode="fold",', '    mode="fold", on_error="skip",')
    if mode != "fold":
        policy = ("event:", "on-error: skip\nevent:")
    projections.define(definition.replace(*policy, 1), file=model.file)
    result = projections.run(0, 1)
    assert result.status == 0, result
    assert [row[:2] for row in rows_in(database, model.table)] == kept
    letters = projections.journal.own_rows("quarantine")
    assert sorted((row["persistence_id"], row["sequence_nr"]) for row in letters) == quarantined
    assert {row["cause"].partition(" in a row")[0] for row in letters} == {
        f"{'kinds' if mode == 'fold' else 'kind'} has the character U+0000"
    }


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_fold_counts_each_event_once_if_the_run_dies_around_commit(
    *,
    is_committed: bool,
    projections: Projections,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = READ_MODELS["fold"]
    make_tables(model, database, projections)
    projections.insert(*EVENTS)
    projections.validated(0, 1)
    projections.define(model.of_postgres(database), file=model.file)
    commit = Transaction.commit

    def die(transaction: Transaction, found: Callable[[Session], bool]) -> None:
        if is_committed:
            commit(transaction, found)
        raise PostgresUnavailable("the connection is lost")

    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "commit", die)
        assert projections.run(0, 2).status == 1
    stored = database.rows("SELECT count(*) FROM tidemark_projection_offset")
    assert stored == [(3 if is_committed else 0,)]
    result = projections.run(0, 2)
    assert result.status == 0, result
    assert [(row[0], row[1], row[2]) for row in rows_in(database, "balances")] == [
        ("a|1", 3, 10_011),
        ("a|2", 3, 5),
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda place: states.void(place, ["a|1"], 7),
        lambda place: PostgresOffsets(place).forget(range(1024)),
        lambda place: PostgresOffsets(place).set_offset(Offset(Series("a|1"), 0, 0)),
    ],
    ids=["void", "forget", "set-offset"],
)
def test_a_change_by_hand_takes_the_right_to_write_from_a_run(
    projections: Projections, database: Database, change: Callable[[PostgresPlace], None]
) -> None:
    """The run has lost its lock, or the change would have had to wait for it."""
    model = READ_MODELS["fold"]
    projections.define(model.of_postgres(database), file=model.file)
    [definition] = catalog.load(projections.directory)
    place = PostgresPlace.of(Settings.load(), definition)
    held = fence.take(place, definition, ALL, "a run")
    with begun(place.connection, idle_s=60) as transaction:
        held.hold(transaction, 1)
        transaction.commit(lambda opened: held.has_committed(opened, 1))
    change(place)
    with (
        begun(place.connection, idle_s=60) as transaction,
        pytest.raises(LockLost, match="another run writes"),
    ):
        held.hold(transaction, 2)
