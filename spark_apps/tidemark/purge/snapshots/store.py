"""The writes of deletes of snapshots: one range, or one partition, for each persistence id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.settings import Settings


def delete_before(control: Control, settings: Settings, firsts: Iterable[Sequence[object]]) -> None:
    """Delete the snapshots of (persistence id, before this sequence nr)."""
    control.execute_many(
        f"DELETE FROM {table(settings.snapshot_keyspace, settings.snapshot_table)}"
        " WHERE persistence_id = ? AND sequence_nr < ?",
        firsts,
    )


def delete_all(control: Control, settings: Settings, persistence_ids: Iterable[str]) -> None:
    """Delete all snapshots of persistence ids."""
    control.execute_many(
        f"DELETE FROM {table(settings.snapshot_keyspace, settings.snapshot_table)}"
        " WHERE persistence_id = ?",
        [(persistence_id,) for persistence_id in persistence_ids],
    )


def end_history(
    control: Control,
    settings: Settings,
    persistence_id: str,
    *,
    deleted_to: int | None,
    has_snapshots: bool,
) -> None:
    """Say in metadata that all events are deleted, and delete all snapshots: both or none.

    Between the two an actor would start with a part of what it knew: from an old snapshot without
    the events after it, or from those events without the snapshot.

    Args:
        control: the session to Cassandra.
        settings: where the journal and the snapshots are.
        persistence_id: the persistence id.
        deleted_to: the last sequence nr; None if metadata says so already.
        has_snapshots: whether there are snapshots.
    """
    metadata = table(settings.journal_keyspace, settings.metadata_table)
    statements: list[tuple[str, Sequence[object]]] = []
    if deleted_to is not None:
        statements.append(
            (
                f"INSERT INTO {metadata} (persistence_id, deleted_to) VALUES (?, ?)",
                (persistence_id, deleted_to),
            )
        )
    if has_snapshots:
        snapshots = table(settings.snapshot_keyspace, settings.snapshot_table)
        statements.append((f"DELETE FROM {snapshots} WHERE persistence_id = ?", (persistence_id,)))
    control.execute_together(statements)
