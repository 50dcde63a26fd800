"""The conditions that raise alarms. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from tidemark.ledger.applications import REPLICATE
from tidemark.observations.alarms import Alarm, AlarmCondition, AlarmKind
from tidemark.observations.metrics import Observation, Sample
from tidemark.observe.facts import Facts
from tidemark.status.projections import Condition, ProjectionState, is_late
from tidemark.window import iso

_QUARANTINES = ("projection_quarantined_events", "topic_partition_held_records")


def of_promises(
    facts: Facts, promises: Mapping[str, int], now: datetime
) -> Iterator[AlarmCondition]:
    """Return the conditions of late applications and projections, and of gaps that are held.

    `promises` are seconds by application. An application that has never run breaks its promise.
    """
    for application, within in promises.items():
        ledger = facts.ledgers.get(application)
        done_to = None if ledger is None else ledger.done_until or ledger.first
        complete_to = facts.replicated_to if application == REPLICATE else done_to
        what = (
            "nothing has run yet" if complete_to is None else f"complete up to {iso(complete_to)}"
        )
        yield AlarmCondition(
            *(AlarmKind.LATE, application, is_late(complete_to, within, now) is not False),
            _promised(what, within),
        )
    for projection in facts.projections:
        yield from _of_projection(projection, now)


def _of_projection(projection: ProjectionState, now: datetime) -> Iterator[AlarmCondition]:
    subject, within = _projection(projection.name), projection.fresh_within_seconds
    if projection.condition is Condition.UNUSABLE:
        for kind in (AlarmKind.LATE, AlarmKind.GAP, AlarmKind.QUARANTINE):
            yield AlarmCondition(kind, subject, None, projection.problem)
    if within is None:
        return
    complete_to = projection.complete_to
    what = "nothing is known" if complete_to is None else f"complete up to {iso(complete_to)}"
    yield AlarmCondition(AlarmKind.LATE, subject, projection.is_late, _promised(what, within))
    gap = projection.oldest_gap
    if gap is None:
        holds = False if projection.is_complete else None
        yield AlarmCondition(AlarmKind.GAP, subject, holds, "no gap is held")
    else:
        what = f"the time bucket {iso(gap)} is held: {projection.gap}"
        yield AlarmCondition(
            AlarmKind.GAP, subject, is_late(gap, within, now), _promised(what, within)
        )


def of_quarantines(
    samples: Iterable[Sample], previous: Observation | None
) -> Iterator[AlarmCondition]:
    """Return the conditions of quarantines, which begin when a number grows.

    They end when the number shrinks or is 0; a number that stays changes nothing.
    """
    before = {sample[:2]: sample.value for sample in previous.samples} if previous else None
    for sample in samples:
        if sample.name not in _QUARANTINES:
            continue
        was = None if before is None else before.get(sample[:2], 0)
        subject = (
            _projection(*sample.labels)
            if len(sample.labels) == 1
            else f"topic partition {'-'.join(sample.labels)}"
        )
        holds = None
        if was is not None and sample.value > was:
            holds = True
        elif sample.value == 0 or (was is not None and sample.value < was):
            holds = False
        what = f"{sample.value:,.0f} in quarantine, before {was or 0:,.0f}"
        yield AlarmCondition(AlarmKind.QUARANTINE, subject, holds, what)


def of_dags(
    facts: Facts, paused: Collection[str] | None, alarms: Sequence[Alarm]
) -> Iterator[AlarmCondition]:
    """Return the conditions of paused DAGs whose application has run before.

    `paused` are the DAGs with a schedule that are paused; None if Airflow was not asked.
    """
    if paused is None:
        for alarm in alarms:
            if alarm.kind is AlarmKind.PAUSED:
                yield AlarmCondition(alarm.kind, alarm.subject, None, alarm.what)
        return
    for dag_id in paused:
        # A DAG of an entry of journals.yaml is named <DAG>.<journal>, and a DAG of a further
        # connection of Kafka replicate_<connection>.
        name = dag_id.partition(".")[0]
        name = REPLICATE if name.startswith(f"{REPLICATE}_") else name
        if name in facts.dags_in_use:
            yield AlarmCondition(
                AlarmKind.PAUSED, f"DAG {dag_id}", True, "paused, although it has a schedule"
            )


def _projection(name: str) -> str:
    return f"projection {name}"


def _promised(what: str, within_seconds: int) -> str:
    return f"{what}, promised within {timedelta(seconds=within_seconds)}"
