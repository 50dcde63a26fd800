"""The procedure of every manual change: show the plan, or lock, plan, audit and apply.

A dry run writes one row to the audit table. A change writes a row before its first write and a row
after its last write, so that a killed change is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from tidemark.context import Outcome, RunContext, RunState
from tidemark.errors import TidemarkError
from tidemark.ledger import audit
from tidemark.ledger.locks import Locks

EnsureLocked = Callable[[], None]
"""A check before each kind of write; raises LockLost if the run must not write any more."""
Apply = Callable[[EnsureLocked], Mapping[str, int]]
"""A function that makes a change and returns its counts. The order of its writes must allow a stop
at any place and another run."""


@dataclass(frozen=True)
class Plan:
    """The plan of a change.

    Attributes:
        counts: numbers of affected units by kind, such as `tag_rows_deleted`.
        lines: text for reports, one fact per line.
        apply: function that makes the change; None if there is nothing to change.
        details: facts for programs, of JSON's types.
        error: reason why a part of the request is impossible; `apply` does the rest, and the run
            fails. None if the plan is complete.
    """

    counts: Mapping[str, int]
    lines: Sequence[str]
    apply: Apply | None
    details: Mapping[str, object] = field(default_factory=dict)
    error: TidemarkError | None = None


def guarded_change(
    run: RunContext,
    operation: str,
    subject: str,
    plan: Callable[[], Plan],
    *,
    lock: Callable[[], AbstractContextManager[Locks]],
    apply: bool,
    prepare: Callable[[], Callable[[], Plan]] | None = None,
) -> Outcome:
    """Show the plan; or with `apply` take the lock, plan, and apply the plan.

    `operation` is the name on the command line, such as `rebuild`, and `subject` its object for the
    audit table. `plan` reads and counts without writes; under the lock, no other run changes the
    rows that it reads. For slow reads, `prepare` makes them without the lock and returns the
    function that plans under the lock; by default that is `plan`.
    """
    if not apply:
        return show_plan(run, operation, subject, plan())
    locked_plan = plan if prepare is None else prepare()
    with lock() as locks:
        return apply_plan(run, operation, subject, locked_plan(), locks.check)


def show_plan(run: RunContext, operation: str, subject: str, plan: Plan) -> Outcome:
    """Report a plan and write it to the audit table; change nothing else."""
    audit.record(run, operation, subject, plan.lines, plan.counts, dry_run=True)
    hint = "nothing would change"
    if plan.apply is not None:
        hint = "dry run: nothing was changed; --apply does it"
    return Outcome(
        RunState.FAILED if plan.error else RunState.PLANNED,
        counts=plan.counts,
        lines=[*plan.lines, hint],
        error=plan.error,
        details={**plan.details, "can_be_applied": plan.apply is not None},
    )


def apply_plan(
    run: RunContext, operation: str, subject: str, plan: Plan, ensure_locked: EnsureLocked
) -> Outcome:
    """Apply a plan that was made under the held lock, between two audit rows."""
    lines, counts, state = list(plan.lines), plan.counts, RunState.NOTHING
    if plan.apply is not None:
        audit.record(run, f"{operation} started", subject, lines, counts)
        counts, state = plan.apply(ensure_locked), RunState.DONE
        audit.record(run, operation, subject, lines, counts)
    return Outcome(
        RunState.FAILED if plan.error else state,
        counts=counts,
        lines=lines,
        error=plan.error,
        details=plan.details,
    )
