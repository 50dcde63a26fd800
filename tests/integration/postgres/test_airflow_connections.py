"""A journal and a read model in PostgreSQL, reached by connections of Airflow."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
import yaml
from airflow.sdk import Connection
from psycopg import sql

from embedded.cassandra.server import Endpoint
from embedded.postgres.server import PostgresEndpoint
from tests.integration.connections import know
from tests.integration.postgres.databases import Database, drop_role
from tests.integration.postgres.r2dbc_journal import R2dbcJournal, event
from tests.integration.postgres.read_models import READ_MODELS
from tests.integration.support import Journal
from tests.integration.test_journals import airflow, run_task_of

PASSWORD = "a/b@c:%41 #?&'é"
WINDOW = ("2024-03-01T00:00:00Z", "2024-03-01T01:00:00Z")


@pytest.fixture
def user(database: Database) -> Iterator[PostgresEndpoint]:
    """Yield the server as a new user sees it, who may do all in the schema."""
    name = f"u_{uuid4().hex[:12]}"
    user, schema = sql.Identifier(name), sql.Identifier(database.schema)
    with database.session() as session:
        session.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(user, sql.Literal(PASSWORD))
        )
        session.execute(sql.SQL("GRANT ALL ON SCHEMA {} TO {}").format(schema, user))
        session.execute(
            sql.SQL("ALTER DEFAULT PRIVILEGES IN SCHEMA {} GRANT ALL ON TABLES TO {}").format(
                schema, user
            )
        )
    yield replace(database.endpoint, username=name, password=PASSWORD)
    drop_role(database, name)


def test_connections_of_airflow(
    journal: Journal,
    database: Database,
    user: PostgresEndpoint,
    cassandra: Endpoint,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    plugin = R2dbcJournal(database)
    plugin.create()
    plugin.insert(
        event("o|1", 1, 60, kind="in", amount=1), event("o|1", 2, 90, kind="in", amount=2)
    )
    model = READ_MODELS["upsert"]
    database.execute(f"CREATE TABLE {model.table} ({model.columns})")
    directories = {name: tmp_path / name for name in ("projections", "tagging", "checks")}
    for directory in directories.values():
        directory.mkdir()
    definition = model.definition.format(
        version=1, target=f"postgres://orders/{database.schema}.{model.table}"
    )
    (directories["projections"] / model.file).write_text(definition)
    entry = {
        "r2dbc-connection": "orders",
        "r2dbc-schema": database.schema,
        "keyspace": journal.own_keyspace,
        "bucket-size": "Hour",
        **{f"{name}-dir": str(directory) for name, directory in directories.items()},
    }
    file = tmp_path / "journals.yaml"
    file.write_text(yaml.safe_dump({"journals": {"orders": entry}}))
    variables = {
        **journal.environment,
        "TIDEMARK_KEYSPACE": f"{journal.own_keyspace}_of_default",
        "TIDEMARK_JOURNALS_FILE": str(file),
        "TIDEMARK_POSTGRES_CONNECTIONS": "orders,absent,other",
    }
    connections = {
        "orders": Connection(
            conn_id="orders",
            conn_type="postgres",
            host=user.host,
            port=user.port,
            login=user.username,
            password=user.password,
            schema=user.database,
        ),
        "other": Connection(conn_id="other", conn_type="mysql", host="127.0.0.1"),
    }
    know(journal.control, journal.keyspace, journal.own_keyspace)
    with caplog.at_level(logging.INFO), airflow(cassandra, variables, connections) as bag:
        for application in ("validate", "project"):
            run_task_of(bag, application, "orders", WINDOW)
    assert database.rows(f"SELECT persistence_id, sequence_nr FROM {model.table}") == [("o|1", 2)]
    captured = capfd.readouterr()
    said = caplog.text + captured.out + captured.err
    # A connection that cannot be used stops nothing that does not need it.
    assert "TIDEMARK_POSTGRES_CONNECTIONS: the conn_id `absent` isn't defined" in said
    assert "TIDEMARK_POSTGRES_CONNECTIONS: other is of type mysql, not postgres" in said
    assert PASSWORD not in said
