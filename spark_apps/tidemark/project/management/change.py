"""Changes a projection's offsets by hand, under its lock and counted by its revision.

This does not need Spark. The change fails while a run works on the projection, and vice versa.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tidemark.application.guarded_change import EnsureLocked, Plan, guarded_change
from tidemark.context import Outcome, RunContext
from tidemark.errors import TidemarkError
from tidemark.project.definition.model import Definition
from tidemark.project.offset_store import management_state
from tidemark.project.offset_store.management_state import Revision
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning.lock import lock_of


def run_change(
    run: RunContext,
    operation: str,
    definition: Definition,
    plan: Callable[[], Plan],
    *,
    apply: bool,
) -> Outcome:
    """Show the plan, or take the projection's lock, raise its revision and apply the plan.

    `operation` is the name on the command line, such as `set-offset`. `plan` only reads; under the
    lock, the data that it has read does not change.

    Raises:
        LockHeld: a run, or another change, works on this projection.
        TidemarkError: the projection was changed meanwhile.
    """
    store = OffsetStore.of(run, definition)

    def plan_with_revision() -> Plan:
        revision = management_state.revision(store)
        planned = plan()
        change = planned.apply
        if change is None:
            return planned

        def apply_as_revision(ensure_locked: EnsureLocked) -> Mapping[str, int]:
            _raise_revision(run, operation, store, revision)
            return change(ensure_locked)

        return replace(planned, apply=apply_as_revision)

    return guarded_change(
        run,
        operation,
        store.subject,
        plan_with_revision,
        lock=lambda: lock_of(run, definition),
        apply=apply,
    )


def _raise_revision(
    run: RunContext, operation: str, store: OffsetStore, revision: Revision
) -> None:
    if not management_state.raise_revision(store, revision, operation=operation, owner=run.owner):
        raise TidemarkError(
            "the projection was changed meanwhile",
            where=store.subject,
            do="look at `project.py get-offset` and decide anew",
        )
