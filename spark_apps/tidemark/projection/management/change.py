"""The frame of what changes a projection's offsets by hand: plan, show or lock, audit, do.

Nothing has to run, and Spark is not started. While a run works on the projection the change is
refused, and so is the run while the change is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tidemark.application import preflight
from tidemark.context import DONE, NOTHING, PLANNED, Outcome, RunContext
from tidemark.errors import TidemarkError
from tidemark.ledger import audit
from tidemark.projection.definition.model import Definition
from tidemark.projection.offset_store import management_state
from tidemark.projection.offset_store.management_state import Revision
from tidemark.projection.offset_store.offsets import OffsetStore
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
    store = OffsetStore.of(run, definition)
    with lock_of(run, definition) as locks:
        before = management_state.revision(store)
        change = plan()
        if change.do is None:
            return Outcome(NOTHING, {}, change.counts, list(change.lines), details=change.details)
        _raise_revision(run, operation, store, before)
        audit.record(run, f"{operation} started", store.subject, change.lines, change.counts)
        change.do(locks.check)
        audit.record(run, operation, store.subject, change.lines, change.counts)
    return Outcome(DONE, {}, change.counts, list(change.lines), details=change.details)


def _raise_revision(run: RunContext, operation: str, store: OffsetStore, before: Revision) -> None:
    if not management_state.raise_revision(store, before, operation=operation, owner=run.owner):
        raise TidemarkError(
            "the projection was changed meanwhile",
            where=store.subject,
            do="look at `project.py get-offset` and decide anew",
        )
