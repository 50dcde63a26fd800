"""Alarms begin and end once, whatever happens in between."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tidemark.observations.alarms import (
    Alarm,
    AlarmCondition,
    AlarmEvent,
    AlarmKey,
    AlarmKind,
    AlarmMessage,
    AlarmState,
    observed,
    pending,
    received,
)

START = datetime(2026, 11, 30, tzinfo=UTC)
KEY = AlarmKey(AlarmKind.LATE, "projection totals")
OTHER = AlarmKey(AlarmKind.GAP, "projection latest")
STEPS = st.tuples(st.sampled_from([True, False, None]), st.booleans())
"""Whether the condition holds, and whether the notifier receives what is pending then."""


def condition(holds: bool | None, key: AlarmKey = KEY) -> AlarmCondition:
    return AlarmCondition(*key, holds, f"holds: {holds}")


def after(
    alarms: Sequence[Alarm], conditions: Sequence[AlarmCondition], now: datetime = START
) -> list[Alarm]:
    return [alarm for alarm in observed(alarms, conditions, now).values() if alarm is not None]


@given(st.lists(STEPS, max_size=30))
def test_messages_alternate_and_follow_the_condition(
    steps: Sequence[tuple[bool | None, bool]],
) -> None:
    alarms: list[Alarm] = []
    heard: list[AlarmEvent] = []
    holds = False
    for number, (seen, is_received) in enumerate(steps):
        holds = holds if seen is None else seen
        alarms = after(alarms, [condition(seen)], START + timedelta(minutes=number))
        if is_received:
            messages = pending(alarms)
            heard += [message.event for message in messages]
            alarms = [
                alarm
                for message in messages
                if (alarm := received(message.alarm, message.event)) is not None
            ] or [alarm for alarm in alarms if not messages]
            # Whoever has heard the messages knows the condition, and hears nothing twice.
            assert (heard[-1:] == [AlarmEvent.BEGINS]) is holds
            assert pending(alarms) == []
        assert any(alarm.state.is_open for alarm in alarms) is holds
    assert heard == [AlarmEvent.BEGINS, AlarmEvent.ENDS] * (len(heard) // 2) + (
        [AlarmEvent.BEGINS] if len(heard) % 2 else []
    )


@given(st.lists(STEPS, max_size=20), st.lists(STEPS, max_size=20))
def test_alarms_do_not_touch_each_other(
    first: Sequence[tuple[bool | None, bool]], second: Sequence[tuple[bool | None, bool]]
) -> None:
    together: list[Alarm] = []
    alone: list[Alarm] = []
    for (holds, _), (other, _) in zip(first, second, strict=False):
        together = after(together, [condition(holds), condition(other, OTHER)])
        alone = after(alone, [condition(holds)])
        assert [alarm for alarm in together if alarm.kind is KEY.kind] == alone


def test_an_alarm_keeps_its_beginning_and_takes_the_newest_facts() -> None:
    [begun] = after([], [AlarmCondition(*KEY, True, "2 h late")], START)
    [later] = after([begun], [AlarmCondition(*KEY, True, "3 h late")], START + timedelta(hours=1))
    assert (later.since, later.what, later.state) == (START, "3 h late", AlarmState.BEGUN)


def test_an_alarm_whose_subject_is_gone_is_over() -> None:
    alarm = Alarm(*KEY, AlarmState.OPEN, START, "late")
    assert pending(after([alarm], [])) == [
        AlarmMessage(AlarmEvent.ENDS, Alarm(*KEY, AlarmState.ENDED, START, "late"))
    ]


def test_a_beginning_that_nobody_heard_has_no_end() -> None:
    begun = after([], [condition(True)])
    assert observed(begun, [condition(False)], START) == {KEY: None}


def test_an_end_that_nobody_heard_is_taken_back() -> None:
    ended = Alarm(*KEY, AlarmState.ENDED, START, "late")
    [alarm] = after([ended], [condition(True)])
    assert alarm.state is AlarmState.OPEN


def test_an_alarm_that_began_again_before_its_end_was_confirmed_begins_again() -> None:
    reopened = Alarm(*KEY, AlarmState.OPEN, START, "late")
    alarm = received(reopened, AlarmEvent.ENDS)
    assert alarm is not None
    assert alarm.state is AlarmState.BEGUN
    assert received(None, AlarmEvent.BEGINS) is None
