"""Moving frontiers by hand: of one series, or of all that wait for missing numbers."""

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
    """Set the frontier of a series.

    Forward, what lies between is skipped. Back, it is new again: the time buckets that it lies in
    are planned again (reason `restated`). With 0 the series is as one that was never met.

    Args:
        run: the context of the run.
        name: the projection.
        persistence_id: the series' persistence id.
        tag: its tag; may be None if the source has one, must be for `messages`.
        to: everything up to this number counts as consumed.
        expected: refuse it unless the frontier is there; 0 for a series that was never met.
        apply: do it; otherwise the plan is shown.

    Raises:
        InvalidInput: the projection, tag or persistence id is unknown, or the number is higher
            than any in the journal.
        HistoryPurged: events that would be new again were deleted.
        TidemarkError: the frontier is not the expected one.
        LockHeld: a run works on the projection.
    """
    definition, series = _named(run, name, persistence_id, tag)

    def plan() -> Plan:
        moving = OffsetMove.read(run, definition, series)
        if expected is not None and expected != moving.number:
            raise TidemarkError(
                f"the offset of {series} is {moving.number}, not {expected}",
                where=moving.store.subject,
                do="look at `project.py get-offset` and decide anew",
            )
        moving.require_known(to)
        if to == moving.number:
            return Plan({}, [f"{series}: is at {to} already"], None)
        return moving.forward(to) if to > moving.number else moving.back(to)

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
    """Skip the next number of a series, or with `gaps` what `skip_gaps` skips.

    Raises:
        InvalidInput: both or neither are asked for; otherwise as `skip_next` and `skip_gaps`.
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
    """Skip the next number of a series, whether its event is there or missing.

    An event that is there goes to quarantine. Arguments and errors as those of `set_offset`;
    InvalidInput also if there is no next number.
    """
    definition, series = _named(run, name, persistence_id, tag)

    def plan() -> Plan:
        moving = OffsetMove.read(run, definition, series)
        moving.require_known(moving.number + 1)
        return moving.over_next()

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
        run, "skip-gaps", definition, lambda: _plan_gaps(run, definition, before), apply=apply
    )


def _plan_gaps(run: RunContext, definition: Definition, before: datetime | None) -> Plan:
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


def _gaps_summary(counts: Mapping[str, int]) -> str:
    if not counts["series_skipped"]:
        return "no gap to skip is recorded"
    return (
        f"{counted(counts['numbers_missing'], 'missing number')} of {counts['series_skipped']:,}"
        " series count as consumed, and will be in no result"
    )


def _gap_lines(gaps: Sequence[Missing]) -> list[str]:
    more = len(gaps) - _GAPS_SHOWN
    return [
        *(f"  {gap}" for gap in gaps[:_GAPS_SHOWN]),
        *([f"  and {more:,} more series"] if more > 0 else []),
    ]
