"""Batches that fail: only the pieces at fault fail, and later pieces wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.unit.project.test_batches import batch_of
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
from tidemark.ledger.piece import State
from tidemark.partitioning.keys import BucketSize
from tidemark.project.acceptance.accept import MissingEventPolicy
from tidemark.project.planning.batch import Batch
from tidemark.project.running import bisection
from tidemark.project.running.bisection import MOST_FAILED, Bisection, is_of_events
from tidemark.project.running.outcome import BatchOutcome, BatchSize, ProjectionOutcome

Events = Mapping[int, int]
"""Time bucket by sequence nr, of a series."""


@dataclass
class World:
    """A series, its consumed events, and the latest result of each time bucket."""

    events: Events
    bad: frozenset[int] = frozenset()
    frontier: int = 0
    made: dict[int, set[int]] = field(default_factory=dict)
    attempts: list[list[int]] = field(default_factory=list)
    ledger: dict[int, str | None] = field(default_factory=dict)
    claimed: set[int] = field(default_factory=set)
    is_lost: bool = False
    error: Exception = field(default_factory=lambda: WrongData("bad"))

    def process(
        self, batch: Batch, outcome: ProjectionOutcome, *, strict: bool = False
    ) -> BatchSize:
        self.claimed |= batch.planned
        size = self.bisection(outcome, strict=strict).process(batch)
        assert self.claimed.isdisjoint(batch.planned)
        return size

    def bisection(self, outcome: ProjectionOutcome, *, strict: bool = False) -> Bisection:
        size = SimpleNamespace(bucket_size=BucketSize.HOUR)
        run = cast("Any", SimpleNamespace(settings=size, say=lambda text: None))
        claimed, definition = cast("Any", self), cast("Any", SimpleNamespace(name="totals"))
        return Bisection(
            run, claimed, definition, MissingEventPolicy(strict=strict), outcome, self.run_batch
        )

    def run_batch(self, batch: Batch, reopened: set[int]) -> BatchOutcome:
        """Run a batch over the series, like `Pipeline.run_batch`."""
        self.attempts.append(batch.time_buckets)
        present = {nr for nr, bucket in self.events.items() if bucket in batch.planned | batch.done}
        end = self.frontier
        while end + 1 in present:
            end += 1
        late = {self.events[nr] for nr in range(self.frontier + 1, end + 1)} - batch.planned
        assert late <= batch.done
        reopened |= late
        buckets = sorted(batch.planned | late)
        assert batch.planned <= self.claimed
        assert not late & self.claimed
        self.claimed |= late
        if self.bad & set(buckets):
            raise self.error
        self.frontier = end
        self.claimed -= set(buckets)
        gaps = {}
        for bucket in buckets:
            inside = {nr for nr, place in self.events.items() if place == bucket}
            self.made[bucket] = {nr for nr in inside if nr <= end}
            if self.made[bucket] != inside:
                gaps[bucket] = "gap"
        size = BatchSize(len(buckets), 10 * len(buckets))
        return BatchOutcome({bucket: {} for bucket in buckets}, {}, gaps, 0, (), (), size)

    def check(self) -> None:
        """Check the locks, like a claim."""
        if self.is_lost:
            raise LockLost("lost")

    def finish_some(
        self, buckets: set[int], state: State, counts: object, error: str | None
    ) -> None:
        """End some of the claimed pieces, like a claim."""
        if state is State.FAILED:
            self.ledger |= dict.fromkeys(buckets, error)
        assert buckets <= self.claimed
        self.claimed -= buckets


def planned(buckets: Iterable[int], done: Iterable[int] = ()) -> Batch:
    return batch_of(buckets, done)


def expected(events: Events, bad: Iterable[int], last: int) -> int:
    """Return the frontier of a reader that takes one event after the other."""
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
    """The first `before` buckets are done by an earlier run; two batches; 9 is not ready."""
    events = dict(enumerate(places, start=1))
    world, first = World(events), ProjectionOutcome()
    if before:
        world.process(planned(range(before)), first)
    world.bad, done = bad, ProjectionOutcome()
    run = planned(range(before, 9), done=range(before))
    for taken in (range(before, before + cut), range(before + cut, 9)):
        if batch := [bucket for bucket in taken if bucket < 9]:
            later = range(batch[-1] + 1, 9)
            world.process(run.part(batch, later, done.gaps, None), done)
    # A run touches an old bucket, which then can fail, only if it can accept an event there.
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
    # After the correction, the next run does the failed and the held pieces without a loss.
    world.bad = frozenset()
    left = {*done.failed, *done.gaps}
    if left:
        world.process(planned(left, done=set(range(9)) - left), ProjectionOutcome())
    assert world.frontier == expected(events, (), 8)


def test_halves_are_tried_oldest_first_and_a_failure_is_told() -> None:
    world, done = World({}, frozenset({2})), ProjectionOutcome()
    assert world.process(planned(range(6)), done) == BatchSize(5, 50)
    assert world.attempts == [[0, 1, 2, 3, 4, 5], [0, 1, 2], [0], [1, 2], [1], [2], [3, 4, 5]]
    assert world.ledger == {2: "bad"}
    with pytest.raises(TidemarkError) as failed:
        bisection.require_done(planned(range(6)).plan, done)
    assert str(failed.value) == "1 of 6 buckets, 1970-01-01 00:00: bad"
    assert bisection.lines("totals", done) == ["totals: 1970-01-01 00:00 failed: bad"]


def test_a_late_bucket_that_is_at_fault_fails_alone() -> None:
    world, done = World({1: 0, 2: 5}, frozenset({0})), ProjectionOutcome()
    world.process(planned([5, 6], done=[0, 1]), done)
    assert (set(done.failed), done.gaps, set(done.counts)) == ({0}, {5: "gap"}, {5, 6})


def test_a_single_bucket_fails_with_its_own_error() -> None:
    world, done = World({}, frozenset({4})), ProjectionOutcome()
    world.process(planned([4]), done)
    with pytest.raises(TidemarkError, match=r"^bad$"):
        bisection.require_done(planned([4]).plan, done)


def test_strict_and_what_no_half_would_do_better_fail_as_a_whole() -> None:
    for error in (LockHeld, LockLost, CassandraUnavailable, HistoryPurged, SchemaMismatch):
        world, done = World({}, frozenset({2}), error=error("no")), ProjectionOutcome()
        with pytest.raises(error):
            world.process(planned(range(6)), done)
        assert (len(world.attempts), done.failed) == (1, {})
    world = World({}, frozenset({2}))
    with pytest.raises(WrongData):
        world.process(planned(range(6)), done, strict=True)
    assert len(world.attempts) == 1
    world.is_lost = True
    with pytest.raises(LockLost):
        world.process(planned(range(6)), done)
    assert world.ledger == {}


def test_a_run_in_which_everything_fails_gives_up() -> None:
    world, done = World({}, frozenset(range(1000))), ProjectionOutcome()
    with pytest.raises(TidemarkError, match=r"^16 buckets, and what is left was not tried"):
        world.process(planned(range(1000)), done)
    assert set(done.failed) == set(range(MOST_FAILED))
    assert len(world.attempts) < 50


def test_what_fails_together_and_not_alone_is_a_warning() -> None:
    world, done = World({}), ProjectionOutcome()

    def run_batch(batch: Batch, reopened: set[int]) -> BatchOutcome:
        if {1, 2} <= batch.planned:
            raise WrongData("twice")
        return World.run_batch(world, batch, reopened)

    world.run_batch = run_batch  # type: ignore[method-assign]
    world.process(planned(range(4)), done)
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
