"""The rules by which Spark evaluates what users wrote: a value that does not fit is an error.

By default Spark wraps an overflow, and makes null of an invalid cast and of a division by zero: a
wrong result of a green run. Tidemark's own expressions keep that default.
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
    """Let Spark parse and analyze users' SQL in this block; a frame keeps the rules that it got."""
    before = spark.conf.get(_ANSI, "false")
    spark.conf.set(_ANSI, "true")
    try:
        yield
    finally:
        spark.conf.set(_ANSI, str(before))


def attempted(spark: SparkSession, value: Column) -> Column:
    """Return a struct with the one field `value`, or null where evaluating it is an error."""
    return gateway.tried(spark, F.struct(value.alias("value")))
