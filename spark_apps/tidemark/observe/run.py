"""Observes the system: reads its state, stores the figures, and keeps the alarms."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tidemark import clock
from tidemark.cassandra.schema import create_own_tables
from tidemark.context import RunContext
from tidemark.observations import alarms, store
from tidemark.observations.alarms import Alarm, AlarmEvent, AlarmKey, AlarmMessage
from tidemark.observations.metrics import Observation, Sample
from tidemark.observe import conditions, facts


@dataclass(frozen=True)
class Observed:
    """The result of an observation.

    Attributes:
        observation: the figures; None if there is no observation yet.
        alarms: the open alarms.
        messages: what the notifier has to receive.
        lines: what could not be read, for people.
    """

    observation: Observation | None
    alarms: Sequence[Alarm]
    messages: Sequence[AlarmMessage]
    lines: Sequence[str] = ()


def observe(
    run: RunContext, *, paused_dags: Collection[str] | None, every_minutes: int | None
) -> Observed:
    """Observe the system and store the result.

    Args:
        run: the context.
        paused_dags: the DAGs with a schedule that are paused; None if Airflow was not asked.
        every_minutes: minutes between scheduled observations; None for one by hand.
    """
    create_own_tables(run.control, run.settings)
    now = clock.now()
    # Cassandra stores milliseconds.
    now = now.replace(microsecond=now.microsecond // 1000 * 1000)
    previous, stored_alarms = store.last(run), store.alarms(run)
    state = facts.read(run)
    samples = facts.samples(state, now)
    changed = alarms.observed(
        stored_alarms,
        [
            *conditions.of_promises(state, run.settings.fresh_within, now),
            *conditions.of_quarantines(samples, previous),
            *conditions.of_dags(state, paused_dags, stored_alarms),
        ],
        now,
    )
    # Before the observation: after a crash, the next run compares with the same observation again.
    store.write_alarms(run, changed)
    current = [alarm for _, alarm in sorted(changed.items()) if alarm is not None]
    open_alarms = [alarm for alarm in current if alarm.state.is_open]
    samples += [Sample("alarm", (alarm.kind, alarm.subject), 1.0) for alarm in open_alarms]
    observation = Observation(run.settings.journal_keyspace, now, samples, every_minutes)
    store.write(run, observation)
    return Observed(observation, open_alarms, alarms.pending(current), state.lines)


def last(run: RunContext) -> Observed:
    """Return the last observation, with the alarms as they are now."""
    current = store.alarms(run)
    return Observed(
        store.last(run),
        [alarm for alarm in current if alarm.state.is_open],
        alarms.pending(current),
    )


def confirm(run: RunContext, messages: Iterable[tuple[AlarmEvent, AlarmKey]]) -> None:
    """Record that the notifier has received messages."""
    current = {AlarmKey(alarm.kind, alarm.subject): alarm for alarm in store.alarms(run)}
    store.write_alarms(
        run, {key: alarms.received(current.get(key), event) for event, key in messages}
    )
