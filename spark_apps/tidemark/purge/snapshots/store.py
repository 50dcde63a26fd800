"""The writes of snapshot deletes: a range or a partition for each persistence id."""

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
    """Record in metadata that all events are deleted, and delete all snapshots: both or none.

    After only one of the two an actor would recover a part of its state: from an old snapshot
    without the events after it, or from those events without the snapshot. `deleted_to` is the
    last sequence nr, or None if metadata has it already.
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
