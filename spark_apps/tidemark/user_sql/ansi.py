"""Evaluates users' SQL by Spark's ANSI rules: a value that does not fit is an error.

By default Spark wraps an overflow, and returns null for an invalid cast and a division by zero, so
that a successful run has a wrong result. Tidemark's own expressions keep that default.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tidemark.spark import gateway

_ANSI = "spark.sql.ansi.enabled"


@contextmanager
def ansi(spark: SparkSession) -> Iterator[None]:
    """Apply ANSI rules to SQL that is analyzed in this block; its frames keep these rules."""
    previous = spark.conf.get(_ANSI, "false")
    spark.conf.set(_ANSI, "true")
    try:
        yield
    finally:
        spark.conf.set(_ANSI, str(previous))


def attempted(spark: SparkSession, value: Column) -> Column:
    """Return a struct with `value` as its only field, or null where its evaluation fails."""
    return gateway.tried(spark, F.struct(value.alias("value")))
