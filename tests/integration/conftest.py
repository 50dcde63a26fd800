"""What the integration tests share: a control session, and a fresh journal for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from embedded import spark as embedded_spark
from embedded.cassandra import Endpoint
from tests.integration.projections import Projections
from tests.integration.support import Journal
from tidemark.cassandra.control import Control
from tidemark.settings import Settings


@pytest.fixture(scope="session")
def control(cassandra: Endpoint) -> Iterator[Control]:
    """A session of the tests' own to the embedded Cassandra."""
    settings = Settings(
        cassandra_hosts=f"{cassandra.host}:{cassandra.port}",
        cassandra_username=cassandra.username,
        cassandra_password=cassandra.password,
    )
    with Control(settings) as session:
        yield session


@pytest.fixture
def make_journal(
    control: Control, cassandra: Endpoint, spark: SparkSession
) -> Iterator[Callable[..., Journal]]:
    """Makes journals with unique names; they are dropped when the test has ended."""
    yield from journal_maker(control, cassandra)


@pytest.fixture(scope="module")
def make_journals(
    control: Control, cassandra: Endpoint, spark: SparkSession
) -> Iterator[Callable[..., Journal]]:
    """The same for what several tests of a module share."""
    yield from journal_maker(control, cassandra)


def journal_maker(control: Control, cassandra: Endpoint) -> Iterator[Callable[..., Journal]]:
    """Yield the maker, then drop what it made.

    Applications that run inside the test process find the session of the `spark` fixture.
    """
    made: list[Journal] = []

    def make(**settings: str) -> Journal:
        environment = {**embedded_spark.environment(), **cassandra.environment()}
        variables = {"SPARK_MASTER": "local[2]", "SPARK_DRIVER_MEMORY": "1g", **settings}
        made.append(Journal.create(control, environment, **variables))
        return made[-1]

    yield make
    for journal in made:
        journal.drop()


@pytest.fixture
def journal(make_journal: Callable[..., Journal]) -> Journal:
    """A journal with Hour buckets, Pekko's default."""
    return make_journal()


@pytest.fixture
def projections(journal: Journal, tmp_path: Path) -> Projections:
    """Projections over that journal, none of which is defined yet."""
    return Projections(journal, tmp_path)
