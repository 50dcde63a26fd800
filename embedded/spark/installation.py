"""Where this machine's Spark is, and what is on its class path."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark

from embedded.machine import jars
from embedded.machine.java import java_home


def variables() -> dict[str, str]:
    """Return what every spark-submit needs here.

    From a virtual environment it finds Spark only by SPARK_HOME. The connector is on the class path
    of the JVM as well as among the jars of the applications: classes of jars that come later are
    never taken from the class archive.
    """
    given = os.environ.get("SPARK_DIST_CLASSPATH", "").split(os.pathsep)
    # Each once: a process that was started with these variables gets the same ones.
    class_path = dict.fromkeys([*map(str, jars.fetch("spark")), *filter(None, given)])
    return {
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DIST_CLASSPATH": os.pathsep.join(class_path),
    }
