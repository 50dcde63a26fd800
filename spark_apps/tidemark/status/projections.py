"""Projections: progress, gaps, pauses and quarantined events of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from tidemark import clock
from tidemark.context import RunContext
from tidemark.errors import NO_RETRY_HELPS
from tidemark.ledger.applications import PROJECT, VALIDATE
from tidemark.ledger.frontier.partition import LOWEST
from tidemark.ledger.piece import State
from tidemark.ledger.reading import quarantined
from tidemark.ledger.reading.pieces import BoundedStanding, bounded_standing
from tidemark.observations import store
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.project.definition import catalog
from tidemark.project.definition.catalog import Rollup, Unusable
from tidemark.project.definition.model import Definition
from tidemark.project.definition.source import KafkaJournal
from tidemark.project.offset_store import management_state
from tidemark.project.offset_store.management_state import PauseState
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning import history, target_check
from tidemark.project.planning.estimate import Estimates
from tidemark.project.position.progress import ProjectionProgress, progress
from tidemark.project.position.ready import ready_buckets
from tidemark.project.rollups import standing as rollup_standing
from tidemark.status.page import ZERO, Amount, Page, bounded, token, unknown, values_of
from tidemark.window import from_millis, to_millis

PROJECTIONS = "projections"
MOST_ESTIMATED = 500
"""The most open time buckets whose estimated rows are summed."""


class Condition(StrEnum):
    """The condition of a projection; the first that applies."""

    UNUSABLE = "unusable"
    TABLE_MISSING = "table missing"
    FAILED = "failed"
    PAUSED = "paused"
    NOT_BEGUN = "not begun"
    HELD = "held"
    BEHIND = "behind"
    UP_TO_DATE = "up to date"


@dataclass(frozen=True)
class ProjectionState:
    """A projection.

    Attributes:
        name: name of the projection.
        version: version of its definition; None if the file cannot be used.
        condition: the condition.
        problem: why the projection is unusable, or what is wrong with its table.
        states: number of time buckets by state; those done by another definition are `changed`.
        is_complete: whether all time buckets were read; if not, numbers are lower bounds.
        open: time buckets that may be processed, and that this definition has not done.
        oldest_open: the start of the oldest open time bucket.
        newest: the end of the newest time bucket that may be processed.
        lag_seconds: from `oldest_open` to `newest`.
        lag_events: estimated rows in the open time buckets, from the ledger.
        held: time buckets that wait for missing events, or for validate.
        oldest_gap: the oldest time bucket that waits for missing events.
        gap_age_seconds: from `oldest_gap` to `newest`.
        gap: the missing events of `oldest_gap`.
        paused_at: since when the projection is paused; None if it is not.
        paused_by: who has paused the projection.
        quarantined: events that the projection could not process.
        last_error: the newest error of a time bucket.
        last_ended: when the ledger of the projection was last written.
        complete_to: all events before this time are in the result; None if it is unknown.
        fresh_within_seconds: the promise of the definition; None without a promise.
        is_late: whether the promise is broken; None without a promise, or if `complete_to` is
            unknown.
    """

    name: str
    version: int | None
    condition: Condition
    problem: str = ""
    states: Mapping[str, int] | None = None
    is_complete: bool = True
    open: Amount = ZERO
    oldest_open: datetime | None = None
    newest: datetime | None = None
    lag_seconds: Amount = ZERO
    lag_events: Amount = ZERO
    held: Amount = ZERO
    oldest_gap: datetime | None = None
    gap_age_seconds: Amount = ZERO
    gap: str = ""
    paused_at: datetime | None = None
    paused_by: str = ""
    quarantined: Amount = ZERO
    last_error: str = ""
    last_ended: datetime | None = None
    complete_to: datetime | None = None
    fresh_within_seconds: int | None = None
    is_late: bool | None = None


def projections(run: RunContext, *, limit: int, after: str | None = None) -> Page[ProjectionState]:
    """Return the projections of TIDEMARK_PROJECTIONS_DIR, by name.

    Raises:
        InvalidInput: the directory does not exist, or `after` is not a token of these pages.
    """
    begin = values_of(PROJECTIONS, after, str)
    entries = catalog.read_all(run.settings.projections_dir)
    by_name: dict[str, Definition | Rollup | Unusable] = {
        unusable.name: unusable for unusable in entries.unusable
    }
    by_name |= {definition.name: definition for definition in entries.definitions}
    by_name |= {rollup.definition.name: rollup for rollup in entries.rollups}
    names = [name for name in sorted(by_name) if begin is None or name > begin[0]]
    validated = bounded_standing(run.control, run.settings, VALIDATE)
    items = [_state(run, name, by_name[name], validated) for name in names[:limit]]
    return Page(items, token(PROJECTIONS, names[limit - 1]) if len(names) > limit else None)


@dataclass(frozen=True)
class LagAt:
    """The lag of a projection when it was observed; None if it was unknown.

    Attributes:
        at: time of the observation.
        events: estimated events in the open time buckets.
        seconds: from the first open time bucket to the end of the last validated one.
    """

    at: datetime
    events: float | None
    seconds: float | None


def lag_history(run: RunContext, name: str) -> list[LagAt]:
    """Return the observed lag of a projection, the oldest first, as far as it is stored."""
    since = clock.now() - timedelta(days=store.DAYS)
    events, seconds = (
        dict(store.history(run, figure, name, since=since))
        for figure in ("projection_lag_events", "projection_lag_seconds")
    )
    times = sorted(events.keys() | seconds.keys())
    return [LagAt(at, events.get(at), seconds.get(at)) for at in times]


def _state(
    run: RunContext,
    name: str,
    entry: Definition | Rollup | Unusable,
    validated: BoundedStanding,
) -> ProjectionState:
    if isinstance(entry, Unusable):
        return ProjectionState(name, None, Condition.UNUSABLE, str(entry.error))
    definition = entry.definition if isinstance(entry, Rollup) else entry
    pause = management_state.pause_state(OffsetStore.of(run, definition))
    try:
        state = (
            _rollup(run, entry) if isinstance(entry, Rollup) else _of_events(run, entry, validated)
        )
    except NO_RETRY_HELPS as error:
        return ProjectionState(name, definition.version, Condition.UNUSABLE, str(error))
    return _with_pause(state, pause)


def _with_pause(state: ProjectionState, pause: PauseState) -> ProjectionState:
    if not pause.paused:
        return state
    at = pause.paused_at and pause.paused_at.replace(tzinfo=UTC)
    is_worse = state.condition in (Condition.TABLE_MISSING, Condition.FAILED)
    return replace(
        state,
        condition=state.condition if is_worse else Condition.PAUSED,
        paused_at=at,
        paused_by=pause.paused_by,
    )


def _rollup(run: RunContext, rollup: Rollup) -> ProjectionState:
    definition = rollup.definition
    standing = rollup_standing.read(run, rollup)
    try:
        rollup_standing.require_tables(run, rollup, standing)
    except NO_RETRY_HELPS as error:
        return ProjectionState(
            definition.name, definition.version, Condition.TABLE_MISSING, str(error)
        )
    why = "a projection of mode rollup is made of rows, not of events"
    condition = Condition.BEHIND if standing.reason else Condition.UP_TO_DATE
    return ProjectionState(
        definition.name,
        definition.version,
        condition if standing.present else Condition.NOT_BEGUN,
        problem=standing.line(rollup),
        lag_seconds=unknown(why) if standing.reason else Amount(0),
        lag_events=unknown(why) if standing.reason else Amount(0),
    )


def _of_events(
    run: RunContext, definition: Definition, validated: BoundedStanding
) -> ProjectionState:
    subject = definition.subject(run.settings.journal_keyspace)
    own = bounded_standing(run.control, run.settings, PROJECT, subject)
    problem = ""
    try:
        target_check.require(run, definition, own.standing)
    except NO_RETRY_HELPS as error:
        problem = str(error)
    ready = _ready(run, definition, own, validated)
    is_complete = own.is_complete and (
        isinstance(definition.source, KafkaJournal) or validated.is_complete
    )
    position = measured(own, definition.fingerprint, ready)
    application = f"{PROJECT}/{definition.name}"
    quarantined_count = quarantined.count(
        run.control, run.settings, definition.source.table(run.settings), application
    )
    state = described(
        definition.name, definition.version, own, position, ready, is_complete=is_complete
    )
    return replace(
        state,
        condition=Condition.TABLE_MISSING if problem else state.condition,
        problem=problem,
        lag_events=_events(run, definition, position.open_buckets, is_complete=is_complete),
        quarantined=bounded(quarantined_count, quarantined.MOST),
        fresh_within_seconds=definition.fresh_within,
        is_late=is_late(state.complete_to, definition.fresh_within, clock.now()),
    )


def _ready(
    run: RunContext, definition: Definition, own: BoundedStanding, validated: BoundedStanding
) -> TimeBuckets:
    """Return the time buckets that may be processed, as far as the ledger of validate was read."""
    begin = history.begin_of(definition, run.settings.bucket_size)
    if not isinstance(definition.source, KafkaJournal):
        return validated.standing.done_by("").within(begin, 2**63 - 1)
    now_ms = to_millis(clock.now())
    first = own.standing.known.first
    ready = ready_buckets(run, definition, now_ms if first is None else first, now_ms)
    return ready.within(begin, 2**63 - 1)


def is_late(complete_to: datetime | None, within_seconds: int | None, now: datetime) -> bool | None:
    """Return whether a promise is broken; None if there is none, or if it is unknown. No I/O."""
    if complete_to is None or within_seconds is None:
        return None
    return now - complete_to > timedelta(seconds=within_seconds)


def measured(own: BoundedStanding, fingerprint: str, ready: TimeBuckets) -> ProjectionProgress:
    """Return the progress of a projection, as far as its ledger was read. No I/O.

    Time buckets after the last row that was read may be done, so they do not count as open. The lag
    ends with the last time bucket that may be processed.
    """
    standing = own.standing
    as_read = ready if own.read_to is None else ready.within(LOWEST, own.read_to + 1)
    position = progress(standing.rows, fingerprint, as_read, standing.bucket_ms, standing.spans)
    if own.read_to is None or ready.last is None:
        return position
    end = ready.last + standing.bucket_ms
    oldest, gap = position.open_buckets.first, position.oldest_gap
    return replace(
        position,
        lag=timedelta(milliseconds=0 if oldest is None else end - oldest),
        gap_age=timedelta(milliseconds=0 if gap is None else max(end - gap[0], 0)),
    )


def described(
    name: str,
    version: int,
    own: BoundedStanding,
    position: ProjectionProgress,
    ready: TimeBuckets,
    *,
    is_complete: bool,
) -> ProjectionState:
    """Return the state of a projection by its ledger alone. No I/O."""
    standing = own.standing
    touched = [row.touched_at.replace(tzinfo=UTC) for row in standing.rows if row.touched_at]
    touched += [from_millis(span.ended_last) for span in standing.spans]
    is_behind = bool(position.open_buckets)
    oldest, gap = position.open_buckets.first, position.oldest_gap
    newest = None if ready.last is None else from_millis(ready.last + standing.bucket_ms)
    lag = Amount(int(position.lag.total_seconds()))
    if own.has_other_sizes:
        why = "the ledger has time buckets of several bucket sizes: see `project.py status`"
        lag = unknown(why)
    elif not is_behind and not is_complete:
        lag = unknown(f"more than {len(standing.rows):,} time buckets are open or not in order")
    return ProjectionState(
        name,
        version,
        condition_of(position, has_begun=history.has_begun(standing)),
        states={str(state): number for state, number in sorted(position.states.items())},
        is_complete=is_complete,
        open=Amount(len(position.open_buckets), is_at_least=not is_complete),
        oldest_open=None if oldest is None else from_millis(oldest),
        newest=newest,
        lag_seconds=lag,
        held=Amount(position.states.get(State.HELD, 0), is_at_least=not own.is_complete),
        oldest_gap=None if gap is None else from_millis(gap[0]),
        gap_age_seconds=Amount(int(position.gap_age.total_seconds())),
        gap="" if gap is None else gap[1],
        last_error="" if position.last_error is None else position.last_error[1],
        last_ended=max(touched, default=None),
        complete_to=None
        if lag.number is None
        else newest
        if oldest is None
        else from_millis(oldest),
    )


def condition_of(position: ProjectionProgress, *, has_begun: bool) -> Condition:
    """Return the condition by the ledger alone. No I/O."""
    if position.states.get(State.FAILED):
        return Condition.FAILED
    if not has_begun:
        return Condition.NOT_BEGUN
    if position.oldest_gap is not None:
        return Condition.HELD
    return Condition.BEHIND if position.open_buckets else Condition.UP_TO_DATE


def _events(
    run: RunContext, definition: Definition, open_buckets: TimeBuckets, *, is_complete: bool
) -> Amount:
    if not open_buckets:
        return Amount(0, is_at_least=not is_complete)
    first = open_buckets.first or 0
    end = first + MOST_ESTIMATED * run.settings.bucket_size.milliseconds
    estimated = open_buckets.within(first, end)
    estimates = Estimates.read(run, estimated)
    estimate = estimates.of(estimated, is_by_tag=definition.source.reads_tag_views)
    if estimate.unknown == len(estimated):
        return unknown("neither tag-write nor validate has counted the open time buckets")
    is_bound = not is_complete or estimate.unknown > 0 or len(estimated) < len(open_buckets)
    return Amount(estimate.rows, is_at_least=is_bound)
