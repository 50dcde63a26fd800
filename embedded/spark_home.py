"""Where this machine's Spark is."""

from __future__ import annotations

from pathlib import Path

import pyspark

from embedded.java import java_home


def variables() -> dict[str, str]:
    """Return what every spark-submit needs here.

    From a virtual environment it finds Spark only by SPARK_HOME.
    """
    return {
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
