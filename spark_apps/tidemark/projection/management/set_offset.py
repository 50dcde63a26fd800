"""Moving the frontier of one series by hand: to a number, or over the next one."""

from __future__ import annotations

from tidemark.application.guarded_change import Plan
from tidemark.context import Outcome, RunContext
from tidemark.errors import InvalidInput, TidemarkError
from tidemark.journal.series import Series
from tidemark.projection.definition.model import Definition
from tidemark.projection.management.change import run_change
from tidemark.projection.management.offset_move import OffsetMove
from tidemark.projection.management.selection import select_one


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
