"""Skipping the missing numbers of many series at once: those that the last runs have recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from tidemark.application.guarded_change import EnsureLocked, Plan
from tidemark.context import Outcome, RunContext
from tidemark.journal.series import Series
from tidemark.projection.definition.model import Definition
from tidemark.projection.management.change import run_change
from tidemark.projection.management.offset_move import OffsetMove
from tidemark.projection.management.selection import select_one
from tidemark.projection.offset_store import missing_numbers
from tidemark.projection.offset_store.missing_numbers import Missing
from tidemark.projection.offset_store.offsets import OffsetStore
from tidemark.projection.planning.plan import ledger
from tidemark.text import counted
from tidemark.window import to_millis

_SHOWN = 10


def skip_gaps(run: RunContext, name: str, before: datetime | None, *, apply: bool) -> Outcome:
    """Skip the first missing numbers of each series that holds time buckets back.

    Only what runs have recorded in `projection_gap` is skipped, and only if it is still missing.
    What is missing after an event that is there is skipped when a run has consumed that event.

    Args:
        run: the context of the run.
        name: the projection.
        before: only of series that hold back a time bucket before this time; None for all.
        apply: do it; otherwise the plan is shown.

    Raises:
        InvalidInput: the projection is unknown.
        LockHeld: a run works on the projection.
    """
    definition = select_one(run, name)
    return run_change(
        run, "skip-gaps", definition, lambda: _plan(run, definition, before), apply=apply
    )


def _plan(run: RunContext, definition: Definition, before: datetime | None) -> Plan:
    gaps = _recorded(run, definition, before)
    plans: list[tuple[Missing, Plan]] = []
    changed = 0
    for gap in gaps:
        moving = OffsetMove.read(run, definition, Series(gap.persistence_id, gap.tag))
        plan = moving.forward(gap.last) if moving.number == gap.first - 1 else None
        if plan is None or plan.counts["events_skipped"]:
            changed += 1
        else:
            plans.append((gap, plan))
    counts = {
        "series_skipped": len(plans),
        "numbers_missing": sum(plan.counts["numbers_missing"] for _, plan in plans),
    }
    lines = [f"{definition.name}: {_summary(counts)}", *_named([gap for gap, _ in plans])]
    if changed:
        lines.append(
            f"{counted(changed, 'gap')} left: the numbers are there, or the offset has moved, since"
            " a run recorded them"
        )

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        for _, plan in plans:
            if plan.apply is not None:
                plan.apply(ensure_locked)
        return counts

    return Plan(counts, lines, apply if plans else None)


def _recorded(run: RunContext, definition: Definition, before: datetime | None) -> list[Missing]:
    """Read the first missing numbers of each series that waits for some."""
    held = [
        row.time_bucket
        for row in ledger(run, definition).standing().open_rows
        if row.has_gap and (before is None or row.time_bucket < to_millis(before))
    ]
    recorded = missing_numbers.read(OffsetStore.of(run, definition), held)
    # Ascending by series and number: of each series the first counts.
    first: dict[tuple[str, str], Missing] = {}
    for gap in sorted({gap for of_bucket in recorded.values() for gap in of_bucket}):
        first.setdefault((gap.persistence_id, gap.tag), gap)
    return list(first.values())


def _summary(counts: Mapping[str, int]) -> str:
    if not counts["series_skipped"]:
        return "no gap to skip is recorded"
    return (
        f"{counted(counts['numbers_missing'], 'missing number')} of {counts['series_skipped']:,}"
        " series count as consumed, and will be in no result"
    )


def _named(gaps: Sequence[Missing]) -> list[str]:
    more = len(gaps) - _SHOWN
    return [
        *(f"  {gap}" for gap in gaps[:_SHOWN]),
        *([f"  and {more:,} more series"] if more > 0 else []),
    ]
