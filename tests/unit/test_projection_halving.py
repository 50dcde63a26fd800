"""Batches that fail: only the pieces at fault do, and what is behind them waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.unit.test_projection_batches import work_of
from tidemark.errors import (
    CassandraUnavailable,
    DefinitionError,
    HistoryPurged,
    LockHeld,
    LockLost,
    SchemaMismatch,
    TidemarkError,
    WrongData,
)
from tidemark.ledger.pieces import State
from tidemark.partitioning.keys import BucketSize
from tidemark.projection.acceptance.accept import Policy
from tidemark.projection.planning.plan import Work
from tidemark.projection.running import bisection
from tidemark.projection.running.batches import part
from tidemark.projection.running.bisection import MOST_FAILED, Bisection, is_of_events
from tidemark.projection.running.outcome import ProjectionOutcome

Events = Mapping[int, int]
"""Time bucket by sequence nr, of one series."""


@dataclass
class World:
    """One series, what was consumed of it, and what each time bucket was made of last."""

    events: Events
    bad: frozenset[int] = frozenset()
    frontier: int = 0
    made: dict[int, set[int]] = field(default_factory=dict)
    attempts: list[list[int]] = field(default_factory=list)
    ledger: dict[int, str | None] = field(default_factory=dict)
    claimed: set[int] = field(default_factory=set)
    is_lost: bool = False
    error: Exception = field(default_factory=lambda: WrongData("bad"))

    def work_off(
        self, work: Work, done: ProjectionOutcome, *, strict: bool = False
    ) -> tuple[int, int]:
        self.claimed |= work.planned
        found = self.halves(done, strict=strict).work_off(work)
        assert self.claimed.isdisjoint(work.planned)
        return found

    def begin(self, work: Work) -> Trial:
        return Trial(self, work, work.time_buckets)

    def halves(self, done: ProjectionOutcome, *, strict: bool = False) -> Bisection:
        size = SimpleNamespace(bucket_size=BucketSize.HOUR)
        run = cast("Any", SimpleNamespace(settings=size, say=lambda text: None))
        return Bisection(run, cast("Any", self), Policy(strict=strict), done, self.begin)

    def check(self) -> None:
        """As a claim's."""
        if self.is_lost:
            raise LockLost("lost")

    def finish_some(
        self, buckets: set[int], state: State, counts: object, error: str | None
    ) -> None:
        """As a claim's."""
        if state is State.FAILED:
            self.ledger |= dict.fromkeys(buckets, error)
        assert buckets <= self.claimed
        self.claimed -= buckets


@dataclass
class Trial:
    """As `process._Processing`, over one series."""

    world: World
    work: Work
    time_buckets: Sequence[int]

    def run_all(self, policy: Policy, done: ProjectionOutcome) -> tuple[int, int]:
        world, plan = self.world, self.work
        world.attempts.append(plan.time_buckets)
        there = {nr for nr, bucket in world.events.items() if bucket in plan.planned | plan.done}
        end = world.frontier
        while end + 1 in there:
            end += 1
        late = {world.events[nr] for nr in range(world.frontier + 1, end + 1)} - plan.planned
        assert late <= plan.done
        self.time_buckets = sorted(plan.planned | late)
        assert plan.planned <= world.claimed
        assert not late & world.claimed
        world.claimed |= late
        if world.bad & set(self.time_buckets):
            raise world.error
        world.frontier = end
        world.claimed -= set(self.time_buckets)
        for bucket in self.time_buckets:
            inside = {nr for nr, place in world.events.items() if place == bucket}
            world.made[bucket] = {nr for nr in inside if nr <= end}
            done.counts[bucket] = {}
            done.gaps.pop(bucket, None)
            if world.made[bucket] != inside:
                done.gaps[bucket] = "gap"
        return len(self.time_buckets), 10 * len(self.time_buckets)


def planned(buckets: Iterable[int], done: Iterable[int] = ()) -> Work:
    named = cast("Any", SimpleNamespace(name="totals"))
    return replace(work_of(buckets, done), definition=named)


def expected(events: Events, bad: Iterable[int], last: int) -> int:
    """The frontier, one event after the other."""
    number = 0
    while (bucket := events.get(number + 1)) is not None and bucket not in bad and bucket <= last:
        number += 1
    return number


