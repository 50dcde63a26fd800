"""The rules of the overview: what is ok, late, bad or unknown, since when, and what to do. No I/O.

*bad* needs somebody: a later run alone does not put it right. *late* is behind its schedule, or
behind what it follows, and runs make up for it. *stopped* is late, and nothing of it has run since.
*empty* has never run. *unknown* is what a bounded read cannot tell.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
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
"""How long after each other runs of tag-write start, by the value of TIDEMARK_CADENCE."""
MISSED_RUNS = 2
"""How many starts of the schedule may pass before it counts as late."""
FOLLOWS_WITHIN = timedelta(hours=1)
"""How long a run may take to follow the one before it: validate tag-write, project validate."""
GROUPS_WITHIN = timedelta(hours=1)
"""How long an event group may be open."""
REPLICATED_WITHIN = timedelta(minutes=15)
"""How long ago a topic partition may have been replicated: three runs of every five minutes."""
JOURNAL, TAG_VIEWS, CHECKS = "journal", "tag views", "checks"
_BROKEN = (Condition.UNUSABLE, Condition.TABLE_MISSING, Condition.FAILED)
_NAMED = 3


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
        """Return how bad it is."""
        return list(PartState).index(self)


@dataclass(frozen=True)
class Line:
    """What the overview says of one subject.

    Attributes:
        subject: the subject.
        state: its state.
        what: why, in a clause.
        since: since when; None if nothing stored says it.
        remedy: what to do, a command if there is one; empty if nothing is to be done.
    """

    subject: str
    state: PartState
    what: str
    since: datetime | None = None
    remedy: str = ""


NOTHING_YET = "nothing has run yet"


def period_of(cadence: str) -> timedelta | None:
    """Return the time from one scheduled run to the next; None if nothing starts by time.

    Raises:
        InvalidInput: it is no value of TIDEMARK_CADENCE.
    """
    if cadence not in CADENCES:
        raise InvalidInput(
            f"there is no cadence {cadence!r}",
            where="--cadence, TIDEMARK_CADENCE",
            do=f"choose among {', '.join(CADENCES)}",
        )
    return CADENCES[cadence]


def overall(lines: Sequence[Line]) -> PartState:
    """Return the worst state of lines; EMPTY if no application has ever run.

    The line of a part that is not in use, or has not begun, makes nothing worse.
    """
    if all(line.state is PartState.EMPTY for line in lines if line.subject != JOURNAL):
        return PartState.EMPTY
    used = [line.state for line in lines if line.state is not PartState.EMPTY]
    return max(used, key=lambda state: state.rank)


def journal(problem: str, remedy: str, *, has_run: bool, kind: str) -> Line:
    """Judge the tables of the journal.

    Args:
        problem: why they cannot be used; empty if they can.
        remedy: what to do about that.
        has_run: whether tag-write or validate have ever run.
        kind: what is there, for people.
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
) -> Line:
    """Judge an application that works through time buckets.

    Args:
        subject: the name of the line.
        ledger: its ledger; None if it never ran.
        expected: the end of what it should have done by now; None if nothing says it.
        overdue_from: since when it is late, if it has not done all that is expected.
        now: the present.
    """
    if ledger is None:
        remedy = f"airflow dags unpause {_dag(subject)}"
        return Line(subject, PartState.EMPTY, NOTHING_YET, remedy=remedy)
    if failed := ledger.number(PieceState.FAILED):
        first = _at(ledger.failed.start) if ledger.failed else "?"
        why = f": {ledger.error}" if ledger.error else ""
        what = f"{_more(failed, ledger)} failed, the first is {first}{why}"
        return Line(subject, PartState.BAD, what, ledger.failed_since, _again(subject, ledger))
    done = ledger.newest_done
    reached = f"done up to {_at(done)}"
    is_behind = expected is not None and (done is None or done < expected)
    if is_behind and overdue_from is not None and overdue_from <= now:
        return _behind(subject, ledger, expected, overdue_from, reached)
    held = ledger.number(PieceState.HELD, PieceState.PLANNED) + (ledger.missing or 0)
    if held and not ledger.number(PieceState.RUNNING):
        what = f"{_more(held, ledger)} wait for the next run: {ledger.error or 'not begun'}"
        return Line(subject, PartState.LATE, what, ledger.last_ended, _command(subject))
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
) -> Line:
    what = f"{reached}, expected up to {_at(expected)}"
    command = (
        f"{_command(subject)} --window-start {_at(ledger.newest_done or ledger.first)}"
        f" --window-end {_at(expected)}"
    )
    if ledger.last_ended is not None and ledger.last_ended < overdue_from:
        since = ledger.last_ended
        stopped = f"nothing has run since {_day(since)}; {what}"
        remedy = f"airflow dags unpause {_dag(subject)}; or {command}"
        return Line(subject, PartState.STOPPED, stopped, since, remedy)
    return Line(subject, PartState.LATE, what, overdue_from, command)


