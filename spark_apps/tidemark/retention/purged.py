"""What purge has taken away, for those who read or check tag views."""

from __future__ import annotations

from tidemark.cassandra.control import Control
from tidemark.ledger import applications
from tidemark.ledger.pieces import Entry, Pieces, State
from tidemark.settings import Settings


def purged_buckets(control: Control, settings: Settings) -> frozenset[int]:
    """The time buckets that purge has begun to delete, whether it came to its end or not.

    Raises:
        CassandraUnavailable: a statement failed.
    """
    return frozenset(_begun(control, settings))


def emptied_buckets(control: Control, settings: Settings) -> frozenset[int]:
    """The purged time buckets that tag-write has not written again since.

    Raises:
        CassandraUnavailable: a statement failed.
    """
    written = {
        entry.time_bucket: entry.finished_at
        for entry in _entries(control, settings, applications.TAG_WRITE)
        if entry.state is State.DONE
    }
    return frozenset(
        time_bucket
        for time_bucket, purge in _begun(control, settings).items()
        if (again := written.get(time_bucket)) is None
        or purge.finished_at is None
        or again <= purge.finished_at
    )


def _begun(control: Control, settings: Settings) -> dict[int, Entry]:
    return {
        entry.time_bucket: entry
        for entry in _entries(control, settings, applications.PURGE)
        if entry.state in (State.RUNNING, State.DONE, State.FAILED)
    }


def _entries(control: Control, settings: Settings, application: str) -> list[Entry]:
    return Pieces(control, settings.keyspace, application, settings.journal_keyspace).entries()
