"""Old snapshots of the Iceberg tables of mode `export`, and files that killed runs have left.

A table without a projection's file is left alone, as is a table that is not its projection's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from tidemark.application.approval import digest
from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.project.definition import catalog
from tidemark.project.definition.model import Definition, FileFormat
from tidemark.project.planning.lock import resource_of
from tidemark.project.writing.iceberg import upkeep
from tidemark.project.writing.iceberg.table import IcebergTable
from tidemark.purge.target import TargetPlan, Tombstones
from tidemark.text import counted
from tidemark.window import to_millis


@dataclass(frozen=True)
class _Old:
    """What is deleted of a table: the ids of snapshots, and files by their URIs."""

    definition: Definition
    table: IcebergTable
    snapshots: Sequence[int]
    orphans: Sequence[str]

    def __bool__(self) -> bool:
        return bool(self.snapshots or self.orphans)

    def __str__(self) -> str:
        return (
            f"{self.table.target}: {counted(len(self.snapshots), 'old snapshot')},"
            f" {counted(len(self.orphans), 'file')} of killed runs"
        )


def plan_iceberg_snapshots(run: RunContext, keep_days: int) -> TargetPlan:
    """Plan the snapshots and the files of killed runs that are older than `keep_days` days."""
    before = to_millis(run.moment - timedelta(days=keep_days))
    tables = [_old(run, definition, before) for definition in _definitions(run)]
    old_tables = [old for old in tables if old]

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        for old in old_tables:
            if old.snapshots:
                ensure_locked()
                upkeep.expire(old.table, before)
            if old.orphans:
                ensure_locked()
                upkeep.remove_orphans(old.table, before)
        return counts

    counts = {
        "iceberg_snapshots_deleted": sum(len(old.snapshots) for old in tables),
        "iceberg_orphans_deleted": sum(len(old.orphans) for old in tables),
    }
    return TargetPlan(
        counts,
        [str(old) for old in tables] or ["no projection has an Iceberg table"],
        Tombstones(),
        digest((old.table.name, *old.snapshots, *old.orphans) for old in old_tables),
        [resource_of(run, old.definition) for old in old_tables],
        apply if old_tables else None,
    )


def _definitions(run: RunContext) -> list[Definition]:
    return [
        definition
        for definition in catalog.load(run.settings.projections_dir)
        if definition.file_format is FileFormat.ICEBERG
    ]


def _old(run: RunContext, definition: Definition, before: int) -> _Old:
    table = IcebergTable.of(run, definition)
    if not table.is_own:
        return _Old(definition, table, (), ())
    return _Old(
        definition, table, upkeep.old_snapshots(table, before), upkeep.orphans(table, before)
    )
