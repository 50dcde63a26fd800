"""The checks that every application on a journal makes before its first write."""

from __future__ import annotations

from datetime import timedelta

from tidemark import clock
from tidemark.cassandra.schema import create_own_tables
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.journals.pekko import bucket_size, tables
from tidemark.journals.r2dbc.tables import require_journal
from tidemark.settings import Settings
from tidemark.window import Window


def check(run: RunContext, window: Window, *, has_journal: bool = True) -> None:
    """Reject an unusable window or journal; then create Tidemark's own tables unless they exist.

    Without `has_journal`, the journal keyspace is neither needed nor checked, and the window may
    end now, because only readers of a journal wait for late events.
    """
    delay = run.settings.readers_delay if has_journal else timedelta()
    window.require_whole_buckets(run.settings.bucket_size, clock.now() - delay)
    check_journal(run, has_journal=has_journal)


def check_journal(run: RunContext, *, has_journal: bool = True) -> None:
    """Reject an unusable journal; then create Tidemark's own tables unless they exist."""
    if has_journal:
        _require_journal(run)
    create_own_tables(run.control, run.settings)


def require_in_cassandra(settings: Settings, reason: str, do: str) -> None:
    """Reject a journal in PostgreSQL; `reason` says what the application works on.

    Raises:
        InvalidInput: the journal of the run is in PostgreSQL.
    """
    if settings.is_r2dbc:
        raise InvalidInput(
            f"the journal {settings.journal} is in PostgreSQL, and {reason}",
            where="TIDEMARK_JOURNAL",
            do=do,
        )


def _require_journal(run: RunContext) -> None:
    if run.settings.is_r2dbc:
        require_journal(run.settings)
        return
    tables.require_journal(run.control, run.settings)
    bucket_size.require_bucket_size(run.control, run.settings)
