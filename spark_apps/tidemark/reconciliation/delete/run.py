"""reconcile delete: take persistence ids, tags, or persistence ids of tags out of the tag views.

Without Spark and by key, so that a single persistence id goes in a fraction of a second, whatever
state the tag views are in. Which rows go: see `delete_plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.journal import tag_views
from tidemark.reconciliation.delete import plan as delete_plan
from tidemark.reconciliation.delete import store as delete_store
from tidemark.reconciliation.findings.scope import Scope
from tidemark.reconciliation.operation import Operation, Plan
from tidemark.tagging import completeness


def operation(scope: Scope, *, thorough: bool = False) -> Operation[Plan]:
    """Delete from tag_scanning, tag_write_progress and the tag views, never from messages.

    With persistence ids: their rows, of all tags or of those named. With tags alone: the whole
    tags. The keys of all rows of the persistence ids are held in memory, some 300 bytes each.

    Args:
        scope: persistence ids or tags or both.
        thorough: go through all partitions of the tags for rows to which no event leads.

    Raises:
        InvalidInput: neither persistence ids nor tags are named, or a window is. When planning:
            one of them occurs nowhere.
    """
    if scope.window is not None:
        raise InvalidInput(
            "delete takes no window", where=str(scope), do="name persistence ids or tags"
        )
    if scope.is_everything:
        raise InvalidInput(
            "nothing to delete", do="name persistence ids or tags; `truncate` deletes all tag views"
        )
    delete = _Delete(scope, thorough=thorough)
    return Operation("delete", str(scope), delete.plan, delete.apply)


class _Delete:
    """What the plan found is what goes."""

    def __init__(self, scope: Scope, *, thorough: bool) -> None:
        self._scope, self._thorough = scope, thorough
        self._doomed = delete_plan.Doomed()

    def plan(self, run: RunContext) -> Plan:
        scope = self._scope
        if scope.persistence_ids is None and scope.tags is not None:
            self._doomed = delete_plan.of_tags(run, scope.tags, thorough=self._thorough)
        else:
            self._doomed = delete_plan.of_ids(run, scope, thorough=self._thorough)
        return self._doomed.as_plan()

    def apply(self, run: RunContext, plan: Plan, check: Callable[[], None]) -> Mapping[str, int]:
        control, settings, doomed = run.control, run.settings, self._doomed
        check()
        # Pekko numbers what is left of an id anew: what is known of it would contradict that.
        completeness.forget(control, settings, doomed.persistence_ids)
        check()
        delete_store.delete_scanning(control, settings, doomed.scanning)
        check()
        delete_store.delete_progress(control, settings, doomed.progress)
        check()
        delete_store.delete_rows(control, settings, doomed.rows)
        check()
        tag_views.delete_partitions(control, settings, doomed.partitions)
        return plan.counts