def checks(
    line: Line, blocking: int, warning: int, *, has_more: bool, since: datetime | None
) -> Line:
    """Add the open findings to the line of validate's ledger.

    Args:
        line: the line by the ledger alone.
        blocking: open findings that block, of those that were read.
        warning: those that warn.
        has_more: whether there are more than were read.
        since: when the first of the blocking ones was first seen.
    """
    more = "+" if has_more else ""
    if blocking:
        repair = Remedy(RECONCILE, "repair", {"found": True})
        what = f"{_number(blocking, 'open finding', more)} that block"
        if line.state is PartState.BAD:
            what = f"{what}; {line.what}"
        return Line(line.subject, PartState.BAD, what, since or line.since, str(repair))
    if warning and line.state is PartState.OK:
        what = f"{line.what}; {_number(warning, 'warning', more)}"
        return Line(line.subject, line.state, what, line.since)
    return line


def projections(states: Sequence[ProjectionState], *, overdue: bool) -> Line:
    """Judge the projections together, by the worst of them.

    Args:
        states: all of them.
        overdue: whether what validate has passed was there long enough to be processed.
    """
    subject = "projections"
    if not states:
        return Line(subject, PartState.EMPTY, "no projection is defined")
    if all(one.condition is Condition.NOT_BEGUN for one in states):
        return Line(subject, PartState.EMPTY, NOTHING_YET, remedy="airflow dags unpause project")
    judged = [(_of_projection(one, overdue=overdue), one) for one in states]
    state = max((state for state, _ in judged), key=lambda each: each.rank)
    chosen = [one for each, one in judged if each is state]
    if state is PartState.OK:
        ended = [one.last_ended for one in states if one.last_ended]
        what = f"{counted(len(states), 'projection')} up to date"
        return Line(subject, state, what, max(ended, default=None))
    named = ", ".join(f"{one.name} ({_why(one)})" for one in chosen[:_NAMED])
    more = f" and {len(chosen) - _NAMED} more" if len(chosen) > _NAMED else ""
    since = min((at for one in chosen if (at := one.paused_at or one.last_ended)), default=None)
    return Line(subject, state, f"{named}{more}", since, remedy_of(chosen[0]))


def _of_projection(one: ProjectionState, *, overdue: bool) -> PartState:
    if one.condition in _BROKEN or one.quarantined.is_positive:
        return PartState.BAD
    if one.condition in (Condition.PAUSED, Condition.HELD):
        return PartState.LATE
    if one.condition is Condition.BEHIND or one.open.is_positive:
        return PartState.LATE if overdue else PartState.OK
    return PartState.UNKNOWN if one.lag_seconds.number is None else PartState.OK


def _why(one: ProjectionState) -> str:
    if one.condition in (Condition.UNUSABLE, Condition.TABLE_MISSING):
        return one.problem
    parts = [str(one.condition)]
    if one.condition is Condition.FAILED:
        parts = [f"{(one.states or {}).get('failed', 0):,} failed: {one.last_error}"]
    if one.condition is Condition.HELD:
        parts = [one.gap]
    if one.quarantined.is_positive:
        parts.append(f"{one.quarantined} in quarantine")
    if one.open.is_positive:
        parts.append(f"{one.open} open")
    return ", ".join(parts)


def remedy_of(one: ProjectionState) -> str:
    """Return what to do about a projection; empty if nothing is to be done."""
    match one.condition:
        case Condition.UNUSABLE | Condition.TABLE_MISSING:
            return f"{program(PROJECT)} status {one.name}"
        case Condition.PAUSED:
            return f"{program(PROJECT)} resume {one.name}"
        case Condition.FAILED | Condition.HELD:
            return f"{program(PROJECT)} status {one.name}"
        case _ if one.quarantined.is_positive:
            return f"{program(PROJECT)} quarantine list {one.name}"
        case Condition.BEHIND | Condition.NOT_BEGUN if one.oldest_open and one.newest:
            options = {
                "projection": one.name,
                "window-start": iso(one.oldest_open),
                "window-end": iso(one.newest),
            }
            return str(Remedy(PROJECT, options=options))
    return ""


