"""What several unit tests need of the tests' Spark session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

# A machine that has other work to do is slow, and no test is wrong for it.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


@pytest.fixture
def partitions(spark: SparkSession) -> Iterator[None]:
    """More than one: else any frame is partitioned by anything."""
    key = "spark.sql.shuffle.partitions"
    before = str(spark.conf.get(key))
    spark.conf.set(key, "3")
    yield
    spark.conf.set(key, before)
