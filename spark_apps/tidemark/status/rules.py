"""The rules of the overview: what is ok, late, bad or unknown, since when, and what to do. No I/O.

*bad*: somebody must act, later runs alone do not fix it. *late*: behind the schedule or behind the
application that it follows; later runs catch up. *stopped*: late, and nothing has run since then.
*empty*: has never run. *unknown*: a bounded read cannot tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from tidemark.errors import InvalidInput, Remedy
from tidemark.installation import program
from tidemark.ledger.applications import (
    PROJECT,
    PURGE,
    RECONCILE,
    REPLICATE,
    RUN_EVENT_GROUPS,
    STATUS,
    TAG_WRITE,
    VALIDATE,
)
from tidemark.ledger.piece import State as PieceState
from tidemark.observations.alarms import Alarm
from tidemark.observations.metrics import Observation
from tidemark.purge.policies.states import PolicyState
from tidemark.status.event_groups import StreamState
from tidemark.status.projections import Condition, ProjectionState
from tidemark.status.replication import PartitionState
from tidemark.status.time_buckets import LedgerSummary
from tidemark.text import counted
from tidemark.window import iso

CADENCES = {
    "daily": timedelta(days=1),
    "hourly": timedelta(hours=1),
    "five-minutes": timedelta(minutes=5),
    "off": None,
}
"""Time between scheduled runs of tag-write, by the value of TIDEMARK_CADENCE."""
ONE_DAG = "one-dag"
"""The value of TIDEMARK_CHAIN with which the DAG `chain` runs the whole chain."""
MISSED_RUNS = 2
"""How many scheduled runs may be missed before tag-write is late."""
FOLLOWS_WITHIN = timedelta(hours=1)
"""How soon a run of validate must follow tag-write, and project must follow validate."""
GROUPS_WITHIN = timedelta(hours=1)
"""How long an event group may stay open."""
REPLICATED_WITHIN = timedelta(minutes=15)
"""How old the replication of a topic partition may be: three runs, started every five minutes."""
JOURNAL, TAG_VIEWS, CHECKS = "journal", "tag views", "checks"
_APPLICATIONS = {TAG_VIEWS: TAG_WRITE, CHECKS: VALIDATE}
_BROKEN = (Condition.UNUSABLE, Condition.TABLE_MISSING, Condition.FAILED)
_MOST_NAMED = 3


class PartState(StrEnum):
    """The state of a line, from the best to the worst."""

    OK = "ok"
    EMPTY = "empty"
    UNKNOWN = "unknown"
    LATE = "late"
    STOPPED = "stopped"
    BAD = "bad"

    @property
    def rank(self) -> int:
        """Return how bad the state is, from 0."""
        return list(PartState).index(self)


@dataclass(frozen=True)
class Line:
    """A line of the overview, for one part of the system.

    Attributes:
        subject: name of the part.
        state: state of the part.
        what: reason for the state, in a clause.
        since: start of the state; None if it is not stored.
        remedy: what to do, a command if there is one; empty if there is nothing to do.
        unpause: the DAG that `remedy` unpauses; empty for none.
        run: the run that `remedy` starts; None for none.
    """

    subject: str
    state: PartState
    what: str
    since: datetime | None = None
    remedy: str = ""
    unpause: str = ""
    run: Remedy | None = None

    def with_remedy(self, run: Remedy | None = None, *, unpause: str = "") -> Line:
        """Return the line with what to do: start a run, or unpause a DAG that would start it."""
        texts = [f"airflow dags unpause {unpause}"] if unpause else []
        texts += [str(run)] if run is not None else []
        return replace(self, remedy="; or ".join(texts), unpause=unpause, run=run)


NOTHING_YET = "nothing has run yet"


def period_of(cadence: str) -> timedelta | None:
    """Return the time between scheduled runs of tag-write; None if there is no schedule.

    Raises:
        InvalidInput: `cadence` is not a value of TIDEMARK_CADENCE.
    """
    if cadence not in CADENCES:
        raise InvalidInput(
            f"there is no cadence {cadence!r}",
            where="--cadence, TIDEMARK_CADENCE",
            do=f"choose among {', '.join(CADENCES)}",
        )
    return CADENCES[cadence]


def overall(lines: Sequence[Line]) -> PartState:
    """Return the worst state of the lines; EMPTY if no application has ever run.

    Parts that are not in use or have never run do not count.
    """
    if all(line.state is PartState.EMPTY for line in lines if line.subject != JOURNAL):
        return PartState.EMPTY
    used = [line.state for line in lines if line.state is not PartState.EMPTY]
    return max(used, key=lambda state: state.rank)


def journal(problem: str, remedy: str, *, has_run: bool, kind: str) -> Line:
    """Judge the tables of the journal.

    Args:
        problem: why the tables cannot be used; empty if they can.
        remedy: how to solve the problem.
        has_run: whether tag-write or validate has ever run.
        kind: keyspace and bucket size, for people.
    """
    if not problem:
        return Line(JOURNAL, PartState.OK, kind)
    return Line(JOURNAL, PartState.BAD if has_run else PartState.EMPTY, problem, remedy=remedy)


def chain(
    subject: str,
    ledger: LedgerSummary | None,
    *,
    expected: datetime | None,
    overdue_from: datetime | None,
    now: datetime,
    dag: str,
) -> Line:
    """Judge an application that works through time buckets; its schedule is that of `dag`.

    `ledger` is None if the application never ran. `expected` is the end of the time buckets that
    should be done by now, if known; if they are not done, the application is late from
    `overdue_from` on.
    """
    if ledger is None:
        return Line(subject, PartState.EMPTY, NOTHING_YET).with_remedy(unpause=dag)
    if failed := ledger.number(PieceState.FAILED):
        first = _at(ledger.failed.start) if ledger.failed else "?"
        why = f": {ledger.error}" if ledger.error else ""
        what = f"{_buckets(failed, ledger)} failed, the first is {first}{why}"
        line = Line(subject, PartState.BAD, what, ledger.failed_since)
        return line.with_remedy(_retry(subject, ledger))
    done = ledger.newest_done
    reached = f"done up to {_at(done)}"
    is_behind = expected is not None and (done is None or done < expected)
    if is_behind and overdue_from is not None and overdue_from <= now:
        return _behind(subject, ledger, expected, overdue_from, reached, dag)
    waiting = ledger.number(PieceState.HELD, PieceState.PLANNED) + (ledger.missing or 0)
    if waiting and not ledger.number(PieceState.RUNNING):
        what = f"{_buckets(waiting, ledger)} wait for the next run: {ledger.error or 'not begun'}"
        line = Line(subject, PartState.LATE, what, ledger.last_ended)
        return line.with_remedy(Remedy(_APPLICATIONS[subject]))
    if not ledger.is_complete:
        what = f"{reached}; the ledger has more open time buckets than one answer reads"
        return Line(subject, PartState.UNKNOWN, what, remedy=f"{program(STATUS)} time-buckets")
    return Line(subject, PartState.OK, reached, ledger.last_ended)


def _behind(
    subject: str,
    ledger: LedgerSummary,
    expected: datetime | None,
    overdue_from: datetime,
    reached: str,
    dag: str,
) -> Line:
    what = f"{reached}, expected up to {_at(expected)}"
    run = _of_window(subject, ledger.newest_done or ledger.first, expected)
    if ledger.last_ended is not None and ledger.last_ended < overdue_from:
        since = ledger.last_ended
        stopped = f"nothing has run since {_day(since)}; {what}"
        return Line(subject, PartState.STOPPED, stopped, since).with_remedy(run, unpause=dag)
    return Line(subject, PartState.LATE, what, overdue_from).with_remedy(run)


def checks(
    line: Line, blocking: int, warning: int, *, has_more: bool, since: datetime | None
) -> Line:
    """Add the open findings to the line of validate's ledger.

    Args:
        line: the line judged by the ledger alone.
        blocking: number of open findings that block, as far as they were read.
        warning: number of open findings that warn, as far as they were read.
        has_more: whether there are findings that were not read.
        since: when the oldest blocking finding was first seen.
    """
    plus = "+" if has_more else ""
    if blocking:
        repair = Remedy(RECONCILE, "repair", {"from-findings": True})
        what = f"{_count(blocking, 'open finding', plus)} that block"
        if line.state is PartState.BAD:
            what = f"{what}; {line.what}"
        return Line(line.subject, PartState.BAD, what, since or line.since).with_remedy(repair)
    if has_more and line.state is PartState.OK:
        what = f"{line.what}; there are more open findings than one answer reads"
        return Line(line.subject, PartState.UNKNOWN, what, remedy=f"{program(STATUS)} findings")
    if warning and line.state is PartState.OK:
        what = f"{line.what}; {counted(warning, 'warning')}"
        return Line(line.subject, line.state, what, line.since)
    return line


def projections(states: Sequence[ProjectionState], *, overdue: bool, dag: str) -> Line:
    """Judge the projections together, by the worst state; their schedule is that of `dag`.

    `overdue` if project should have followed the last run of validate by now.
    """
    subject = "projections"
    if not states:
        return Line(subject, PartState.EMPTY, "no projection is defined")
    if all(projection.condition is Condition.NOT_BEGUN for projection in states):
        return Line(subject, PartState.EMPTY, NOTHING_YET).with_remedy(unpause=dag)
    judged = [(_part_state(projection, overdue=overdue), projection) for projection in states]
    state = max((state for state, _ in judged), key=lambda part_state: part_state.rank)
    worst = [projection for part_state, projection in judged if part_state is state]
    if state is PartState.OK:
        ended = [projection.last_ended for projection in states if projection.last_ended]
        what = f"{counted(len(states), 'projection')} up to date"
        return Line(subject, state, what, max(ended, default=None))
    names = ", ".join(f"{named.name} ({_why(named)})" for named in worst[:_MOST_NAMED])
    others = f" and {len(worst) - _MOST_NAMED} more" if len(worst) > _MOST_NAMED else ""
    since = min(
        (at for projection in worst if (at := projection.paused_at or projection.last_ended)),
        default=None,
    )
    line = Line(subject, state, f"{names}{others}", since)
    remedy = _remedy_of(worst[0])
    return replace(line, remedy=remedy) if isinstance(remedy, str) else line.with_remedy(remedy)


def _part_state(projection: ProjectionState, *, overdue: bool) -> PartState:
    if projection.condition in _BROKEN or projection.quarantined.is_positive:
        return PartState.BAD
    if projection.condition in (Condition.PAUSED, Condition.HELD):
        return PartState.LATE
    if projection.is_late is not None:
        return PartState.LATE if projection.is_late else PartState.OK
    if projection.condition is Condition.BEHIND or projection.open.is_positive:
        return PartState.LATE if overdue else PartState.OK
    return PartState.UNKNOWN if projection.lag_seconds.number is None else PartState.OK


def _why(projection: ProjectionState) -> str:
    if projection.condition in (Condition.UNUSABLE, Condition.TABLE_MISSING):
        return projection.problem
    parts = [str(projection.condition)]
    if projection.condition is Condition.FAILED:
        parts = [f"{(projection.states or {}).get('failed', 0):,} failed: {projection.last_error}"]
    if projection.condition is Condition.HELD:
        parts = [projection.gap]
    if projection.is_late:
        promise = timedelta(seconds=projection.fresh_within_seconds or 0)
        parts.append(f"complete up to {_at(projection.complete_to)}, promised within {promise}")
    if projection.quarantined.is_positive:
        parts.append(f"{projection.quarantined} in quarantine")
    if projection.open.is_positive:
        parts.append(f"{projection.open} open")
    return ", ".join(parts)


def _remedy_of(projection: ProjectionState) -> Remedy | str:
    """Return the run, or the command that shows more; empty if there is nothing to do."""
    match projection.condition:
        case Condition.PAUSED:
            return Remedy(PROJECT, "resume", arguments=[projection.name])
        case Condition.UNUSABLE | Condition.TABLE_MISSING | Condition.FAILED | Condition.HELD:
            return str(Remedy(PROJECT, "status", arguments=[projection.name]))
        case _ if projection.quarantined.is_positive:
            return str(Remedy(PROJECT, "quarantine list", arguments=[projection.name]))
        case Condition.BEHIND | Condition.NOT_BEGUN if projection.oldest_open and projection.newest:
            options = {
                "projection": projection.name,
                "window-start": iso(projection.oldest_open),
                "window-end": iso(projection.newest),
            }
            return Remedy(PROJECT, options=options)
    return ""


def replication(
    partitions: Sequence[PartitionState], *, has_more: bool, now: datetime, dag: str
) -> Line:
    """Judge the topic partitions together; `has_more` if some were not read.

    The schedule is that of `dag`.
    """
    subject = "replication"
    if not partitions:
        return Line(subject, PartState.EMPTY, NOTHING_YET)
    holding = [partition for partition in partitions if partition.held_keys.is_positive]
    if holding:
        key_count = sum(partition.held_keys.number or 0 for partition in holding)
        is_bound = has_more or any(partition.held_keys.is_at_least for partition in holding)
        what = (
            f"{key_count:,}{'+' if is_bound else ''} keys held in"
            f" {counted(len(holding), 'topic partition')}"
        )
        since = min((held.held_since for held in holding if held.held_since), default=None)
        line = Line(subject, PartState.BAD, what, since)
        return line.with_remedy(Remedy(REPLICATE, "replay"))
    oldest = min(partitions, key=lambda partition: partition.replicated_to)
    partition_count = f"{len(partitions):,}{'+' if has_more else ''} topic partitions"
    if now - oldest.replicated_to > REPLICATED_WITHIN:
        what = (
            f"nothing has run since {_day(oldest.replicated_to)} for"
            f" {oldest.topic}/{oldest.partition}; {partition_count}"
        )
        line = Line(subject, PartState.STOPPED, what, oldest.replicated_to)
        return line.with_remedy(Remedy(REPLICATE), unpause=dag)
    what = f"{partition_count} replicated up to {_at(oldest.replicated_to)}"
    return Line(subject, PartState.OK, what, oldest.replicated_to)


def purge(policies: Sequence[PolicyState], tag_views: LedgerSummary | None) -> Line:
    """Judge the latest results of purge: of its policies, and of the ledger of purged tag views."""
    subject = "purge"
    failed = [policy for policy in policies if policy.state is PieceState.FAILED]
    if failed:
        first = failed[0]
        what = f"the policy {first.name} failed: {first.error}"
        line = Line(subject, PartState.BAD, what, first.finished_at)
        return line.with_remedy(Remedy(PURGE, options={"policy": first.name}))
    if tag_views is not None and (failed_buckets := tag_views.number(PieceState.FAILED)):
        what = f"{_buckets(failed_buckets, tag_views)} of tag views failed: {tag_views.error}"
        line = Line(subject, PartState.BAD, what, tag_views.failed_since)
        return line.with_remedy(Remedy(PURGE))
    ended = [policy.finished_at for policy in policies if policy.finished_at]
    if tag_views is not None and tag_views.last_ended is not None:
        ended.append(tag_views.last_ended)
    if not ended:
        return Line(subject, PartState.EMPTY, "nothing was purged yet")
    return Line(subject, PartState.OK, f"last applied {_at(max(ended))}", max(ended))


def groups(streams: Sequence[StreamState], *, now: datetime) -> Line:
    """Judge the streams of event groups together."""
    subject = "groups"
    if not streams:
        return Line(subject, PartState.EMPTY, NOTHING_YET)
    stuck_streams = [stream for stream in streams if stream.stuck]
    if stuck_streams:
        first = stuck_streams[0]
        what = f"{first.stuck[0]} of stream {first.stream} is not rolled back; {first.held} held"
        show = Remedy(RUN_EVENT_GROUPS, "status", {"stream": first.stream}, [first.stuck[0]])
        return Line(subject, PartState.BAD, what, first.oldest_submitted_at, str(show))
    open_streams = [
        stream for stream in streams if stream.open.is_positive and stream.oldest_submitted_at
    ]
    oldest = min(open_streams, key=lambda stream: stream.oldest_submitted_at or now, default=None)
    if oldest is None:
        return Line(subject, PartState.OK, f"no group is open in {counted(len(streams), 'stream')}")
    submitted_at = oldest.oldest_submitted_at or now
    what = f"{oldest.open} open in stream {oldest.stream}, the first is {oldest.oldest_open}"
    if now - submitted_at > GROUPS_WITHIN:
        line = Line(subject, PartState.LATE, what, submitted_at)
        return line.with_remedy(Remedy(RUN_EVENT_GROUPS, options={"stream": oldest.stream}))
    return Line(subject, PartState.OK, what, submitted_at)


def observation(
    last: Observation | None, alarms: Sequence[Alarm], *, now: datetime, dag: str
) -> Line:
    """Judge the age of the last observation, if it was scheduled by `dag`.

    `alarms` are the open alarms.
    """
    subject = "observation"
    if last is None:
        return Line(subject, PartState.EMPTY, NOTHING_YET).with_remedy(unpause=dag)
    if last.every_minutes and now - last.at > MISSED_RUNS * timedelta(minutes=last.every_minutes):
        what = f"nothing was observed since {_day(last.at)}, so no alarm is raised"
        return Line(subject, PartState.STOPPED, what, last.at).with_remedy(unpause=dag)
    if not alarms:
        return Line(subject, PartState.OK, "no alarm is open", last.at)
    names = "; ".join(f"{alarm.kind} {alarm.subject}" for alarm in alarms[:_MOST_NAMED])
    what = f"{counted(len(alarms), 'open alarm')}: {names}"
    return Line(subject, PartState.LATE, what, min(alarm.since for alarm in alarms))


def _retry(subject: str, ledger: LedgerSummary) -> Remedy:
    if ledger.failed is None:
        return Remedy(_APPLICATIONS[subject])
    return _of_window(subject, ledger.failed.start, ledger.failed.end)


def _of_window(subject: str, start: datetime | None, end: datetime | None) -> Remedy:
    bounds = {"window-start": _at(start), "window-end": _at(end)}
    return Remedy(_APPLICATIONS[subject], options=bounds)


def _buckets(number: int, ledger: LedgerSummary) -> str:
    return _count(number, "time bucket", "" if ledger.is_complete else "+")


def _count(number: int, noun: str, plus: str) -> str:
    """Return a number with its noun; `plus` is `+` for a lower bound, else empty."""
    return f"{number:,}+ {noun}s" if plus else counted(number, noun)


def _at(moment: datetime | None) -> str:
    return "?" if moment is None else iso(moment.replace(microsecond=0))


def _day(moment: datetime) -> str:
    """Return a moment for people, with its day of the week."""
    return f"{moment:%A %Y-%m-%d %H:%M}"
