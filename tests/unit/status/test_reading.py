"""Bounded reads: what they leave out only makes numbers smaller, and pages leave out nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.cassandra.control import Control
from tidemark.ledger.frontier import partition
from tidemark.ledger.frontier.partition import HIGHEST, LOWEST, Partition
from tidemark.ledger.frontier.spans import Span, buckets_of
from tidemark.ledger.frontier.state import LedgerState
from tidemark.ledger.piece import PieceRow, State
from tidemark.ledger.reading.by_day import DAYS_READ, days_back
from tidemark.ledger.reading.pieces import BoundedStanding
from tidemark.ledger.reading.runs import RunRow
from tidemark.partitioning.keys import BucketSize
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.status.projections import Condition, described, measured
from tidemark.status.runs import DIED, progress

HOUR = 3_600_000
NOW = datetime(2026, 11, 30, 20, tzinfo=UTC)
VERSION = "1-a"


def row(hour: int, state: State, error: str | None = None) -> PieceRow:
    return PieceRow(hour * HOUR, state, 1, error=error, definition_version=VERSION, counts={"n": 1})


pieces = st.dictionaries(
    st.integers(0, 60),
    st.sampled_from(
        [
            (State.DONE, None),
            (State.DONE, None),
            (State.FAILED, "wrong"),
            (State.HELD, "gap: p|1 4 missing"),
            (State.PLANNED, None),
        ]
    ),
    min_size=1,
)


@given(pieces, st.sets(st.integers(0, 80), min_size=1), st.integers(1, 60))
def test_a_bounded_read_of_a_projection_gives_lower_bounds_and_the_same_lag(
    states: dict[int, tuple[State, str | None]], validated: set[int], most: int
) -> None:
    rows = [row(hour, *states[hour]) for hour in sorted(states)]
    read_to = rows[most].time_bucket - 1 if len(rows) > most else None
    ready = TimeBuckets.of([hour * HOUR for hour in validated], HOUR)
    full = BoundedStanding(LedgerState((), rows, HOUR), None)
    part = BoundedStanding(LedgerState((), rows[:most], HOUR), read_to)

    everything, bounded = measured(full, VERSION, ready), measured(part, VERSION, ready)

    assert set(bounded.open_buckets) <= set(everything.open_buckets)
    assert all(bounded.states[state] <= everything.states[state] for state in bounded.states)
    if bounded.open_buckets:
        assert bounded.lag == everything.lag
        assert bounded.open_buckets.first == everything.open_buckets.first
    if bounded.oldest_gap is not None:
        assert (bounded.oldest_gap, bounded.gap_age) == (everything.oldest_gap, everything.gap_age)
    if read_to is None:
        assert bounded == everything


def test_nothing_open_in_a_part_of_the_ledger_is_no_lag_of_zero() -> None:
    """Behind the rows that were read something may be open."""
    part = BoundedStanding(LedgerState((), [row(0, State.DONE)], HOUR), HOUR - 1)
    ready = TimeBuckets([(0, 10 * HOUR)], HOUR)
    now = measured(part, VERSION, ready)
    found = described("totals", 1, part, now, ready, is_complete=part.is_complete)
    assert found.lag_seconds.number is None
    assert found.open.is_at_least
    full = part._replace(read_to=None)
    one = TimeBuckets([(0, HOUR)], HOUR)
    found = described("totals", 1, full, measured(full, VERSION, one), one, is_complete=True)
    assert (found.lag_seconds.number, found.condition) == (0, Condition.UP_TO_DATE)


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 9)), max_size=400), st.integers(1, 8)
)
def test_few_ranges_hold_all_that_lies_outside_of_the_spans(
    places: list[tuple[int, int]], most: int
) -> None:
    parts = TimeBuckets([(at * HOUR, (at + length) * HOUR) for at, length in places], HOUR)
    spans = [Span(first, before, VERSION, 1, 0, 0) for first, before in parts.ranges]
    found = Partition(cast("Control", None), "t", "a", "s", BucketSize.HOUR)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(partition, "_MOST_RANGES", most)
        ranges = found._few_holes(spans)
    assert len(ranges) <= most
    assert ranges == sorted(ranges)
    holes = buckets_of(spans, HOUR).holes(LOWEST, HIGHEST)
    for first, before in holes:
        assert any(start <= first and before <= end for start, end in ranges)
    if len(holes) <= most:
        assert ranges == holes


@given(
    st.lists(st.integers(0, 3 * DAYS_READ), max_size=30).map(sorted),
    st.integers(1, 7),
)
def test_pages_by_day_have_every_row_once_and_ask_for_few_days(ages: list[int], limit: int) -> None:
    today = date(2026, 11, 30)
    stored = [(today - timedelta(days=age), number) for number, age in enumerate(ages)]
    oldest = today - timedelta(days=3 * DAYS_READ)
    found: list[tuple[date, int]] = []
    day: date | None = today
    skipped = 0
    while day is not None:
        asked: list[date] = []

        def read(
            of: date, most: int, skip: int = skipped, begin: date = day, asked: list[date] = asked
        ) -> Sequence[tuple[date, int]]:
            asked.append(of)
            rows = [each for each in stored if each[0] == of]
            return rows[skip if of == begin else 0 :][:most]

        page = days_back(read, day, oldest, limit)
        assert len(asked) <= DAYS_READ
        assert len(page.rows) <= limit
        found += page.rows
        day = page.next_day
        skipped = sum(each[0] == day for each in found) if page.goes_on_within else 0
    assert found == stored


def run_row(**more: object) -> RunRow:
    started = NOW - timedelta(seconds=100)
    values = {
        **{"run_id": "r", "application": "project", "owner": "o", "state": "running"},
        **{"started_at": started, "updated_at": started + timedelta(seconds=50)},
        **{"pieces_started": 31, "pieces_done": 12, "counts": {"events_read": 6000}},
    }
    return RunRow(**{**values, **more})  # type: ignore[arg-type]


class TestRuns:
    def test_pace_and_time_left(self) -> None:
        found = progress(run_row(), NOW, is_alive=True)
        assert (found.state, found.rows_per_second.number) == ("running", 60)
        assert found.seconds_left.number == round(100 / 12 * 19)

    def test_one_without_a_lock_has_died_and_its_pace_ends_with_its_last_sign(self) -> None:
        found = progress(run_row(), NOW, is_alive=False)
        assert (found.state, found.rows_per_second.number) == (DIED, 120)
        assert found.seconds_left.number == 0

    def test_one_that_has_ended_is_as_its_report_says(self) -> None:
        ended = run_row(state="failed", finished_at=NOW - timedelta(seconds=40), error="wrong")
        found = progress(ended, NOW, is_alive=True)
        assert (found.state, found.error) == ("failed", "wrong")
        assert found.rows_per_second.number == 100
        assert found.seconds_left.number == 0

    def test_what_is_not_counted_is_unknown(self) -> None:
        assert progress(run_row(application="purge"), NOW, is_alive=True).rows.number is None
        begun = progress(run_row(pieces_done=0), NOW, is_alive=True)
        assert begun.seconds_left.unknown == "nothing that it has started is done yet"
        new = progress(run_row(started_at=NOW), NOW, is_alive=True)
        assert new.rows_per_second.number is None
