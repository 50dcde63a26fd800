"""What the applications need around them to run Spark on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark

from embedded import jars
from embedded.java import java_home


def environment() -> dict[str, str]:
    """Return the variables for spark-submit and for applications run by hand.

    A spark-submit from a virtual environment finds Spark only by SPARK_HOME, and its workers the
    right Python only by PYSPARK_PYTHON.
    """
    return {
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "TIDEMARK_SPARK_JARS": ",".join(map(str, jars.fetch("spark"))),
    }
