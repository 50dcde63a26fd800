"""The one way in which something is changed by hand: plan; show the plan, or lock, audit and apply.

A dry run leaves one row in the audit table. A change leaves one before its first write and one
after its last, so that one that was killed in between is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from tidemark.context import Outcome, RunContext, RunState
from tidemark.ledger import audit
from tidemark.ledger.locks import Locks

EnsureLocked = Callable[[], None]
"""Raises LockLost when nothing may be written any more; called before each kind of write."""
Apply = Callable[[EnsureLocked], Mapping[str, int]]
"""Makes a change, in an order in which it may end anywhere and be made again; returns the counts of
what was done."""


@dataclass(frozen=True)
class Plan:
    """What a change would touch.

    Attributes:
        counts: how much of each kind, such as `tag_rows_deleted`.
        lines: text for reports, one fact a line.
        apply: makes the change; None if there is nothing to change.
        details: facts for programs, of JSON's types.
    """

    counts: Mapping[str, int]
    lines: Sequence[str]
    apply: Apply | None
    details: Mapping[str, object] = field(default_factory=dict)


def guarded_change(
    run: RunContext,
    operation: str,
    subject: str,
    plan: Callable[[], Plan],
    *,
    lock: Callable[[], AbstractContextManager[Locks]],
    apply: bool,
) -> Outcome:
    """Show the plan, or take the lock, plan, and apply the plan.

    Args:
        run: the run.
        operation: its name on the command line, such as `rebuild`.
        subject: what it works on, for the audit table.
        plan: reads and counts; writes nothing. Under the lock, what it has read stays as it is.
        lock: what keeps others from the subject.
        apply: make the change.

    Raises:
        LockHeld: somebody else works on the subject.
    """
    if not apply:
        return show_plan(run, operation, subject, plan())
    with lock() as locks:
        return apply_plan(run, operation, subject, plan(), locks.check)


def show_plan(run: RunContext, operation: str, subject: str, plan: Plan) -> Outcome:
    """Report a plan and write it to the audit table; nothing is changed."""
    audit.record(run, operation, subject, plan.lines, plan.counts, dry_run=True)
    hint = "nothing would change"
    if plan.apply is not None:
        hint = "dry run: nothing was changed; --apply does it"
    return Outcome(
        RunState.PLANNED,
        counts=plan.counts,
        lines=[*plan.lines, hint],
        details=plan.details,
    )


def apply_plan(
    run: RunContext, operation: str, subject: str, plan: Plan, ensure_locked: EnsureLocked
) -> Outcome:
    """Make a change that was planned under the lock that is held, between two audit rows."""
    lines = list(plan.lines)
    if plan.apply is None:
        return Outcome(RunState.NOTHING, counts=plan.counts, lines=lines, details=plan.details)
    audit.record(run, f"{operation} started", subject, lines, plan.counts)
    counts = plan.apply(ensure_locked)
    audit.record(run, operation, subject, lines, counts)
    return Outcome(RunState.DONE, counts=counts, lines=lines, details=plan.details)
