"""The context of a run inside the tests' process, for functions of the library that take one."""

from __future__ import annotations

from dataclasses import replace

from tests.integration.connections import know
from tests.integration.support import Journal
from tidemark.cassandra.schema import create_own_tables
from tidemark.context import RunContext


def context(journal: Journal, **variables: str) -> RunContext:
    """Return the context of a run of purge; `variables` are TIDEMARK_ settings of this run only."""
    changed = {f"TIDEMARK_{key}": value for key, value in variables.items()}
    settings = replace(journal, environment={**journal.environment, **changed}).settings()
    create_own_tables(journal.control, settings)
    know(journal.control, journal.keyspace, journal.own_keyspace)
    return RunContext("purge", settings, journal.control, "r1")
