"""Counts events in quarantine, up to a bound; without Spark."""

from __future__ import annotations

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.settings import Settings

MOST = 1000
"""The most events that an answer counts."""


def count(control: Control, settings: Settings, source: str, application: str) -> int:
    """Count the quarantined events of an application, up to MOST + 1."""
    rows = control.execute(
        f"SELECT sequence_nr FROM {table(settings.keyspace, 'quarantine')}"
        " WHERE source = ? AND application = ? LIMIT ?",
        (source, application, MOST + 1),
    )
    return len(rows)
