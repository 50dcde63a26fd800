"""Jars that a running session gets, for what few runs use: a large jar costs every start time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tidemark.spark import gateway
from tidemark.spark.gateway import named
from tidemark.spark.masters import is_local


def has_class(spark: SparkSession, name: str) -> bool:
    """Return whether the driver has a class, by its full name."""
    try:
        _loader(spark).loadClass(name)
    except Py4JJavaError:
        return False
    return True


def add(spark: SparkSession, jars: Sequence[str]) -> None:
    """Add files to the class paths of the driver and of all executors, until the session ends."""
    for jar in jars:
        # Spark's own `ADD JAR` gives driver and executors a class loader each. With a local master
        # they are one process, and what the driver broadcasts would have another class there.
        _loader(spark).addURL(
            named(spark, "java.io.File")(str(Path(jar).absolute())).toURI().toURL()
        )
        if not is_local(spark.sparkContext.master or "local"):
            gateway.context_of(spark).sc().addJar(jar)


def _loader(spark: SparkSession) -> Any:
    """Return the class loader that Spark has made for the application's jars."""
    return gateway.session_of(spark).sharedState().jarClassLoader().getParent()
