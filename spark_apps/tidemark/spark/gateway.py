"""What Spark offers to Scala only, through pyspark's gateway."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def named(spark: SparkSession, path: str) -> Any:
    """A package, a class, or with a `$` at its end a Scala object of the session's JVM."""
    found: Any = spark._jvm
    for part in path.split("."):
        found = getattr(found, part)
    return getattr(found, "MODULE$") if path.endswith("$") else found
