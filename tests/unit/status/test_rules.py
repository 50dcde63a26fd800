"""The rules of the overview: ok, late, stopped, bad, unknown and empty, without Cassandra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.errors import InvalidInput
from tidemark.ledger.piece import State as PieceState
from tidemark.observations.alarms import Alarm, AlarmKind, AlarmState
from tidemark.observations.metrics import Observation
from tidemark.purge.policies.states import PolicyState
from tidemark.status import rules
from tidemark.status.event_groups import StreamState
from tidemark.status.page import (
    ZERO,
    Amount,
    bounded,
    state_of,
    state_token,
    token,
    unknown,
    values_of,
)
from tidemark.status.projections import Condition, ProjectionState
from tidemark.status.replication import PartitionState
from tidemark.status.rules import Line, PartState
from tidemark.status.time_buckets import FailedSpan, LedgerSummary

NOW = datetime(2026, 11, 30, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)
LATE = Alarm(AlarmKind.LATE, "validate", AlarmState.OPEN, NOW - HOUR, "3 h")


def ledger(
    states: Mapping[str, int] | None = None,
    *,
    done: datetime = NOW,
    ended: datetime = NOW,
    missing: int | None = 0,
    is_complete: bool = True,
    error: str = "",
) -> LedgerSummary:
    states = states or {"done": 9}
    is_failed = bool(states.get("failed"))
    return LedgerSummary(
        *("tag-write", "pekko", "Hour", states, is_complete, missing, done - 9 * HOUR),
        *(done, done, ended),
        FailedSpan(done, done + HOUR) if is_failed else None,
        ended if is_failed else None,
        error,
    )


def chain(
    found: LedgerSummary | None,
    *,
    expected: datetime | None = NOW,
    overdue_from: datetime | None = NOW,
    subject: str = rules.TAG_VIEWS,
    dag: str = "tag_write",
) -> Line:
    return rules.chain(
        subject, found, expected=expected, overdue_from=overdue_from, now=NOW, dag=dag
    )


class TestChain:
    def test_an_application_that_never_ran_is_empty(self) -> None:
        line = chain(None)
        assert (line.state, line.what) == (PartState.EMPTY, "nothing has run yet")
        assert line.remedy == "airflow dags unpause tag_write"

    def test_done_up_to_what_is_expected_is_ok(self) -> None:
        line = chain(ledger())
        assert (line.state, line.since) == (PartState.OK, NOW)
        assert line.what == "done up to 2026-11-30T20:00:00Z"

    def test_behind_but_not_overdue_is_ok(self) -> None:
        assert chain(ledger(done=NOW - HOUR), overdue_from=NOW + HOUR).state is PartState.OK

    def test_overdue_and_something_has_run_since_is_late(self) -> None:
        line = chain(ledger(done=NOW - HOUR, ended=NOW), overdue_from=NOW - HOUR)
        assert (line.state, line.since) == (PartState.LATE, NOW - HOUR)

    def test_overdue_and_nothing_has_run_since_is_stopped(self) -> None:
        tuesday = datetime(2026, 11, 24, 3, tzinfo=UTC)
        line = chain(ledger(done=tuesday, ended=tuesday), overdue_from=NOW - HOUR)
        assert (line.state, line.since) == (PartState.STOPPED, tuesday)
        assert line.what.startswith("nothing has run since Tuesday 2026-11-24 03:00; ")
        assert line.remedy == (
            "airflow dags unpause tag_write; or spark_apps/tag_write.py"
            " --window-start 2026-11-24T03:00:00Z --window-end 2026-11-30T20:00:00Z"
        )

    def test_without_a_schedule_nothing_is_late(self) -> None:
        old = NOW - timedelta(days=4000)
        assert (
            chain(ledger(done=old, ended=old), expected=None, overdue_from=None).state
            is PartState.OK
        )

    def test_a_failed_time_bucket_is_bad_even_if_it_is_late_as_well(self) -> None:
        found = ledger({"done": 8, "failed": 1}, done=NOW - HOUR, ended=NOW - HOUR, error="wrong")
        line = chain(found, overdue_from=NOW - HOUR)
        assert (line.state, line.since) == (PartState.BAD, NOW - HOUR)
        assert line.what == "1 time bucket failed, the first is 2026-11-30T19:00:00Z: wrong"
        assert line.remedy == (
            "spark_apps/tag_write.py --window-start 2026-11-30T19:00:00Z"
            " --window-end 2026-11-30T20:00:00Z"
        )

    @pytest.mark.parametrize(
        ("states", "missing"), [({"done": 8, "held": 1}, 0), ({"planned": 1}, 0), (None, 3)]
    )
    def test_what_waits_for_the_next_run_is_late(
        self, states: dict[str, int] | None, missing: int
    ) -> None:
        assert chain(ledger(states, missing=missing)).state is PartState.LATE

    def test_what_a_run_is_working_on_is_ok(self) -> None:
        assert chain(ledger({"done": 8, "planned": 1, "running": 1})).state is PartState.OK

    def test_a_ledger_that_was_not_read_to_its_end_is_unknown(self) -> None:
        assert chain(ledger(is_complete=False, missing=None)).state is PartState.UNKNOWN


class TestChecks:
    OK = Line(rules.CHECKS, PartState.OK, "done", NOW)

    def line(self, blocking: int, warning: int, *, has_more: bool = False) -> Line:
        return rules.checks(self.OK, blocking, warning, has_more=has_more, since=NOW - HOUR)

    def test_open_findings_that_block_are_bad(self) -> None:
        line = self.line(3, 1)
        assert (line.state, line.since) == (PartState.BAD, NOW - HOUR)
        assert line.what == "3 open findings that block"
        assert line.remedy == "spark_apps/reconcile.py repair --from-findings"

    @pytest.mark.parametrize("warning", [0, 2])
    def test_findings_that_were_not_read_may_block(self, warning: int) -> None:
        line = self.line(0, warning, has_more=True)
        assert (line.state, line.remedy) == (PartState.UNKNOWN, "spark_apps/status.py findings")

    def test_warnings_are_named_and_make_nothing_worse(self) -> None:
        line = self.line(0, 2)
        assert (line.state, line.what) == (PartState.OK, "done; 2 warnings")

    def test_without_findings_the_line_is_that_of_the_ledger(self) -> None:
        assert self.line(0, 0) is self.OK


def projection(condition: Condition, **more: object) -> ProjectionState:
    found = ProjectionState("totals", 1, condition, last_ended=NOW)
    return ProjectionState(**{**vars(found), **more})


class TestProjections:
    @pytest.mark.parametrize(
        ("found", "overdue", "state"),
        [
            (projection(Condition.UP_TO_DATE), True, PartState.OK),
            (projection(Condition.BEHIND, open=Amount(2)), False, PartState.OK),
            (projection(Condition.BEHIND, open=Amount(2)), True, PartState.LATE),
            (projection(Condition.HELD), False, PartState.LATE),
            (projection(Condition.PAUSED), False, PartState.LATE),
            (projection(Condition.FAILED), False, PartState.BAD),
            (projection(Condition.UNUSABLE), False, PartState.BAD),
            (projection(Condition.TABLE_MISSING), False, PartState.BAD),
            (projection(Condition.UP_TO_DATE, quarantined=Amount(1)), False, PartState.BAD),
            (
                projection(Condition.UP_TO_DATE, lag_seconds=unknown("why")),
                False,
                PartState.UNKNOWN,
            ),
            (projection(Condition.NOT_BEGUN), True, PartState.EMPTY),
            # With a promise, the promise decides, and not whether validate has run lately.
            (projection(Condition.BEHIND, open=Amount(2), is_late=True), False, PartState.LATE),
            (projection(Condition.BEHIND, open=Amount(2), is_late=False), True, PartState.OK),
            (projection(Condition.UP_TO_DATE, is_late=True), False, PartState.LATE),
            (projection(Condition.HELD, is_late=False), False, PartState.LATE),
            (projection(Condition.FAILED, is_late=False), False, PartState.BAD),
        ],
    )
    def test_one_projection(self, found: ProjectionState, overdue: bool, state: PartState) -> None:
        assert rules.projections([found], overdue=overdue, dag="project").state is state

    def test_the_worst_are_named_with_the_remedy_of_the_first(self) -> None:
        states = [
            projection(Condition.UP_TO_DATE, name="a"),
            *(
                projection(Condition.PAUSED, name=name, paused_at=NOW - hours * HOUR)
                for hours, name in enumerate("bcdef")
            ),
        ]
        line = rules.projections(states, overdue=False, dag="project")
        assert line.what == "b (paused), c (paused), d (paused) and 2 more"
        assert (line.since, line.remedy) == (NOW - 4 * HOUR, "spark_apps/project.py resume b")

    def test_one_that_has_not_begun_is_late_beside_others_if_there_is_something_to_do(self) -> None:
        begun = projection(Condition.UP_TO_DATE)
        new = projection(
            Condition.NOT_BEGUN, name="new", open=Amount(3), oldest_open=NOW - HOUR, newest=NOW
        )
        assert rules.projections([begun, new], overdue=True, dag="project").remedy == (
            "spark_apps/project.py --projection new --window-start 2026-11-30T19:00:00Z"
            " --window-end 2026-11-30T20:00:00Z"
        )
        idle = projection(Condition.NOT_BEGUN, name="idle")
        assert rules.projections([begun, idle], overdue=True, dag="project").state is PartState.OK

    def test_no_definition_is_empty(self) -> None:
        assert rules.projections([], overdue=True, dag="project").state is PartState.EMPTY


@pytest.mark.parametrize(
    ("minutes", "every", "alarms", "state"),
    [
        (10, 5, (), PartState.OK),
        (10.1, 5, (), PartState.STOPPED),
        (10.1, 5, (LATE,), PartState.STOPPED),
        (10.1, None, (), PartState.OK),
        (1, 5, (LATE,), PartState.LATE),
    ],
)
def test_an_observation_is_missed_after_two_of_its_intervals(
    minutes: float, every: int | None, alarms: Sequence[Alarm], state: PartState
) -> None:
    last = Observation("pekko", NOW - timedelta(minutes=minutes), (), every)
    line = rules.observation(last, alarms, now=NOW, dag="observe")
    assert line.state is state
    assert bool(line.remedy) is (state is PartState.STOPPED)


def test_without_an_observation_its_line_is_empty() -> None:
    assert rules.observation(None, (), now=NOW, dag="observe").state is PartState.EMPTY


def partition(minutes: float, held: int = 0, *, is_bound: bool = False) -> PartitionState:
    at = NOW - timedelta(minutes=minutes)
    return PartitionState(
        *("orders", 0, at, 0, 1, 0, ZERO, Amount(held, is_bound)),
        held_since=NOW - HOUR if held else None,
    )


class TestReplication:
    @pytest.mark.parametrize(
        ("minutes", "held", "state"),
        [
            (1, 0, PartState.OK),
            (15, 0, PartState.OK),
            (16, 0, PartState.STOPPED),
            (16, 2, PartState.BAD),
        ],
    )
    def test_one_partition(self, minutes: float, held: int, state: PartState) -> None:
        line = rules.replication(
            [partition(minutes, held)], has_more=False, now=NOW, dag="replicate"
        )
        assert line.state is state

    def test_held_keys_are_added_up_as_a_bound(self) -> None:
        found = [partition(1, 2), partition(1, 1000, is_bound=True), partition(1)]
        line = rules.replication(found, has_more=False, now=NOW, dag="replicate")
        assert line.what == "1,002+ keys held in 2 topic partitions"
        assert (line.since, line.remedy) == (NOW - HOUR, "spark_apps/replicate.py replay")

    def test_the_partition_that_is_the_furthest_behind_counts(self) -> None:
        found = [partition(1), partition(60)]
        assert (
            rules.replication(found, has_more=False, now=NOW, dag="replicate").since == NOW - HOUR
        )

    def test_nothing_replicated_is_empty(self) -> None:
        assert (
            rules.replication([], has_more=False, now=NOW, dag="replicate").state is PartState.EMPTY
        )


def policy(state: PieceState, error: str | None = None) -> PolicyState:
    return PolicyState("old-rows", state, 1, "o", "r", NOW, NOW, error=error)


class TestPurge:
    def test_a_failed_policy_is_bad(self) -> None:
        line = rules.purge([policy(PieceState.DONE), policy(PieceState.FAILED, "lost")], None)
        assert (line.state, line.what) == (PartState.BAD, "the policy old-rows failed: lost")
        assert line.remedy == "spark_apps/purge.py --policy old-rows"

    def test_failed_tag_views_are_bad(self) -> None:
        line = rules.purge([], ledger({"failed": 2}, error="lost"))
        assert (line.state, line.what) == (
            PartState.BAD,
            "2 time buckets of tag views failed: lost",
        )

    def test_the_last_of_both_is_named(self) -> None:
        line = rules.purge([policy(PieceState.DONE)], ledger(ended=NOW - HOUR))
        assert (line.state, line.since) == (PartState.OK, NOW)

    def test_without_a_purge_it_is_empty(self) -> None:
        assert rules.purge([], None).state is PartState.EMPTY


def stream(open_groups: int, hours: float, *stuck: str) -> StreamState:
    at = NOW - timedelta(hours=hours) if open_groups else None
    return StreamState("default", Amount(open_groups), ZERO, stuck, "g1", at)


class TestGroups:
    @pytest.mark.parametrize(
        ("found", "state"),
        [
            (stream(0, 0), PartState.OK),
            (stream(2, 1), PartState.OK),
            (stream(2, 1.1), PartState.LATE),
            (stream(2, 0.1, "g1"), PartState.BAD),
        ],
    )
    def test_one_stream(self, found: StreamState, state: PartState) -> None:
        assert rules.groups([found], now=NOW).state is state

    def test_remedies(self) -> None:
        assert rules.groups([stream(2, 5)], now=NOW).remedy == (
            "spark_apps/run_event_groups.py --stream default"
        )
        assert rules.groups([stream(2, 5, "g1")], now=NOW).remedy == (
            "spark_apps/run_event_groups.py status g1 --stream default"
        )

    def test_no_stream_is_empty(self) -> None:
        assert rules.groups([], now=NOW).state is PartState.EMPTY


@pytest.mark.parametrize(
    ("problem", "has_run", "state"),
    [("", True, PartState.OK), ("gone", True, PartState.BAD), ("gone", False, PartState.EMPTY)],
)
def test_journal(problem: str, has_run: bool, state: PartState) -> None:
    assert rules.journal(problem, "do", has_run=has_run, kind="pekko").state is state


@given(st.lists(st.sampled_from(PartState), max_size=6), st.sampled_from(PartState))
def test_the_whole_is_as_its_worst_part_and_empty_only_without_any(
    states: list[PartState], journal: PartState
) -> None:
    lines = [Line("x", state, "") for state in states] + [Line(rules.JOURNAL, journal, "")]
    found = rules.overall(lines)
    if all(state is PartState.EMPTY for state in states):
        assert found is PartState.EMPTY
    else:
        worst_first = (
            PartState.BAD,
            PartState.STOPPED,
            PartState.LATE,
            PartState.UNKNOWN,
            PartState.OK,
        )
        assert found is next(one for one in worst_first if one in {*states, journal})


def test_cadences() -> None:
    assert rules.period_of("hourly") == HOUR
    assert rules.period_of("off") is None
    with pytest.raises(InvalidInput, match="daily, hourly, five-minutes, off"):
        rules.period_of("weekly")


@given(st.text(), st.integers(), st.binary(), st.integers())
def test_tokens_come_back_as_they_were(name: str, number: int, state: bytes, skip: int) -> None:
    assert values_of("kind", token("kind", name, number), str, int) == [name, number]
    assert state_of("kind", state_token("kind", state, skip)) == (state or None, skip)


@given(st.text())
def test_what_is_no_token_is_rejected_in_one_line(text: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        values_of("kind", text, str)
    assert "\n" not in str(raised.value)


def test_a_token_of_another_kind_or_shape_is_rejected() -> None:
    for wrong in (token("other", "a"), token("kind"), token("kind", 1), token("kind", "a", "b")):
        with pytest.raises(InvalidInput):
            values_of("kind", wrong, str)
    with pytest.raises(InvalidInput):
        state_of("kind", token("kind", "no hexadecimal digits", 0))


def test_amounts() -> None:
    assert str(bounded(1001, 1000)) == "1,000+"
    assert str(bounded(1000, 1000)) == "1,000"
    assert str(unknown("why")) == "unknown"
    assert not ZERO.is_positive