def replication(partitions: Sequence[PartitionState], *, has_more: bool, now: datetime) -> Line:
    """Judge the topic partitions together.

    Args:
        partitions: those that were read.
        has_more: whether there are others.
        now: the present.
    """
    subject = "replication"
    if not partitions:
        return Line(subject, PartState.EMPTY, NOTHING_YET)
    held = [one for one in partitions if one.held_keys.is_positive]
    if held:
        keys = sum(one.held_keys.number or 0 for one in held)
        is_bound = has_more or any(one.held_keys.is_at_least for one in held)
        what = (
            f"{keys:,}{'+' if is_bound else ''} keys held in"
            f" {counted(len(held), 'topic partition')}"
        )
        since = min((one.held_since for one in held if one.held_since), default=None)
        return Line(subject, PartState.BAD, what, since, str(Remedy(REPLICATE, "replay")))
    oldest = min(partitions, key=lambda one: one.replicated_to)
    number = f"{len(partitions):,}{'+' if has_more else ''} topic partitions"
    if now - oldest.replicated_to > REPLICATED_WITHIN:
        what = (
            f"nothing has run since {_day(oldest.replicated_to)} for"
            f" {oldest.topic}/{oldest.partition}; {number}"
        )
        return Line(
            *(subject, PartState.STOPPED, what, oldest.replicated_to),
            f"airflow dags unpause replicate; or {Remedy(REPLICATE)}",
        )
    what = f"{number} replicated up to {_at(oldest.replicated_to)}"
    return Line(subject, PartState.OK, what, oldest.replicated_to)


def purge(policies: Sequence[PolicyState], tag_views: LedgerSummary | None) -> Line:
    """Judge what purge has done last.

    Args:
        policies: those that a run has applied.
        tag_views: the ledger of the tag views that were purged; None without one.
    """
    subject = "purge"
    failed = [one for one in policies if one.state is PieceState.FAILED]
    if failed:
        first = failed[0]
        remedy = str(Remedy(PURGE, options={"policy": first.name}))
        return Line(
            *(subject, PartState.BAD, f"the policy {first.name} failed: {first.error}"),
            *(first.finished_at, remedy),
        )
    if tag_views is not None and (number := tag_views.number(PieceState.FAILED)):
        what = f"{_more(number, tag_views)} of tag views failed: {tag_views.error}"
        return Line(subject, PartState.BAD, what, tag_views.failed_since, str(Remedy(PURGE)))
    ended = [one.finished_at for one in policies if one.finished_at]
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
    stuck = [one for one in streams if one.stuck]
    if stuck:
        first = stuck[0]
        what = f"{first.stuck[0]} of stream {first.stream} is not rolled back; {first.held} held"
        remedy = f"{program(RUN_EVENT_GROUPS)} status {first.stuck[0]} --stream {first.stream}"
        return Line(subject, PartState.BAD, what, first.oldest_submitted_at, remedy)
    open_ones = [one for one in streams if one.open.is_positive and one.oldest_submitted_at]
    oldest = min(open_ones, key=lambda one: one.oldest_submitted_at or now, default=None)
    if oldest is None:
        return Line(subject, PartState.OK, f"no group is open in {counted(len(streams), 'stream')}")
    at = oldest.oldest_submitted_at or now
    what = f"{oldest.open} open in stream {oldest.stream}, the first is {oldest.oldest_open}"
    if now - at > GROUPS_WITHIN:
        remedy = str(Remedy(RUN_EVENT_GROUPS, options={"stream": oldest.stream}))
        return Line(subject, PartState.LATE, what, at, remedy)
    return Line(subject, PartState.OK, what, at)


def _dag(subject: str) -> str:
    if os.environ.get("TIDEMARK_CHAIN") == "one-dag":
        return "chain"
    return {TAG_VIEWS: "tag_write", CHECKS: "validate"}[subject]


def _command(subject: str) -> str:
    return program({TAG_VIEWS: TAG_WRITE, CHECKS: VALIDATE}[subject])


def _again(subject: str, ledger: LedgerSummary) -> str:
    if ledger.failed is None:
        return _command(subject)
    start, end = ledger.failed.start, ledger.failed.end
    return f"{_command(subject)} --window-start {_at(start)} --window-end {_at(end)}"


def _more(number: int, ledger: LedgerSummary) -> str:
    return _number(number, "time bucket", "" if ledger.is_complete else "+")


def _number(number: int, noun: str, more: str) -> str:
    """Return a number with its noun; `more` is `+` if it is a lower bound."""
    return f"{number:,}+ {noun}s" if more else counted(number, noun)


def _at(moment: datetime | None) -> str:
    return "?" if moment is None else iso(moment.replace(microsecond=0))


def _day(moment: datetime) -> str:
    """Return a moment for people, with its day of the week."""
    return f"{moment:%A %Y-%m-%d %H:%M}"
