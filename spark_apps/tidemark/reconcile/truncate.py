"""truncate: empties the three tag tables of a journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tidemark.application.guarded_change import EnsureLocked, Plan
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.journals.pekko import tables, tag_views
from tidemark.reconcile.operation import ReconcileOperation
from tidemark.tag_write import completeness


def operation() -> ReconcileOperation:
    """Return the operation that empties the tag tables; `rebuild --all` also writes them anew."""
    return ReconcileOperation("truncate", "all tag views", plan)


def plan(run: RunContext) -> Plan:
    """Count the partitions to delete, and warn of rows that cannot be restored."""
    settings = run.settings
    # Counted in a stream: a journal has millions of persistence ids.
    partitions = Counter(tag for tag, _ in tag_views.partitions(run.control, settings))
    metadata = table(settings.journal_keyspace, settings.metadata_table)
    ids = run.control.stream(f"SELECT persistence_id, deleted_to FROM {metadata}", page=5000)
    headless = sum((row["deleted_to"] or 0) > 0 for row in ids)
    lines = [
        f"empties {settings.events_by_tag_table}, {tables.TAG_WRITE_PROGRESS} and"
        f" {tables.TAG_SCANNING} of {settings.journal_keyspace}:"
        f" {len(partitions)} tags in {partitions.total()} partitions",
        "readers and persistent actors of this journal must be stopped",
    ]
    if headless:
        lines.append(
            f"{headless} persistence ids had messages deleted: their rows of deleted events cannot"
            " come back, and what is left is numbered from 1"
        )
    counts = {"partitions": partitions.total(), "ids_with_deleted_messages": headless}

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        truncate(run, ensure_locked)
        return counts

    return Plan(counts, lines, apply)


def truncate(run: RunContext, ensure_locked: EnsureLocked) -> None:
    """Empty scanning, progress, rows: a crash between any two leaves progress that lags."""
    settings = run.settings
    for name in (tables.TAG_SCANNING, tables.TAG_WRITE_PROGRESS, settings.events_by_tag_table):
        ensure_locked()
        empty_table(run, name)
    ensure_locked()
    completeness.forget(run.control, settings, None)


def empty_table(run: RunContext, name: str) -> None:
    """Truncate one table."""
    run.control.execute_ddl(f"TRUNCATE {table(run.settings.journal_keyspace, name)}")
