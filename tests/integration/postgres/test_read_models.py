"""Read models in PostgreSQL have the rows that the same definitions make in Cassandra."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from embedded.postgres.server import PostgresEndpoint
from tests.integration.postgres.databases import Database
from tests.integration.postgres.read_models import READ_MODELS, make_tables, rows_in
from tests.integration.project.projections import Projections, event
from tests.integration.support import Journal

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
    print(
        database.rows("SELECT * FROM tidemark_projection_fence"),
        database.rows("SELECT * FROM tidemark_projection_offset"),
        database.rows("SELECT tablename FROM pg_tables WHERE tablename LIKE 'tidemark_stag%%'"),
        projections.states(),
        result,
    )
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
