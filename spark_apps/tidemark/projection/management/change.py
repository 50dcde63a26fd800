"""The frame of what changes a projection's offsets by hand: plan, show or lock, audit, do.

Nothing has to run, and Spark is not started. While a run works on the projection the change is
refused, and so is the run while the change is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tidemark import clock
from tidemark.application import preflight
from tidemark.cassandra.compare_and_set import compare_and_set
from tidemark.cassandra.schema import table
from tidemark.context import DONE, NOTHING, PLANNED, Outcome, RunContext
from tidemark.errors import TidemarkError
from tidemark.ledger import audit
from tidemark.projection.definition.model import Definition
from tidemark.projection.offset_store.revision import TABLE, Revision, revision
from tidemark.projection.planning.lock import lock_of

HINT = "dry run: nothing was changed; --apply does it"
Check = Callable[[], None]
"""Raises LockLost when nothing may be written any more; called before each kind of write."""


@dataclass(frozen=True)
class Change:
    """What would be changed.

    Attributes:
        lines: for people, one fact a line.
        counts: how much of each kind.
        do: does it, in an order in which it may end anywhere and be done again.
        details: for the report.
    """

    lines: Sequence[str]
    counts: Mapping[str, int]
    do: Callable[[Check], None] | None
    details: Mapping[str, object] = field(default_factory=dict)


def run_change(
    run: RunContext,
    operation: str,
    definition: Definition,
    plan: Callable[[], Change],
    *,
    apply: bool,
) -> Outcome:
    """Show the plan, or take the projection's lock, plan, and do it between two audit rows.

    Args:
        run: the application's frame.
        operation: as on the command line, such as `set-offset`.
        definition: the projection.
        plan: reads; writes nothing. Under the lock, what it has read stays as it is.
        apply: do it.

    Raises:
        LockHeld: a run, or another change, works on this projection.
        TidemarkError: somebody has changed it meanwhile.
        SchemaMismatch: the journal's tables are missing or of another shape.
    """
    preflight.check_journal(run)
    if not apply:
        change = plan()
        lines = [*change.lines, *([HINT] if change.do else [])]
        return Outcome(PLANNED, {}, change.counts, lines, details=change.details)
    settings, subject = run.settings, definition.subject(run.settings.journal_keyspace)
    with lock_of(run, definition) as locks:
        before = revision(run.control, settings, definition)
        change = plan()
        if change.do is None:
            return Outcome(NOTHING, {}, change.counts, list(change.lines), details=change.details)
        _raise_revision(run, operation, subject, before)
        audit.record(run, f"{operation} started", subject, change.lines, change.counts)
        change.do(locks.check)
        audit.record(run, operation, subject, change.lines, change.counts)
    return Outcome(DONE, {}, change.counts, list(change.lines), details=change.details)


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
