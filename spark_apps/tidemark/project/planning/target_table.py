"""The table of a read model, in Cassandra or in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.context import RunContext
from tidemark.project.definition.model import Definition
from tidemark.project.postgres import shape
from tidemark.project.postgres.place import PostgresPlace


def is_present(run: RunContext, definition: Definition) -> bool:
    """Return whether the table exists."""
    if definition.connection:
        return shape.read(PostgresPlace.of(run.settings, definition)) is not None
    return run.control.table_columns(definition.keyspace, definition.table) is not None


def key_of(run: RunContext, definition: Definition) -> tuple[Sequence[str], Sequence[str]]:
    """Return partition key and clustering columns of a table, which must exist.

    In PostgreSQL these are the first column of the primary key, and the others.
    """
    if definition.connection:
        found = shape.read(PostgresPlace.of(run.settings, definition))
        key = [] if found is None else list(found.primary_key)
        return key[:1], key[1:]
    return run.control.primary_key(definition.keyspace, definition.table)
