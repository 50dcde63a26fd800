"""The frame of every operation that changes something: plan, show or lock, audit, apply."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tidemark.application import preflight
from tidemark.context import DONE, NOTHING, PLANNED, Outcome, RunContext
from tidemark.journal import tables
from tidemark.ledger import applications, audit
from tidemark.ledger.locks import Locks

APPLICATION = applications.RECONCILE


@dataclass(frozen=True)
class Plan:
    """What an operation would touch.

    Attributes:
        counts: how much of each kind, such as `tag_rows_deleted`.
        lines: the same for people, one fact a line.
        is_empty: there is nothing to do.
    """

    counts: Mapping[str, int]
    lines: Sequence[str] = field(default_factory=list)
    is_empty: bool = False


PlanT = TypeVar("PlanT", bound=Plan)


@dataclass(frozen=True)
class Operation(Generic[PlanT]):
    """One operation of reconcile.

    Attributes:
        name: as on the command line, such as `rebuild`.
        subject: what it works on, for people.
        plan: reads and counts; writes nothing.
        apply: does it, calling the given function before each kind of write (it raises LockLost
            when the run must not write any more); returns the counts of what was done.
    """

    name: str
    subject: str
    plan: Callable[[RunContext], PlanT]
    apply: Callable[[RunContext, PlanT, Callable[[], None]], Mapping[str, int]]


def run_operation(run: RunContext, operation: Operation[PlanT], *, apply: bool) -> Outcome:
    """Plan; then show the plan, or take the journal's lock and do it. Both leave audit rows.

    Raises:
        SchemaMismatch: the journal's tables are missing or of another shape.
        BucketSizeMismatch: the existing tag views have another bucket size.
        LockHeld: another run writes or deletes tag views of this journal.
    """
    preflight.check_journal(run)
    if not apply:
        plan = operation.plan(run)
        record(run, operation.name, operation.subject, plan.lines, plan.counts, dry_run=True)
        hint = (
            "nothing would change"
            if plan.is_empty
            else "dry run: nothing was changed; --apply does it"
        )
        return Outcome(PLANNED, {}, plan.counts, [*plan.lines, hint])
    with Locks(
        run.control,
        run.settings.keyspace,
        [tables.lock_of(run.settings)],
        owner=run.owner,
        run_id=run.run_id,
        ttl=run.settings.lock_ttl,
        on_lost=run.stop_jobs,
    ) as locks:
        plan = operation.plan(run)
        if plan.is_empty:
            return Outcome(NOTHING, {}, plan.counts, list(plan.lines))
        started = f"{operation.name} started"
        record(run, started, operation.subject, plan.lines, plan.counts, dry_run=False)
        counts = operation.apply(run, plan, locks.check)
        record(run, operation.name, operation.subject, plan.lines, counts, dry_run=False)
    return Outcome(DONE, {"planned": 1, "done": 1}, counts, list(plan.lines))


def record(
    run: RunContext,
    operation: str,
    subject: str,
    lines: Sequence[str],
    counts: Mapping[str, int],
    *,
    dry_run: bool,
) -> None:
    """Append a row to the audit table."""
    subject = f"{run.settings.journal_keyspace}: {subject}"
    audit.record(run, operation, subject, lines, counts, dry_run=dry_run)
