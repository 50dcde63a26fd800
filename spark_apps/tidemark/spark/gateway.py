"""What Spark offers to Scala only, through pyspark's gateway.

No other room names `_jvm`, `_jdf` and their like: a Spark that moves them is one change, here.
"""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession


def jvm(spark: SparkSession) -> Any:
    """The session's JVM: its packages are attributes."""
    return spark._jvm


def session_of(spark: SparkSession) -> Any:
    """Scala's SparkSession."""
    return spark._jsparkSession


def context_of(spark: SparkSession) -> Any:
    """Java's SparkContext."""
    return spark.sparkContext._jsc


def connection(context: SparkContext) -> Any:
    """The gateway itself, which outlives the session's own names."""
    return context._gateway


def dataset(frame: DataFrame) -> Any:
    """Scala's Dataset."""
    return frame._jdf


def analyzed_plan(frame: DataFrame) -> Any:
    """The frame's logical plan, with all names resolved; nothing is run."""
    return frame._jdf.queryExecution().analyzed()


def executed_plan(frame: DataFrame) -> str:
    """The frame's physical plan as text; nothing is run."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


def named(spark: SparkSession, path: str) -> Any:
    """A package, a class, or with a `$` at its end a Scala object of the session's JVM."""
    found = jvm(spark)
    for part in path.split("."):
        found = getattr(found, part)
    return getattr(found, "MODULE$") if path.endswith("$") else found


def each(sequence: Any) -> list[Any]:
    """The elements of a Scala sequence."""
    return [sequence.apply(index) for index in range(sequence.size())]
