"""Iceberg's runtime, which a running session gets: at the start it would cost every run time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tidemark.settings import Settings
from tidemark.spark import gateway
from tidemark.spark.gateway import named
from tidemark.spark.masters import is_local
from tidemark.spark_session import iceberg_jars

CATALOG_CLASS = "org.apache.iceberg.spark.SparkCatalog"


def load(spark: SparkSession, settings: Settings) -> None:
    """Add Iceberg's jars to the class paths of driver and executors, unless Spark has Iceberg.

    Raises:
        InvalidInput: the jars are missing.
    """
    # The loader that Spark has made for the application's jars.
    loader = gateway.session_of(spark).sharedState().jarClassLoader().getParent()
    if _has_iceberg(loader):
        return
    for jar in iceberg_jars(settings):
        # Spark's own `ADD JAR` gives driver and executors a class loader each. With a local master
        # they are one process, and what the driver broadcasts would have another class there.
        file = named(spark, "java.io.File")(str(Path(jar).absolute()))
        loader.addURL(file.toURI().toURL())
        if not is_local(spark.sparkContext.master or "local"):
            gateway.context_of(spark).sc().addJar(jar)


def _has_iceberg(loader: Any) -> bool:
    try:
        loader.loadClass(CATALOG_CLASS)
    except Py4JJavaError:
        return False
    return True
