"""Deletes what an Iceberg table no longer needs: old snapshots, and files of killed runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidemark.project.writing.iceberg.table import IcebergTable
from tidemark.spark import gateway
from tidemark.spark.gateway import named


def old_snapshots(table: IcebergTable, before: int) -> list[int]:
    """Return the ids of the snapshots that `expire` would delete, ascending.

    `before` is in epoch milliseconds. The newest snapshot of each branch and the snapshots with a
    tag always stay.
    """
    with table.errors("cannot be read"):
        expiry = table.loaded().expireSnapshots().expireOlderThan(before).retainLast(1)
        return sorted(int(snapshot.snapshotId()) for snapshot in expiry.apply())


def expire(table: IcebergTable, before: int) -> None:
    """Delete the snapshots that are older than `before`, and the files that only they have."""
    with table.commit("keeps old snapshots"):
        _actions(table).expireSnapshots(table.loaded()).expireOlderThan(before).retainLast(
            1
        ).option("stream-results", "true").execute()


def orphans(table: IcebergTable, before: int) -> list[str]:
    """Return the files in the table's directory that no snapshot has, written before a time."""
    # Java's builder of a stream takes what else would be deleted.
    nothing = named(table.spark, "java.util.stream.Stream").builder()
    return _orphans(table, before, nothing)


def remove_orphans(table: IcebergTable, before: int) -> Sequence[str]:
    """Delete the files in the table's directory that no snapshot has, written before a time."""
    return _orphans(table, before, None)


def _orphans(table: IcebergTable, before: int, consumer: Any) -> list[str]:
    with table.errors("keeps files of killed runs"):
        action = _actions(table).deleteOrphanFiles(table.loaded()).olderThan(before)
        if consumer is not None:
            action = action.deleteWith(consumer)
        return sorted(str(location) for location in action.execute().orphanFileLocations())


def _actions(table: IcebergTable) -> Any:
    package = named(table.spark, "org.apache.iceberg.spark.actions")
    return package.SparkActions.get(gateway.session_of(table.spark))
