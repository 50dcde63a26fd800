"""reconcile delete: deletes persistence ids, tags, or persistence ids of tags from the tag views.

Persistence ids are deleted by key and without Spark, so that a single one takes a fraction of a
second, whatever state the tag views are in (`delete_plan`). Whole tags are deleted by Spark
(`tags`).
"""

from __future__ import annotations

from collections.abc import Mapping

from tidemark.application.guarded_change import EnsureLocked, Plan
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.reconcile.delete import plan as delete_plan
from tidemark.reconcile.delete import store as delete_store
from tidemark.reconcile.operation import ReconcileOperation
from tidemark.tag_write import completeness
from tidemark.validate.scope import Scope


def operation(scope: Scope, *, search_all: bool = False) -> ReconcileOperation:
    """Delete from tag_scanning, tag_write_progress and the tag views, never from messages.

    With persistence ids: their rows, of all tags or of the given ones. With tags alone: all rows of
    the tags. The keys of all rows of the persistence ids are in memory, some 300 bytes each.
    `search_all` searches all partitions of the tags for rows to which no event leads.

    Raises:
        InvalidInput: there are neither persistence ids nor tags, or there is a window. When
            planning: a persistence id or tag does not exist.
    """
    if scope.window is not None:
        raise InvalidInput(
            "delete takes no window", where=str(scope), do="name persistence ids or tags"
        )
    if scope.is_everything:
        raise InvalidInput(
            "nothing to delete", do="name persistence ids or tags; `truncate` deletes all tag views"
        )
    return ReconcileOperation(
        "delete", str(scope), lambda run: plan(run, scope, search_all=search_all)
    )


def plan(run: RunContext, scope: Scope, *, search_all: bool) -> Plan:
    """Find the rows of the three tag tables to delete."""
    if scope.persistence_ids is None and scope.tags is not None:
        # Imported here, since persistence ids are deleted without Spark.
        from tidemark.reconcile.delete.tags import plan_tags

        return plan_tags(run, scope.tags, search_all=search_all)
    deletions = delete_plan.of_ids(run, scope, search_all=search_all)
    counts = deletions.counts

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        delete_rows(run, deletions, ensure_locked)
        return counts

    return Plan(counts, deletions.lines, apply if any(counts.values()) else None)


def delete_rows(
    run: RunContext, deletions: delete_plan.TagRowsToDelete, ensure_locked: EnsureLocked
) -> None:
    """Delete scanning, progress, rows: a crash between any two leaves progress that lags."""
    control, settings = run.control, run.settings
    ensure_locked()
    # Pekko numbers the remaining events of an id anew, which tag-write's state would contradict.
    completeness.forget(control, settings, deletions.persistence_ids)
    ensure_locked()
    delete_store.delete_scanning(control, settings, deletions.scanning)
    ensure_locked()
    delete_store.delete_progress(control, settings, deletions.progress)
    ensure_locked()
    delete_store.delete_rows(control, settings, deletions.rows)
