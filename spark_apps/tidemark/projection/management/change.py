"""Changes of a projection's offsets by hand, under its lock and counted by its revision.

Nothing has to run, and Spark is not started. While a run works on the projection the change is
refused, and so is the run while the change is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tidemark import clock
from tidemark.application.guarded_change import EnsureLocked, Plan, guarded_change
from tidemark.cassandra.conditional import compare_and_set
from tidemark.cassandra.schema import table
from tidemark.context import Outcome, RunContext
from tidemark.errors import TidemarkError
from tidemark.projection.definition.model import Definition
from tidemark.projection.offset_store.revision import TABLE, Revision, revision
from tidemark.projection.planning.lock import lock_of


def run_change(
    run: RunContext,
    operation: str,
    definition: Definition,
    plan: Callable[[], Plan],
    *,
    apply: bool,
) -> Outcome:
    """Show the plan, or take the projection's lock, raise its revision and apply the plan.

    Args:
        run: the run.
        operation: its name on the command line, such as `set-offset`.
        definition: the projection.
        plan: reads; writes nothing. Under the lock, what it has read stays as it is.
        apply: make the change.

    Raises:
        LockHeld: a run, or another change, works on this projection.
        TidemarkError: somebody has changed it meanwhile.
    """
    subject = definition.subject(run.settings.journal_keyspace)

    def plan_with_revision() -> Plan:
        before = revision(run.control, run.settings, definition)
        planned = plan()
        change = planned.apply
        if change is None:
            return planned

        def apply_as_revision(ensure_locked: EnsureLocked) -> Mapping[str, int]:
            _raise_revision(run, operation, subject, before)
            return change(ensure_locked)

        return replace(planned, apply=apply_as_revision)

    return guarded_change(
        run,
        operation,
        subject,
        plan_with_revision,
        lock=lambda: lock_of(run, definition),
        apply=apply,
    )


def _raise_revision(run: RunContext, operation: str, subject: str, before: Revision) -> None:
    is_raised = compare_and_set(
        run.control,
        table(run.settings.keyspace, TABLE),
        {"projection": subject},
        {
            "revision": before.revision + 1,
            "operation": operation,
            "owner": run.owner,
            "changed_at": clock.now(),
        },
        expected={"revision": before.revision} if before.revision else None,
    )
    if not is_raised:
        raise TidemarkError(
            "the projection was changed meanwhile",
            where=subject,
            do="look at `project.py get-offset` and decide anew",
        )
