"""The operations of reconcile: each is a change of a journal's tag views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tidemark.application import preflight
from tidemark.application.guarded_change import Plan, guarded_change
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.journals.pekko import tables
from tidemark.ledger import applications
from tidemark.ledger.locks import Locks
from tidemark.reconcile.journal import require_journal

APPLICATION = applications.RECONCILE


@dataclass(frozen=True)
class ReconcileOperation:
    """One operation of reconcile.

    Attributes:
        name: as on the command line, such as `rebuild`.
        scope: text for the audit table: the data that it changes, such as a persistence id.
        plan: reads and counts; writes nothing.
        prepare: as in `guarded_change`.
        corrects_journal: whether it writes tables of the journal, which must be in Cassandra.
    """

    name: str
    scope: str
    plan: Callable[[RunContext], Plan]
    prepare: Callable[[RunContext], Callable[[], Plan]] | None = None
    corrects_journal: bool = True


def run_operation(run: RunContext, operation: ReconcileOperation, *, apply: bool) -> Outcome:
    """Show the plan of an operation, or take the journal's lock and apply it.

    Raises:
        LockHeld: another run writes or deletes tag views of this journal.
    """
    if operation.corrects_journal:
        require_journal(run)
    else:
        preflight.check_journal(run)
    prepare = operation.prepare
    outcome = guarded_change(
        run,
        operation.name,
        audited_subject(run, operation.scope),
        lambda: operation.plan(run),
        lock=lambda: Locks.of(run, [tables.lock_of(run.settings)]),
        apply=apply,
        prepare=None if prepare is None else lambda: prepare(run),
    )
    is_done = outcome.state is RunState.DONE
    return replace(outcome, pieces=PieceCounts(planned=1, done=1)) if is_done else outcome


def audited_subject(run: RunContext, scope: object) -> str:
    """Return a scope with its journal, as text for the audit table."""
    return f"{run.settings.journal_keyspace}: {scope}"
