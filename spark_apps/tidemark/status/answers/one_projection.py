"""The answers on one projection: its lag over time, and its versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.ledger.applications import PROJECT
from tidemark.ledger.piece import State
from tidemark.ledger.reading.pieces import bounded_standing
from tidemark.project.definition import catalog
from tidemark.project.definition.model import Definition
from tidemark.project.planning import live_release
from tidemark.project.planning.live_release import Live
from tidemark.status.overview import has_ledger
from tidemark.status.page import Page
from tidemark.status.projections import LagAt, lag_history

POINT = timedelta(hours=1)
"""The time between two points of a lag over time: 14 days have at most 337 points."""


class ReleaseState(StrEnum):
    """What a version of a blue/green projection is."""

    LIVE = "live"
    NEXT = "next"
    """The version in the file, which is not live."""
    ENDED = "ended"


@dataclass(frozen=True)
class ReleaseRow:
    """A version of a blue/green projection.

    Attributes:
        version: version of the definition.
        table: its table, `keyspace.table`.
        state: whether it is live, the next version, or ended.
        since: when the version became live; None if it is not live, or if the time is not stored.
        owner: who made it live.
        states: number of its time buckets by state.
        is_complete: whether all time buckets were read; if not, `states` are lower bounds.
    """

    version: int
    table: str
    state: ReleaseState
    since: datetime | None
    owner: str
    states: Mapping[str, int]
    is_complete: bool


def lag(run: RunContext, projection: str) -> Page[LagAt]:
    """Return the lag of a projection in the last 14 days, a point an hour.

    Raises:
        InvalidInput: there is no such projection.
    """
    _definition(run, projection)
    return Page(hourly(lag_history(run, projection)))


def hourly(values: Sequence[LagAt]) -> list[LagAt]:
    """Return the largest lag of each hour, at the last time of the hour. No I/O."""
    points: dict[int, LagAt] = {}
    for value in values:
        hour = int(value.at.timestamp() // POINT.total_seconds())
        before = points.get(hour, value)
        points[hour] = LagAt(
            value.at,
            max((n for n in (before.events, value.events) if n is not None), default=None),
            max((n for n in (before.seconds, value.seconds) if n is not None), default=None),
        )
    return list(points.values())


def releases(run: RunContext, projection: str) -> Page[ReleaseRow]:
    """Return the versions of a projection, the newest first; none if it is not blue/green.

    Raises:
        InvalidInput: there is no such projection.
    """
    definition = _definition(run, projection)
    is_blue_green = definition is not None and definition.is_blue_green
    if definition is None or not is_blue_green or not has_ledger(run.control, run.settings):
        return Page([])
    live = live_release.live(run.control, run.settings, definition)
    versions = {definition.version, *live_release.versions_with_table(run.control, definition)}
    rows = [
        _release(run, definition, version, live)
        for version in versions
        if live is None or version != live.version
    ]
    if live is not None:
        rows.append(_release(run, definition, live.version, live))
    return Page(sorted(rows, key=lambda row: -row.version))


def _release(
    run: RunContext, definition: Definition, version: int, live: Live | None
) -> ReleaseRow:
    at_version = live_release.at_version(definition, version)
    subject = at_version.subject(run.settings.journal_keyspace)
    table, state, since, owner = at_version.target, ReleaseState.ENDED, None, ""
    if live is not None and version == live.version:
        # A version that was live before the projection was blue/green has no table of its own.
        subject = live_release.subject_of(run.settings, definition, live)
        table, state, owner = live.table, ReleaseState.LIVE, live.owner
        since = live.since and live.since.replace(tzinfo=UTC)
    elif version == definition.version:
        state = ReleaseState.NEXT
    bounded = bounded_standing(run.control, run.settings, PROJECT, subject)
    standing = bounded.standing
    states = {str(part): 0 for part in State}
    for row in standing.rows:
        states[row.state] += 1
    states[State.DONE] += sum(
        (span.before - span.first) // standing.bucket_ms for span in standing.spans
    )
    counted = {name: number for name, number in states.items() if number}
    return ReleaseRow(version, table, state, since, owner, counted, bounded.is_complete)


def _definition(run: RunContext, name: str) -> Definition | None:
    """Return the definition of a projection; None if it is a rollup, or cannot be used."""
    entries = catalog.read_all(run.settings.projections_dir)
    others = {unusable.name for unusable in entries.unusable}
    others |= {rollup.definition.name for rollup in entries.rollups}
    found = next((one for one in entries.definitions if one.name == name), None)
    if found is None and name not in others:
        raise InvalidInput(
            f"there is no projection {name!r:.60}",
            where="--projection",
            do="choose one of `projections`",
        )
    return found
