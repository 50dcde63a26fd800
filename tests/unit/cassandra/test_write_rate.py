"""The rate of writes: never more than it says, by the driver or by Spark's tasks together."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tidemark.cassandra import connector
from tidemark.cassandra.rate import WriteRate, pause_before, pauses
from tidemark.errors import LockLost
from tidemark.settings import Settings

ALMOST = 1e-6
"""Seconds by which sums of floating-point numbers may differ."""


@dataclass
class Clock:
    """A clock that goes on when somebody sleeps."""

    now: float = 0.0
    sleeps: list[float] = field(default_factory=list)

    def elapsed(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds


@given(
    rate=st.integers(1, 5000),
    calls=st.lists(
        st.tuples(st.floats(0, 5), st.lists(st.integers(1, 200), max_size=30)), max_size=8
    ),
)
def test_in_any_time_no_more_is_written_than_the_rate_allows_and_one_part(
    rate: int, calls: list[tuple[float, list[int]]]
) -> None:
    """A call comes after a pause and takes some time, of which the rate knows nothing."""
    clock = Clock()
    limit = WriteRate(rate, elapsed=clock.elapsed, sleep=clock.sleep)
    begun: list[tuple[float, int]] = []
    for pause, sizes in calls:
        clock.now += pause
        written: list[int] = []
        for part in limit.parts(sizes, lambda size: size):
            begun.append((clock.now, sum(part)))
            written += part
            clock.now += pause / 100
        assert written == sizes
    largest = max((size for _, size in begun), default=0)
    assert largest <= max(rate // 10, 200)
    for first, (since, _) in enumerate(begun):
        rows = 0
        for until, size in begun[first:]:
            rows += size
            assert rows <= rate * (until - since + ALMOST) + largest


@given(rate=st.integers(1, 5000), sizes=st.lists(st.integers(1, 200), min_size=1, max_size=50))
def test_nobody_waits_longer_than_the_rate_demands(rate: int, sizes: list[int]) -> None:
    clock = Clock()
    limit = WriteRate(rate, elapsed=clock.elapsed, sleep=clock.sleep)
    assert [size for part in limit.parts(sizes, lambda size: size) for size in part] == sizes
    assert clock.now <= sum(sizes) / rate + ALMOST


def test_without_a_rate_all_is_one_part_and_nobody_waits() -> None:
    clock = Clock()
    limit = WriteRate(0, elapsed=clock.elapsed, sleep=clock.sleep)
    assert list(limit.parts(range(1000))) == [list(range(1000))]
    assert list(limit.parts([])) == [[]]
    assert clock.sleeps == []


def test_a_part_has_the_rows_of_a_tenth_of_a_second_or_one_item_that_has_more() -> None:
    clock = Clock()
    limit = WriteRate(100, elapsed=clock.elapsed, sleep=clock.sleep)
    batches = [6, 4, 6, 30, 1]
    assert list(limit.parts(batches, lambda size: size)) == [[6, 4], [6], [30], [1]]
    assert clock.sleeps == pytest.approx([0.1, 0.06, 0.3])


def test_a_lost_lock_ends_the_wait_and_all_writing() -> None:
    """The wait is of years: only `stop` can end it."""
    waiting = threading.Event()

    class Signalling(WriteRate):
        def _await_turn(self, rows: int) -> None:
            if written:
                waiting.set()
            super()._await_turn(rows)

    limit = Signalling(1)
    limit._next += 10.0**8
    written = ["before"]
    ended: list[BaseException] = []

    def write() -> None:
        try:
            written.extend(row for part in limit.parts(["a", "b"]) for row in part)
        except LockLost as error:
            ended.append(error)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    assert waiting.wait(60)
    limit.stop()
    writer.join(60)
    assert len(ended) == 1
    assert written == ["before"]
    with pytest.raises(LockLost, match="nothing more was written"):
        next(limit.parts(["c"]))


@given(rate=st.integers(1, 10**7), cores=st.integers(1, 2000))
def test_tasks_together_keep_to_the_rate_and_pause_for_a_second_at_most(
    rate: int, cores: int
) -> None:
    tasks = min(rate, cores)
    together, pause = pauses(rate, tasks)
    assert together * tasks * 1000 <= rate * pause
    assert 1 <= pause <= 1000
    # A millisecond is the only loss.
    assert rate * (pause - 1) < together * tasks * 1000


@pytest.fixture
def limited(spark: SparkSession) -> Iterator[SparkSession]:
    """Yield a session that is configured for 40 rows a second."""
    connector.connect(spark, Settings(write_rate=40))
    yield spark
    connector.connect(spark, Settings())


def test_a_session_of_a_limited_run_paces_its_rows_in_no_more_tasks_than_cores(
    limited: SparkSession,
) -> None:
    rows = limited.range(0, 10, 1, numPartitions=5)
    paced = connector._paced(rows)
    assert paced.rdd.getNumPartitions() == limited.sparkContext.defaultParallelism
    assert "java_method(java.lang.Thread, sleep, 100)" in str(
        paced._jdf.queryExecution().executedPlan()
    )
    assert sorted(row.id for row in paced.collect()) == list(range(10))


def test_a_task_pauses_before_every_few_rows(limited: SparkSession) -> None:
    """In the place of the pause, rows are dropped: those before which there would be one."""
    rows = limited.range(0, 10, 1, numPartitions=1)
    condition = pause_before(4, 100).replace(
        "java_method('java.lang.Thread', 'sleep', 100L) IS NOT NULL", "false"
    )
    passed = {row.id for row in rows.where(condition).collect()}
    assert set(range(10)) - passed == {0, 4, 8}


def test_rows_of_an_unlimited_run_go_as_they_are(spark: SparkSession) -> None:
    connector.connect(spark, Settings())
    rows = spark.range(10)
    assert connector._paced(rows) is rows
