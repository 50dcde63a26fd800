"""Fixtures of the integration tests: a control session, and an empty journal for each test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from embedded.cassandra.server import Endpoint
from embedded.postgres.server import PostgresEndpoint
from tests.integration.pool import Keyspaces, Pool, drop_keyspaces, unique_names
from tests.integration.postgres.databases import new_schema
from tests.integration.postgres.r2dbc_journal import R2dbcJournal
from tests.integration.project.projections import Projections
from tests.integration.support import Journal, control_of, wait_until
from tidemark import clock
from tidemark.cassandra.control import Control


@pytest.fixture(scope="session")
def control(cassandra: Endpoint) -> Iterator[Control]:
    """Yield the tests' own session to the embedded Cassandra."""
    with control_of(cassandra) as session:
        yield session


@pytest.fixture(scope="session")
def pool(control: Control) -> Pool:
    """Return the pool of this run's journals, which disappear with the server."""
    return Pool(control)


@pytest.fixture
def shift_clock(monkeypatch: pytest.MonkeyPatch, control: Control) -> Callable[[float], None]:
    """Return what moves the machine's clock by seconds."""
    moved = 0.0
    # The session outlives the test, and its write times never go back: the writes of the next
    # test would be later than those of the applications that it runs.
    monkeypatch.setattr(control.write_times, "_last", control.write_times._last)
    monkeypatch.setattr(clock, "machine_micros", lambda: int((time.time() + moved) * 1e6))
    monkeypatch.setattr(clock, "now_micros", lambda: int((time.time() + moved) * 1e6))

    def shift(seconds: float) -> None:
        nonlocal moved
        moved = seconds

    return shift


@pytest.fixture
def make_journal(
    pool: Pool, cassandra: Endpoint, spark: SparkSession, spark_environment: dict[str, str]
) -> Iterator[Callable[..., Journal]]:
    """Yield a maker of journals for one test."""
    yield from journal_maker(pool, {**spark_environment, **cassandra.environment()}, spark)


@pytest.fixture(scope="module")
def make_journals(
    pool: Pool, cassandra: Endpoint, spark: SparkSession, spark_environment: dict[str, str]
) -> Iterator[Callable[..., Journal]]:
    """Yield a maker of journals that several tests of a module share."""
    yield from journal_maker(pool, {**spark_environment, **cassandra.environment()}, spark)


def journal_maker(
    pool: Pool, environment: Mapping[str, str], spark: SparkSession
) -> Iterator[Callable[..., Journal]]:
    """Yield a maker of empty journals, then give the journals that it took back to the pool.

    Applications that run inside the test process find the session of the `spark` fixture.
    """
    taken: list[Keyspaces] = []
    extra: list[str] = []

    def make(*, own_tables: bool = True, **settings: str) -> Journal:
        """Make a journal; without `own_tables`, Tidemark has to make its keyspace and tables."""
        variables = {
            "SPARK_MASTER": "local[2]",
            "SPARK_DRIVER_MEMORY": "1g",
            # A machine that stands still for a minute must fail only the tests of locks.
            "LOCK_TTL": "600",
            **settings,
        }
        taken.append(pool.take())
        own = taken[-1].own
        if not own_tables:
            _, own = unique_names()
            extra.append(own)
        return Journal.over(pool.control, environment, taken[-1].journal, own, **variables)

    yield make
    settle(spark)
    drop_keyspaces(pool.control, *extra)
    for keyspaces in taken:
        pool.give_back(keyspaces)


def settle(spark: SparkSession) -> None:
    """Wait for the last tasks of cancelled jobs, and drop frames that are still cached."""
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    wait_until(
        "Spark's tasks to end",
        lambda: not any(executor.numRunningTasks() for executor in tracker.getExecutorInfos()),
    )
    spark.catalog.clearCache()


@pytest.fixture
def journal(make_journal: Callable[..., Journal]) -> Journal:
    """Return a journal with Hour buckets, Pekko's default."""
    return make_journal()


@pytest.fixture
def projections(journal: Journal, tmp_path: Path) -> Projections:
    """Return the projections over that journal, none of which is defined yet."""
    return Projections(journal, tmp_path)


@pytest.fixture
def plugin(
    journal: Journal, postgres: PostgresEndpoint, request: pytest.FixtureRequest
) -> Iterator[R2dbcJournal]:
    """Yield a journal in PostgreSQL, which is that of the applications."""
    with new_schema(postgres) as database:
        made = R2dbcJournal(database, getattr(request, "param", 1))
        made.create()
        journal.environment = {**journal.environment, **made.variables()}
        yield made
