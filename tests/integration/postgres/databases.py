"""Schemas of the tests in the embedded PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql

from embedded.postgres.server import PostgresEndpoint


@dataclass(frozen=True)
class Database:
    """A schema that one test has for itself."""

    endpoint: PostgresEndpoint
    schema: str

    @contextmanager
    def session(self) -> Iterator[psycopg.Connection]:
        """Open a session whose statements find the tables of the schema without its name."""
        with psycopg.connect(
            self.endpoint.url,
            password=self.endpoint.password,
            options=f"-c search_path={self.schema} -c timezone=UTC",
            autocommit=True,
        ) as opened:
            yield opened

    def execute(self, statement: str, *values: Any) -> None:
        """Execute one statement."""
        with self.session() as opened:
            opened.execute(statement.encode(), values or None)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        with self.session() as opened:
            return opened.execute(query.encode(), values or None).fetchall()


@contextmanager
def new_schema(endpoint: PostgresEndpoint) -> Iterator[Database]:
    """Make a schema, and drop it at the end."""
    database = Database(endpoint, f"t_{uuid4().hex[:12]}")
    name = sql.Identifier(database.schema)
    with database.session() as session:
        session.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        yield database
        session.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(name))


def drop_role(database: Database, name: str) -> None:
    """Drop a user with all that it owns, and its rights, in a database."""
    with database.session() as session:
        for statement in ("DROP OWNED BY {} CASCADE", "DROP ROLE {}"):
            session.execute(sql.SQL(statement).format(sql.Identifier(name)))
