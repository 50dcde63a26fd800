"""What docs/r2dbc.md gives its readers to type, from a journal to a read model."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from uuid import uuid4

import pytest
from psycopg import sql

from embedded.postgres.server import PostgresEndpoint
from tests.docs_commands import ROOT
from tests.integration.postgres.databases import Database, drop_role
from tests.integration.postgres.r2dbc_journal import R2dbcJournal, event
from tests.integration.support import Journal

PAGE = ROOT / "docs" / "r2dbc.md"
PASSWORD = "a word's %40 & more"
DAYS = {"2026-11-01": "2024-03-01", "2026-12-01": "2024-03-02"}
"""The days of the page, and those of the events here."""


@pytest.fixture
def database(postgres: PostgresEndpoint) -> Iterator[Database]:
    """Yield the schema `public` of a new database, of a superuser."""
    name = sql.Identifier(f"t_{uuid4().hex[:12]}")
    with postgres.session() as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(name))
        yield Database(replace(postgres, database=name.as_string().strip('"')), "public")
        server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


@pytest.fixture
def user(database: Database) -> Iterator[PostgresEndpoint]:
    """Yield the server as the page's user sees it, whom the test has to make."""
    name = f"tidemark_{uuid4().hex[:8]}"
    yield replace(database.endpoint, username=name, password=PASSWORD)
    drop_role(database, name)


def steps(language: str) -> list[str]:
    """Return the code blocks of the page's first section, which are parts of a list."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## From ")[2].partition("\n## ")[0]
    blocks = re.findall(rf"^    ```{language}\n(.*?)^    ```", section, re.MULTILINE | re.DOTALL)
    return [dedent(block) for block in blocks]


def test_from_an_existing_journal_to_a_read_model(
    journal: Journal, database: Database, user: PostgresEndpoint, tmp_path: Path
) -> None:
    R2dbcJournal(database).create()
    R2dbcJournal(database).insert(
        event("Order|1", 1, 60, kind="placed", amount=10.5),
        event("Order|1", 2, 3700, kind="paid", amount=10.5),
        event("Order|2", 1, 90, kind="placed", amount=2),
        event("Other|1", 1, 90, kind="placed", amount=7),
    )
    grants, definition, table = steps("sql")
    exports, commands = steps("sh")
    [entry] = steps("yaml")
    password = sql.Literal(PASSWORD).as_string()
    database.execute(re.sub(r"\btidemark\b", user.username, grants).replace("'...'", password))
    variables = user.environment("ORDERS")
    assert re.findall(r"export (\w+)=", exports) == [*variables]
    journals = tmp_path / "journals.yaml"
    journals.write_text(entry.replace("tidemark_orders", journal.own_keyspace))
    files = tmp_path / "journals" / "orders-r2dbc" / "sql"
    for directory in ("projections", "tagging", "checks"):
        (files / directory).mkdir(parents=True)
    (files / "projections" / "orders_per_hour.sql").write_text(definition)
    with user.session() as session:
        session.execute(table.encode())

    journal.environment = {
        **journal.environment,
        **variables,
        "TIDEMARK_JOURNALS_FILE": str(journals),
        "TIDEMARK_KEYSPACE": f"{journal.own_keyspace}_of_default",
    }
    for command in commands.splitlines():
        for day, ours in DAYS.items():
            command = command.replace(day, ours)
        program, option, chosen, application, *arguments = shlex.split(command)
        assert (program, option) == ("tidemark", "--journal")
        result = journal.run(application, *arguments, JOURNAL=chosen)
        assert result.status == 0, result.stderr
    rows = database.rows("SELECT * FROM read_models.orders_per_hour ORDER BY time_bucket")
    assert [(kind, orders, str(amount)) for _, kind, orders, amount in rows] == [
        ("placed", 2, "12.50"),
        ("paid", 1, "10.50"),
    ]
