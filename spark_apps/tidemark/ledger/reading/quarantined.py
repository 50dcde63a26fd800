"""How many events are in quarantine, with a bound; without Spark."""

from __future__ import annotations

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.settings import Settings

MOST = 1000
"""The most events that one answer counts."""


def count(control: Control, settings: Settings, source: str, application: str) -> int:
    """Count quarantined events of an application, up to one more than MOST."""
    rows = control.execute(
        f"SELECT sequence_nr FROM {table(settings.keyspace, 'quarantine')}"
        " WHERE source = ? AND application = ? LIMIT ?",
        (source, application, MOST + 1),
    )
    return len(rows)
