"""Fixtures and settings that several unit tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy
from pyspark.sql import SparkSession

T = TypeVar("T")


class Examples(Protocol):
    """A function that draws values of a strategy."""

    def __call__(self, strategy: SearchStrategy[T], count: int = ...) -> list[T]:
        """Return about `count` values."""


# A busy machine is slow, which is no fault of a test.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")
# Whether a mutant survives must not depend on chance, and a failure of it need not be made small.
settings.register_profile(
    "mutants",
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)


@pytest.fixture
def partitions(spark: SparkSession) -> Iterator[None]:
    """Use more than one partition, as a single one is partitioned by any column."""
    key = "spark.sql.shuffle.partitions"
    before = str(spark.conf.get(key))
    spark.conf.set(key, "3")
    yield
    spark.conf.set(key, before)


@pytest.fixture(scope="session")
def examples(request: pytest.FixtureRequest) -> Examples:
    """Return a function that draws values, gathered so that Spark judges them all at once.

    Spark takes seconds for one value and hardly longer for hundreds, so with one of hypothesis's
    own examples at a time a test would see few and take minutes. The values are the same in each
    run; with --soak they are random, and ten times as many.
    """
    is_soak = bool(request.config.getoption("soak"))

    def draw(strategy: SearchStrategy[T], count: int = 500) -> list[T]:
        values: list[T] = []

        @settings(
            max_examples=count * 10 if is_soak else count,
            derandomize=not is_soak,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(strategy)
        def gather(value: T) -> None:
            values.append(value)

        gather()
        return values

    return draw
