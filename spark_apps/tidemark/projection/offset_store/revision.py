"""How often a projection was changed by hand, and by whom."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.projection.definition.model import Definition
from tidemark.settings import Settings

TABLE = "projection_revision"


@dataclass(frozen=True)
class Revision:
    """How often the offsets of a projection were changed by hand, and how last."""

    revision: int = 0
    operation: str = ""
    owner: str = ""
    changed_at: datetime | None = None

    def __str__(self) -> str:
        """For people."""
        if self.changed_at is None:
            return "never changed by hand"
        return f"{self.operation} {self.changed_at:%Y-%m-%d %H:%M} UTC by {self.owner}"


def revision(control: Control, settings: Settings, definition: Definition) -> Revision:
    """Where a projection stands."""
    rows = control.execute(
        "SELECT revision, operation, owner, changed_at"
        f" FROM {table(settings.keyspace, TABLE)} WHERE projection = ?",
        (definition.subject(settings.journal_keyspace),),
    )
    return Revision(**rows[0]) if rows else Revision()
