"""The operations of cleanup: manual deletes of a journal's events or snapshots."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemark.application.guarded_change import Apply, EnsureLocked, Plan, guarded_change
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import InvalidInput
from tidemark.ledger import applications
from tidemark.ledger.locks import Locks
from tidemark.purge.saved.places import directory_of
from tidemark.purge.target import TargetPlan
from tidemark.reconcile.journal import require_journal
from tidemark.settings import Settings
from tidemark.text import path_name

APPLICATION = applications.CLEANUP


@dataclass(frozen=True)
class CleanupOperation:
    """One operation of cleanup.

    Attributes:
        name: as on the command line, such as `events-to`.
        scope: text for the audit table: the data that it changes, such as a persistence id.
        plan: reads and counts; writes nothing.
        locks: the resources to lock while it is planned and applied.
    """

    name: str
    scope: str
    plan: Callable[[RunContext], TargetPlan]
    locks: Callable[[Settings], Sequence[str]]


def run_operation(
    run: RunContext, operation: CleanupOperation, *, apply: bool, save: str | None = None
) -> Outcome:
    """Show the plan of an operation, or take its locks and apply it.

    `save` is the directory in which rows are saved before they are deleted; None for no copy.

    Raises:
        InvalidInput: the directory is not below TIDEMARK_SAVE_DIRS.
        LockHeld: another run works on data that would be deleted, or on the journal's tag views.
    """
    directory = None if save is None else directory_of(save, run.settings, "--save-to")
    require_journal(run)

    def plan() -> Plan:
        planned = operation.plan(run)
        apply = planned.apply if directory is None else _saving(planned, directory, run.run_id)
        return Plan(planned.counts, planned.lines, apply, {"digest": planned.digest}, planned.error)

    outcome = guarded_change(
        run,
        operation.name,
        f"{run.settings.journal_keyspace}: {operation.scope}",
        plan,
        lock=lambda: Locks.of(run, operation.locks(run.settings)),
        apply=apply,
    )
    is_done = outcome.state is RunState.DONE
    return replace(outcome, pieces=PieceCounts(planned=1, done=1)) if is_done else outcome


def _saving(plan: TargetPlan, directory: str, run_id: str) -> Apply | None:
    """Return the plan's change, preceded by a copy of the rows to delete."""
    delete, save = plan.apply, plan.save
    if delete is None or save is None:
        return delete

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        save(f"{directory}/{path_name(run_id)}")
        return delete(ensure_locked)

    return apply


def named(persistence_ids: Collection[str] | None) -> frozenset[str]:
    """Return the persistence ids of an operation that requires some.

    Raises:
        InvalidInput: there are none.
    """
    if not persistence_ids:
        raise InvalidInput(
            "no persistence id is named", where="--persistence-id", do="name at least one"
        )
    return frozenset(persistence_ids)
