"""Fixtures of the tests of projections."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedded.postgres.server import PostgresEndpoint
from tests.integration.postgres.databases import new_schema
from tests.integration.postgres.r2dbc_journal import R2dbcJournal
from tests.integration.support import Journal


@pytest.fixture
def plugin(
    journal: Journal, postgres: PostgresEndpoint, request: pytest.FixtureRequest
) -> Iterator[R2dbcJournal]:
    """Yield a journal in PostgreSQL, which is that of the applications."""
    with new_schema(postgres) as database:
        made = R2dbcJournal(database, getattr(request, "param", 1))
        made.create()
        journal.environment = {**journal.environment, **made.variables()}
        yield made
