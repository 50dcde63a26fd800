"""Alarms: when they begin and end, and which messages the notifier has to receive. No I/O.

A message is pending until `received` confirms it. So an observation by hand takes no message from
the DAG, and a notifier that fails gets the message again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class AlarmKind(StrEnum):
    """What an alarm is about."""

    LATE = "late"
    GAP = "gap"
    PAUSED = "paused"
    QUARANTINE = "quarantine"


class AlarmState(StrEnum):
    """The state of an alarm; one that is over and whose end is confirmed has none."""

    BEGUN = "begun"
    OPEN = "open"
    ENDED = "ended"

    @property
    def is_open(self) -> bool:
        """Whether the alarm is not over."""
        return self is not AlarmState.ENDED


class AlarmEvent(StrEnum):
    """What a message reports of an alarm."""

    BEGINS = "begins"
    ENDS = "ends"


@dataclass(frozen=True)
class AlarmCondition:
    """A condition that raises an alarm.

    Attributes:
        kind: kind of the alarm.
        subject: what the alarm is about, such as `projection totals`.
        holds: whether the alarm is to be open; None if that is unknown, which changes nothing.
        what: the facts, in a clause.
    """

    kind: AlarmKind
    subject: str
    holds: bool | None
    what: str


@dataclass(frozen=True)
class Alarm:
    """An alarm that is open, or has a pending message.

    Attributes:
        kind: kind of the alarm.
        subject: what the alarm is about.
        state: the state.
        since: when the alarm began.
        what: the facts, in a clause.
    """

    kind: AlarmKind
    subject: str
    state: AlarmState
    since: datetime
    what: str


class AlarmKey(NamedTuple):
    """The key of an alarm."""

    kind: AlarmKind
    subject: str


class AlarmMessage(NamedTuple):
    """A message for the notifier."""

    event: AlarmEvent
    alarm: Alarm


_NEXT: Mapping[tuple[AlarmState | None, bool], AlarmState | None] = {
    (None, True): AlarmState.BEGUN,
    (AlarmState.BEGUN, True): AlarmState.BEGUN,
    (AlarmState.OPEN, True): AlarmState.OPEN,
    # Nobody has received the end, so for them the alarm has been open all the time.
    (AlarmState.ENDED, True): AlarmState.OPEN,
    (None, False): None,
    # Nobody has received the beginning, so nobody waits for the end.
    (AlarmState.BEGUN, False): None,
    (AlarmState.OPEN, False): AlarmState.ENDED,
    (AlarmState.ENDED, False): AlarmState.ENDED,
}
_RECEIVED: Mapping[tuple[AlarmState | None, AlarmEvent], AlarmState | None] = {
    (AlarmState.BEGUN, AlarmEvent.BEGINS): AlarmState.OPEN,
    (AlarmState.ENDED, AlarmEvent.ENDS): None,
    # Another observation has changed the state before the confirmation.
    (AlarmState.OPEN, AlarmEvent.ENDS): AlarmState.BEGUN,
}


def observed(
    alarms: Iterable[Alarm], conditions: Iterable[AlarmCondition], now: datetime
) -> dict[AlarmKey, Alarm | None]:
    """Return each alarm after an observation; None if it is over and nothing is pending.

    An alarm without a condition is over: its projection or topic does not exist any more.
    """
    before = {AlarmKey(alarm.kind, alarm.subject): alarm for alarm in alarms}
    after = {key: _in_state(alarm, _NEXT[alarm.state, False]) for key, alarm in before.items()}
    for condition in conditions:
        key = AlarmKey(condition.kind, condition.subject)
        alarm = before.get(key)
        if condition.holds is None:
            if alarm is not None:
                after[key] = alarm
            continue
        state = _NEXT[alarm.state if alarm else None, condition.holds]
        if alarm is not None or state is not None:
            current = alarm or Alarm(*key, AlarmState.BEGUN, now, "")
            after[key] = _in_state(replace(current, what=condition.what), state)
    return after


def received(alarm: Alarm | None, event: AlarmEvent) -> Alarm | None:
    """Return an alarm after the notifier has received a message about it."""
    if alarm is None:
        return None
    return _in_state(alarm, _RECEIVED.get((alarm.state, event), alarm.state))


def pending(alarms: Iterable[Alarm]) -> Sequence[AlarmMessage]:
    """Return the messages that the notifier has to receive."""
    events = {AlarmState.BEGUN: AlarmEvent.BEGINS, AlarmState.ENDED: AlarmEvent.ENDS}
    return [AlarmMessage(events[alarm.state], alarm) for alarm in alarms if alarm.state in events]


def _in_state(alarm: Alarm, state: AlarmState | None) -> Alarm | None:
    return None if state is None else replace(alarm, state=state)
