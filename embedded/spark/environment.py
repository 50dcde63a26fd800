"""What the applications need around them to run Spark on this machine."""

from __future__ import annotations

import os
import sys

from embedded.machine import jars
from embedded.spark import class_archive, installation

LATE_OPTIMIZING = (
    "-XX:Tier4InvocationThreshold=100000",
    "-XX:Tier4MinInvocationThreshold=12000",
    "-XX:Tier4CompileThreshold=300000",
    "-XX:Tier4BackEdgeThreshold=800000",
)
"""A run lasts a minute or two. By default its optimizing compiler takes as much CPU as its tasks
do; these wait until a method has been called twenty times as often."""
_JVM_OPTIONS = ("-XX:+UseParallelGC", *LATE_OPTIMIZING)


def environment() -> dict[str, str]:
    """Return the variables for spark-submit and for applications run by hand.

    Spark's workers find the right Python only by PYSPARK_PYTHON. SPARK_SUBMIT_OPTS reaches the JVM
    either way.
    """
    given = os.environ.get("SPARK_SUBMIT_OPTS", "")
    return {
        **installation.variables(),
        "SPARK_SUBMIT_OPTS": " ".join([*_JVM_OPTIONS, class_archive.options(), given]).strip(),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "TIDEMARK_SPARK_JARS": ",".join(map(str, jars.fetch("spark"))),
        "TIDEMARK_SPARK_KAFKA_JARS": ",".join(map(str, jars.fetch("spark-kafka"))),
        "TIDEMARK_SPARK_POSTGRES_JARS": ",".join(map(str, jars.fetch("spark-postgres"))),
        "TIDEMARK_SPARK_ICEBERG_JARS": ",".join(map(str, jars.fetch("spark-iceberg"))),
    }
