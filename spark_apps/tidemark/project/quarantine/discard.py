"""The command `quarantine discard`: deletes quarantined events."""

from __future__ import annotations

from collections.abc import Mapping

from tidemark.application.guarded_change import EnsureLocked, Plan, guarded_change
from tidemark.context import Outcome, RunContext
from tidemark.ledger import quarantine
from tidemark.ledger.quarantine import Place
from tidemark.project.definition.model import Definition
from tidemark.project.management.selection import select_one
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning.lock import lock_of
from tidemark.project.quarantine.choice import EventSelection, line
from tidemark.text import counted

_EXAMPLES = 5


def discard(
    run: RunContext, name: str, choice: EventSelection, reason: str, *, apply: bool
) -> Outcome:
    """Delete the rows of quarantined events, or show the plan.

    The events stay consumed and in no result. The audit table stores the `reason`.

    Raises:
        InvalidInput: the projection is unknown, or no such event is in quarantine.
        LockHeld: a run works on the projection.
    """
    definition = select_one(run, name)
    place = choice.place(run, definition)
    return guarded_change(
        run,
        "quarantine discard",
        OffsetStore.of(run, definition).subject,
        lambda: _plan(run, definition, choice, place, reason),
        lock=lambda: lock_of(run, definition),
        apply=apply,
    )


def _plan(
    run: RunContext, definition: Definition, choice: EventSelection, place: Place, reason: str
) -> Plan:
    number = 0
    examples: list[str] = []
    for row in quarantine.stream(run.control, run.settings, place):
        number += 1
        if len(examples) < _EXAMPLES:
            examples.append(f"{definition.name}: {line(run, row)}")
    choice.require_any(number, definition.name)
    counts = {"events_discarded": number}
    if not number:
        return Plan(counts, [f"{definition.name}: nothing is in quarantine"], None)

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        ensure_locked()
        quarantine.delete(run.control, run.settings, place)
        return counts

    what = (
        f"{definition.name}: deletes {counted(number, 'event')} from quarantine, consumed and in no"
        f" result: {reason}"
    )
    further_lines = [f"and {number - len(examples):,} more"] if number > len(examples) else []
    return Plan(counts, [what, *examples, *further_lines], apply)
