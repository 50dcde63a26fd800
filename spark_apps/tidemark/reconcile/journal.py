"""The check of the journal before every command of reconcile."""

from __future__ import annotations

from tidemark.application import preflight
from tidemark.context import RunContext


def require_journal(run: RunContext) -> None:
    """Require a usable journal in Cassandra, whose tables reconcile corrects.

    Raises:
        InvalidInput: the journal is in PostgreSQL.
        SchemaMismatch: its tables are missing or have another shape.
        BucketSizeMismatch: the existing tag views have another bucket size.
    """
    preflight.require_in_cassandra(
        run.settings,
        "reconcile corrects tables of a journal in Cassandra",
        "correct the rows as their writer would; `validate` finds them",
    )
    preflight.check_journal(run)
