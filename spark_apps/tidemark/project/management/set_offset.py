"""The commands `set-offset` and `skip`: move the frontier of a series, or skip recorded gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from tidemark.application.guarded_change import EnsureLocked, Plan
from tidemark.context import Outcome, RunContext
from tidemark.errors import InvalidInput, TidemarkError
from tidemark.journals.pekko.series import Series
from tidemark.project.definition.model import Definition
from tidemark.project.management.change import run_change
from tidemark.project.management.offset_move import OffsetMove
from tidemark.project.management.selection import select_one
from tidemark.project.offset_store import missing_numbers
from tidemark.project.offset_store.missing_numbers import Missing
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning.plan import ledger
from tidemark.text import counted
from tidemark.window import parse_moment, to_millis

_GAPS_SHOWN = 10


def set_offset(
    run: RunContext,
    name: str,
    persistence_id: str,
    tag: str | None,
    to: int,
    *,
    expected: int | None,
    apply: bool,
) -> Outcome:
    """Set the frontier of a series to `to`, or show the plan.

    Forward, the events between are skipped. Back, they are new again, and their time buckets are
    planned again (reason `restated`). 0 makes the series unknown. `tag` may be None if the source
    has only one tag, and must be None if it has none. With `expected`, the change fails unless the
    frontier has this value; 0 means an unknown series.

    Raises:
        InvalidInput: the projection, tag or persistence id is unknown, or the number is higher
            than any in the journal.
        HistoryPurged: events that would be new again were deleted.
        TidemarkError: the frontier does not have the expected value.
        LockHeld: a run works on the projection.
    """
    definition, series = _named(run, name, persistence_id, tag)

    def plan() -> Plan:
        move = OffsetMove.read(run, definition, series)
        if expected is not None and expected != move.number:
            raise TidemarkError(
                f"the offset of {series} is {move.number}, not {expected}",
                where=move.store.subject,
                do="look at `project.py get-offset` and decide anew",
            )
        move.require_known(to)
        if to == move.number:
            return Plan({}, [f"{series}: is at {to} already"], None)
        return move.forward(to) if to > move.number else move.back(to)

    return run_change(run, "set-offset", definition, plan, apply=apply)


def skip(
    run: RunContext,
    name: str,
    persistence_id: str | None,
    tag: str | None,
    *,
    gaps: bool,
    before: str | None,
    apply: bool,
) -> Outcome:
    """Skip the next number of a series, or with `gaps` the recorded gaps, see `skip_gaps`.

    Raises:
        InvalidInput: both or neither are requested.
    """
    if gaps == (persistence_id is not None) or (gaps and tag) or (before and not gaps):
        raise InvalidInput(
            "one series, or all recorded gaps",
            where="--persistence-id, --gaps",
            do="give --persistence-id, with --tag if need be; or --gaps, with --before if you like",
        )
    if persistence_id is not None:
        return skip_next(run, name, persistence_id, tag, apply=apply)
    until = None if before is None else parse_moment(before, "--before")
    return skip_gaps(run, name, until, apply=apply)


def skip_next(
    run: RunContext, name: str, persistence_id: str, tag: str | None, *, apply: bool
) -> Outcome:
    """Skip the next number of a series; if its event exists, the event is quarantined.

    Arguments and errors are those of `set_offset`; InvalidInput also if there is no next number.
    """
    definition, series = _named(run, name, persistence_id, tag)

    def plan() -> Plan:
        move = OffsetMove.read(run, definition, series)
        move.require_known(move.number + 1)
        return move.over_next()

    return run_change(run, "skip", definition, plan, apply=apply)


def _named(
    run: RunContext, name: str, persistence_id: str, tag: str | None
) -> tuple[Definition, Series]:
    definition = select_one(run, name)
    return definition, series_of(definition, persistence_id, tag)


def series_of(definition: Definition, persistence_id: str, tag: str | None) -> Series:
    """Return the series of a projection's source.

    Raises:
        InvalidInput: the source has no such tag or persistence id, or the tag is missing.
    """
    source = definition.source
    if not source.reads(persistence_id):
        what = f"{definition.name} does not read the persistence id {persistence_id}"
        raise InvalidInput(what, where="--persistence-id", do="name one of the header `source`")
    if not source.reads_tag_views:
        if tag is not None:
            what = f"{definition.name} does not read tag views: its series have no tag"
            raise InvalidInput(what, where="--tag", do="leave it out")
        return Series(persistence_id)
    if tag is None and len(source.series_tags) == 1:
        tag = source.series_tags[0]
    if tag not in source.series_tags:
        what = f"{definition.name} does not read the tag {tag}" if tag else "no tag"
        raise InvalidInput(what, where="--tag", do=f"choose one of {', '.join(source.series_tags)}")
    return Series(persistence_id, tag)


def skip_gaps(run: RunContext, name: str, before: datetime | None, *, apply: bool) -> Outcome:
    """Skip the first missing numbers of each series that blocks time buckets, or show the plan.

    Only numbers that runs have recorded in `projection_gap` and that are still missing are skipped.
    Missing numbers after an existing event can be skipped once a run has consumed this event.
    `before` selects series that block a time bucket before this time.
    """
    definition = select_one(run, name)
    return run_change(
        run, "skip-gaps", definition, lambda: _plan_gaps(run, definition, before), apply=apply
    )


def _plan_gaps(run: RunContext, definition: Definition, before: datetime | None) -> Plan:
    gaps = _recorded(run, definition, before)
    plans: list[tuple[Missing, Plan]] = []
    changed = 0
    for gap in gaps:
        move = OffsetMove.read(run, definition, Series(gap.persistence_id, gap.tag))
        plan = move.forward(gap.last) if move.number == gap.first - 1 else None
        if plan is None or plan.counts["events_skipped"]:
            changed += 1
        else:
            plans.append((gap, plan))
    counts = {
        "series_skipped": len(plans),
        "numbers_missing": sum(plan.counts["numbers_missing"] for _, plan in plans),
    }
    lines = [f"{definition.name}: {_gaps_summary(counts)}", *_gap_lines([gap for gap, _ in plans])]
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
    """Read the first missing numbers of each series that waits for missing numbers."""
    held_buckets = [
        row.time_bucket
        for row in ledger(run, definition).standing().open_rows
        if row.has_gap and (before is None or row.time_bucket < to_millis(before))
    ]
    gaps_by_bucket = missing_numbers.read(OffsetStore.of(run, definition), held_buckets)
    # In ascending order of series and number, so that the first gap of each series is kept.
    first_gaps: dict[tuple[str, str], Missing] = {}
    for gap in sorted({gap for gaps in gaps_by_bucket.values() for gap in gaps}):
        first_gaps.setdefault((gap.persistence_id, gap.tag), gap)
    return list(first_gaps.values())


def _gaps_summary(counts: Mapping[str, int]) -> str:
    if not counts["series_skipped"]:
        return "no gap to skip is recorded"
    return (
        f"{counted(counts['numbers_missing'], 'missing number')} of {counts['series_skipped']:,}"
        " series count as consumed, and will be in no result"
    )


def _gap_lines(gaps: Sequence[Missing]) -> list[str]:
    hidden = len(gaps) - _GAPS_SHOWN
    return [
        *(f"  {gap}" for gap in gaps[:_GAPS_SHOWN]),
        *([f"  and {hidden:,} more series"] if hidden > 0 else []),
    ]
