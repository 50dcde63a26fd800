"""Fixtures and settings that several unit tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

# A busy machine is slow, which is no fault of a test.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


@pytest.fixture
def partitions(spark: SparkSession) -> Iterator[None]:
    """Use more than one partition, as a single one is partitioned by any column."""
    key = "spark.sql.shuffle.partitions"
    before = str(spark.conf.get(key))
    spark.conf.set(key, "3")
    yield
    spark.conf.set(key, before)
