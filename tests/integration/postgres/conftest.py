"""Fixtures of the tests of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedded.postgres.server import PostgresEndpoint
from tests.integration.postgres.databases import Database, new_schema


@pytest.fixture
def database(postgres: PostgresEndpoint) -> Iterator[Database]:
    """Yield a schema that the test has for itself."""
    with new_schema(postgres) as made:
        yield made