@given(
    places=st.lists(st.integers(0, 9), max_size=12),
    bad=st.frozensets(st.integers(0, 8)),
    cut=st.integers(1, 8),
    before=st.integers(0, 3),
)
def test_only_what_is_at_fault_fails_and_what_is_behind_it_waits(
    places: list[int], bad: frozenset[int], cut: int, before: int
) -> None:
    """The first `before` buckets are done by an earlier run, 9 is not ready; two batches."""
    events = dict(enumerate(places, start=1))
    world, first = World(events), ProjectionOutcome()
    if before:
        world.work_off(planned(range(before)), first)
    world.bad, done = bad, ProjectionOutcome()
    whole = planned(range(before, 9), done=range(before))
    for taken in (range(before, before + cut), range(before + cut, 9)):
        if batch := [bucket for bucket in taken if bucket < 9]:
            later = range(batch[-1] + 1, 9)
            world.work_off(part(whole, batch, later, done.gaps, None), done)
    # An old bucket is touched, and so can fail, only if an event in it has become acceptable.
    new = {bucket for bucket in bad if bucket >= before}
    assert new <= done.failed.keys() <= bad
    assert world.ledger.keys() == done.failed.keys()
    assert set(done.counts) | set(done.failed) >= set(range(before, 9))
    assert not set(done.counts) & set(done.failed)
    already = expected(events, (), before - 1)
    stops = [nr - 1 for nr in events if nr > already and (events[nr] in bad or events[nr] > 8)]
    assert world.frontier <= min([*stops, len(events)])
    if places == sorted(places):
        assert world.frontier == min([*stops, len(events)])
    assert not world.claimed
    for bucket in done.counts:
        inside = {nr for nr, place in events.items() if place == bucket}
        assert world.made[bucket] == {nr for nr in inside if nr <= world.frontier}
        assert (bucket in done.gaps) == (world.made[bucket] != inside)
    # Corrected, the next run does what failed and what is held, and nothing is lost.
    world.bad = frozenset()
    left = {*done.failed, *done.gaps}
    if left:
        world.work_off(planned(left, done=set(range(9)) - left), ProjectionOutcome())
    assert world.frontier == expected(events, (), 8)


def test_halves_are_tried_oldest_first_and_a_failure_is_told() -> None:
    world, done = World({}, frozenset({2})), ProjectionOutcome()
    assert world.work_off(planned(range(6)), done) == (5, 50)
    assert world.attempts == [[0, 1, 2, 3, 4, 5], [0, 1, 2], [0], [1, 2], [1], [2], [3, 4, 5]]
    assert world.ledger == {2: "bad"}
    with pytest.raises(TidemarkError) as failed:
        bisection.require_done(planned(range(6)), done)
    assert str(failed.value) == "1 of 6 buckets, 1970-01-01 00:00: bad"
    assert bisection.lines("totals", done) == ["totals: 1970-01-01 00:00 failed: bad"]


def test_a_late_bucket_that_is_at_fault_fails_alone() -> None:
    world, done = World({1: 0, 2: 5}, frozenset({0})), ProjectionOutcome()
    world.work_off(planned([5, 6], done=[0, 1]), done)
    assert (set(done.failed), done.gaps, set(done.counts)) == ({0}, {5: "gap"}, {5, 6})


def test_a_single_bucket_fails_with_its_own_error() -> None:
    world, done = World({}, frozenset({4})), ProjectionOutcome()
    world.work_off(planned([4]), done)
    with pytest.raises(TidemarkError, match=r"^bad$"):
        bisection.require_done(planned([4]), done)


def test_strict_and_what_no_half_would_do_better_fail_as_a_whole() -> None:
    for error in (LockHeld, LockLost, CassandraUnavailable, HistoryPurged, SchemaMismatch):
        world, done = World({}, frozenset({2}), error=error("no")), ProjectionOutcome()
        with pytest.raises(error):
            world.work_off(planned(range(6)), done)
        assert (len(world.attempts), done.failed) == (1, {})
    world = World({}, frozenset({2}))
    with pytest.raises(WrongData):
        world.work_off(planned(range(6)), done, strict=True)
    assert len(world.attempts) == 1
    world.is_lost = True
    with pytest.raises(LockLost):
        world.work_off(planned(range(6)), done)
    assert world.ledger == {}


def test_a_run_in_which_everything_fails_gives_up() -> None:
    world, done = World({}, frozenset(range(1000))), ProjectionOutcome()
    with pytest.raises(TidemarkError, match=r"^16 buckets, and what is left was not tried"):
        world.work_off(planned(range(1000)), done)
    assert set(done.failed) == set(range(MOST_FAILED))
    assert len(world.attempts) < 50


def test_what_fails_together_and_not_alone_is_a_warning() -> None:
    world, done = World({}), ProjectionOutcome()

    class Together(Trial):
        def run_all(self, policy: Policy, done: ProjectionOutcome) -> tuple[int, int]:
            if {1, 2} <= set(self.time_buckets):
                raise WrongData("twice")
            return super().run_all(policy, done)

    world.begin = lambda work: Together(world, work, work.time_buckets)  # type: ignore[method-assign]
    world.work_off(planned(range(4)), done)
    assert (done.failed, set(done.counts)) == ({}, {0, 1, 2, 3})
    assert done.warnings == ["warning: 4 buckets failed together, and none of them alone: twice"]


def fails(number: int) -> int:
    raise ValueError("no")


def test_which_errors_are_of_events(spark: SparkSession) -> None:
    rows = spark.range(3)
    boom = F.when(F.col("id") > 1, F.expr("raise_error('boom')"))
    for column in (boom, F.udf(fails, "bigint")("id")):
        with pytest.raises(Exception) as raised:  # noqa: PT011 - which one is asked
            rows.select(column.alias("x")).groupBy("x").count().collect()
        assert is_of_events(raised.value), raised.value
    for error in (TidemarkError("a"), WrongData("b"), DefinitionError("c")):
        assert is_of_events(error)
    jvm: Any = spark._jvm
    for call in (
        lambda: rows.select("nothing"),
        lambda: jvm.java.io.File("/no/such/directory/x").createNewFile(),
        lambda: dict[str, int]()["x"],
    ):
        with pytest.raises(Exception) as raised:  # noqa: PT011 - which one is asked
            call()
        assert not is_of_events(raised.value), raised.value
