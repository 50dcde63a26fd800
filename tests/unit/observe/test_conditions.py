"""Which states raise alarms, and which leave them as they are."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tidemark.observations.alarms import Alarm, AlarmKind, AlarmState
from tidemark.observations.metrics import Observation, Sample
from tidemark.observe.conditions import of_dags, of_promises, of_quarantines
from tidemark.observe.facts import Facts
from tidemark.status.page import unknown
from tidemark.status.projections import Condition, ProjectionState, is_late
from tidemark.status.replication import PartitionState
from tidemark.status.time_buckets import LedgerSummary

NOW = datetime(2026, 11, 30, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)
TWO_HOURS = 7200


def ledger(done_until: datetime | None) -> LedgerSummary:
    first = NOW - 9 * HOUR
    return LedgerSummary(
        *("tag-write", "pekko", "Hour", {"done": 9}, True, 0, first, done_until, NOW, NOW)
    )


def partition(replicated_to: datetime) -> PartitionState:
    return PartitionState("orders", 0, replicated_to, 0, None, None, unknown("not asked"))


def projection(complete_to: datetime | None, gap: datetime | None = None) -> ProjectionState:
    return ProjectionState(
        *("totals", 1, Condition.HELD if gap else Condition.UP_TO_DATE),
        oldest_gap=gap,
        gap="p|1 4 missing" if gap else "",
        complete_to=complete_to,
        fresh_within_seconds=TWO_HOURS,
        is_late=is_late(complete_to, TWO_HOURS, NOW),
    )


def holding(
    facts: Facts, promises: dict[str, int] | None = None
) -> dict[tuple[str, str], bool | None]:
    return {
        (condition.kind.value, condition.subject): condition.holds
        for condition in of_promises(facts, promises or {}, NOW)
    }


@pytest.mark.parametrize(
    ("facts", "application", "holds"),
    [
        (Facts({"tag-write": ledger(NOW - 2 * HOUR)}), "tag-write", False),
        (Facts({"tag-write": ledger(NOW - 2 * HOUR - timedelta(seconds=1))}), "tag-write", True),
        # The first time bucket is not done, although later ones are.
        (Facts({"validate": ledger(None)}), "validate", True),
        (Facts({}), "validate", True),
        (Facts({}, partitions=[partition(NOW), partition(NOW - 3 * HOUR)]), "replicate", True),
        (Facts({}, partitions=[partition(NOW)]), "replicate", False),
        (Facts({}), "replicate", True),
    ],
)
def test_an_application_is_late_by_what_it_has_completed(
    facts: Facts, application: str, holds: bool
) -> None:
    assert holding(facts, {application: TWO_HOURS}) == {("late", application): holds}


def test_without_a_promise_nothing_is_late() -> None:
    state = replace(projection(NOW - 9 * HOUR, NOW - 9 * HOUR), fresh_within_seconds=None)
    assert holding(Facts({"tag-write": ledger(None)}, [state])) == {}


@pytest.mark.parametrize(
    ("state", "late", "gap"),
    [
        (projection(NOW - HOUR), False, False),
        (projection(NOW - 3 * HOUR), True, False),
        (projection(NOW - HOUR, gap=NOW - HOUR), False, False),
        (projection(NOW - 3 * HOUR, gap=NOW - 3 * HOUR), True, True),
        (projection(None), None, False),
        (replace(projection(NOW - 3 * HOUR), is_complete=False), True, None),
    ],
)
def test_a_projection_is_late_and_its_gap_too_old_by_its_promise(
    state: ProjectionState, late: bool | None, gap: bool | None
) -> None:
    assert holding(Facts({}, [state])) == {
        ("late", "projection totals"): late,
        ("gap", "projection totals"): gap,
    }


def test_a_file_that_cannot_be_used_leaves_the_alarms_of_its_projection() -> None:
    state = ProjectionState("totals", None, Condition.UNUSABLE, "no SELECT")
    assert holding(Facts({}, [state])) == {
        (kind, "projection totals"): None for kind in ("late", "gap", "quarantine")
    }


@pytest.mark.parametrize(
    ("before", "number", "holds"),
    [(0, 0, False), (0, 1, True), (3, 4, True), (3, 3, None), (3, 2, False), (None, 1, True)],
)
def test_a_quarantine_alarms_when_it_grows_until_it_shrinks(
    before: int | None, number: int, holds: bool | None
) -> None:
    samples = [
        Sample("projection_quarantined_events", ("totals",), number),
        Sample("topic_partition_held_records", ("orders", "2"), number),
        Sample("projection_paused", ("totals",), number),
    ]
    earlier = [sample._replace(value=before) for sample in samples if before is not None]
    found = of_quarantines(samples, Observation("pekko", NOW, earlier))
    assert [(condition.subject, condition.holds) for condition in found] == [
        ("projection totals", holds),
        ("topic partition orders-2", holds),
    ]


def test_the_first_observation_cannot_tell_whether_a_quarantine_grows() -> None:
    [found] = of_quarantines([Sample("projection_quarantined_events", ("totals",), 3)], None)
    assert found.holds is None


def test_a_paused_dag_alarms_if_its_application_has_run_before() -> None:
    facts = Facts({"validate": ledger(NOW)}, [projection(NOW)], partitions=[partition(NOW)])
    paused = ["tag_write", "validate", "project", "purge", "replicate_carts", "event_groups"]
    paused += ["tag_write.orders", "validate.orders"]
    assert [condition.subject for condition in of_dags(facts, paused, [])] == [
        "DAG validate",
        "DAG replicate_carts",
        "DAG validate.orders",
    ]


def test_without_airflow_paused_dags_stay_as_they_are() -> None:
    alarm = Alarm(AlarmKind.PAUSED, "DAG validate", AlarmState.OPEN, NOW, "paused")
    [condition] = of_dags(Facts({}), None, [alarm, replace(alarm, kind=AlarmKind.LATE)])
    assert (condition.subject, condition.holds) == ("DAG validate", None)
    assert list(of_dags(Facts({}), [], [alarm])) == []
