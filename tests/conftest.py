"""Fixtures of all tests: one Cassandra for the run, and one Spark session for each worker.

Which tests run, and on which worker, is in `tests/scheduling`.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from embedded.cassandra.server import Endpoint
    from embedded.postgres.server import PostgresEndpoint
    from embedded.spark.cluster import SparkCluster

pytest_plugins = ["pytester", "tests.scheduling.plugin"]

_LOCK = pytest.StashKey[IO[str]]()
_STATE = Path(
    os.environ.get("TIDEMARK_STATE") or Path(__file__).parents[1] / ".tidemark" / "test"
).resolve()

ONE_COMPILER = "-XX:TieredStopAtLevel=1"
"""With a handful of rows in a short run, optimizing costs more than it saves. After ten minutes of
tests it had saved a third of the CPU, so the JVM of a test process has both compilers."""
JVM_OPTIONS = (
    "-XX:-UseParallelGC",
    "-XX:+UseSerialGC",
    ONE_COMPILER,
    # The default with both compilers. With the 48 MB of a single compiler, code is thrown out and
    # compiled again.
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:MetaspaceSize=256m",
    "-Xmn256m",
)
"""Options of every JVM. Applications in processes of their own (to be killed, or of Airflow) have
them too, and otherwise those of production."""
SMALL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
    # Each query's plan is put in words for the UI, which the tests have not.
    "spark.sql.ui.explainMode": "simple",
}
"""Spark's settings inside the test process, where planning and compiling cost the most, too."""
PRODUCTION = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.leafNodeDefaultParallelism": "2",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.ui.explainMode": "formatted",
}
"""Spark's settings of an application on two cores, if nobody sets anything else (see
`tidemark.spark_session`). They cost the main suites 1.8 times the CPU, so only some modules
use them."""
JARS = ("TIDEMARK_SPARK_JARS", "TIDEMARK_SPARK_KAFKA_JARS", "TIDEMARK_SPARK_POSTGRES_JARS")
NAMED_OFTEN = ("functions", "PythonUtils", "PythonRDD", "SerDeUtil", "SparkSession", "org")
"""Names that pyspark looks up in its view of the JVM without their package."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of fixtures; those that choose tests are the plugin's."""
    parser.addoption("--kills", type=int, default=1, help="kills at random moments")
    parser.addoption("--cluster", action="store_true", help="use a Spark cluster with two workers")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests that need Spark the mark of that name, which `make unit` leaves out."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


def pytest_configure() -> None:
    """Drop the shell's settings, and point everything at the tests' own state directory.

    This runs before any test module is imported: `embedded.paths` and Airflow read the
    environment when they are loaded.
    """
    for name in list(os.environ):
        if name.startswith(("TIDEMARK_", "AIRFLOW_")):
            del os.environ[name]
    os.environ["TIDEMARK_STATE"] = str(_STATE)
    # Needed by DAG files loaded inside the test process; a running Airflow has a home of its own.
    os.environ["AIRFLOW_HOME"] = str(_STATE / "airflow-in-process")
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    os.environ.pop("SPARK_CONF_DIR", None)
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join(JVM_OPTIONS)
    # SIGTERM ends the run as Ctrl-C does, so that the fixtures stop their servers on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Lock the state directory, stop the last run's servers and remove its data."""
    if _is_worker(session.config):
        return
    from embedded.machine import processes

    _STATE.mkdir(parents=True, exist_ok=True)
    lock = (_STATE / "tests.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        pytest.exit(
            f"another test run uses {_STATE}; set TIDEMARK_STATE to another directory", returncode=1
        )
    session.config.stash[_LOCK] = lock
    for run_directory, names in processes.all_recorded(_STATE).items():
        processes.stop(names, run_directory)
    for home in ("cassandra", "kafka", "postgres", "spark", "chain", "doors"):
        shutil.rmtree(_STATE / home, ignore_errors=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop the servers that all workers used."""
    if _is_worker(session.config):
        # The server that this worker started for all workers outlives it.
        warnings.simplefilter("ignore", ResourceWarning)
        return
    if _LOCK not in session.config.stash:
        return
    from embedded.cassandra.server import Cassandra
    from embedded.kafka.server import Kafka
    from embedded.postgres.server import Postgres
    from embedded.spark.cluster import SparkCluster

    SparkCluster(_STATE / "spark", cores=1).stop()
    Cassandra(_STATE / "cassandra").stop()
    Kafka(_STATE / "kafka").stop()
    Postgres(_STATE / "postgres").stop()
    session.config.stash[_LOCK].close()


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


@pytest.fixture(scope="session")
def state() -> Path:
    """Return the state directory of this run."""
    return _STATE


@pytest.fixture(scope="session")
def cassandra(state: Path) -> Endpoint:
    """Return the address of a real Cassandra, in which each test has keyspaces to itself.

    The first test that needs Cassandra starts it.
    """
    from embedded.cassandra.server import Cassandra
    from embedded.spark.environment import LATE_OPTIMIZING

    with pytest.MonkeyPatch.context() as patched:
        # As in the applications, compiling took half of the server's CPU in its first minutes.
        patched.setenv("JDK_JAVA_OPTIONS", " ".join(LATE_OPTIMIZING))
        return Cassandra(state / "cassandra").start()


@pytest.fixture(scope="session")
def kafka(state: Path) -> str:
    """Return the address of a real Kafka, in which each test has topics to itself.

    The first test that needs Kafka starts it.
    """
    from embedded.kafka.server import Kafka

    return Kafka(state / "kafka").start()


@pytest.fixture(scope="session")
def postgres(state: Path) -> PostgresEndpoint:
    """Return the address of a real PostgreSQL, in which each test has a schema to itself.

    The first test that needs PostgreSQL starts it.
    """
    from embedded.postgres.server import Postgres

    return Postgres(state / "postgres").start()


@pytest.fixture(scope="session")
def spark_environment() -> dict[str, str]:
    """Return the environment in which applications run Spark; made once, as it checks every jar."""
    from embedded.spark import environment as embedded_spark

    return embedded_spark.environment()


@pytest.fixture(scope="session")
def spark_cluster(request: pytest.FixtureRequest, state: Path) -> SparkCluster:
    """Return a real Spark cluster of two workers.

    With --cluster each has a core for each test process, else one.

    The first test that needs it starts it.
    """
    from embedded.spark.cluster import SparkCluster

    cores = 3 if request.config.getoption("cluster") else 1
    cluster = SparkCluster(state / "spark", cores=cores)
    cluster.start()
    return cluster


@pytest.fixture(scope="session")
def spark(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    spark_environment: dict[str, str],
) -> Iterator[SparkSession]:
    """Yield a small Spark session with the Cassandra connector; applications run inside it too."""
    from pyspark.sql import SparkSession

    from tests.shapes import check_every_call

    is_cluster = request.config.getoption("cluster")
    master = request.getfixturevalue("spark_cluster").url if is_cluster else "local[2]"
    with pytest.MonkeyPatch.context() as patched:
        for name, value in spark_environment.items():
            if not name.startswith("TIDEMARK_"):
                patched.setenv(name, value)
        for_applications = spark_environment["SPARK_SUBMIT_OPTS"]
        patched.setenv("SPARK_SUBMIT_OPTS", for_applications.replace(ONE_COMPILER, ""))
        session = (
            SparkSession.builder.master(master)
            .appName("tidemark-tests")
            .config("spark.jars", ",".join(spark_environment[name] for name in JARS))
            .config("spark.sql.extensions", "com.datastax.spark.connector.CassandraSparkExtensions")
            # The default is an hour, and each open connection hears of each change of the schema.
            .config("spark.cassandra.connection.keepAliveMS", "10000")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.memory", "2g")
            .config("spark.cores.max", "2")
            .config("spark.executor.cores", "1")
            .config("spark.executor.memory", "512m")
            .config("spark.locality.wait", "0s")
            .config("spark.sql.execution.arrow.pyspark.enabled", "true")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.legacy.timeParserPolicy", "CORRECTED")
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            .config("spark.ui.enabled", "false")
            .config(map={**SMALL, "spark.default.parallelism": "1"})
            .getOrCreate()
        )
        patched.setenv("SPARK_SUBMIT_OPTS", for_applications)
        session.sparkContext.setLogLevel("OFF")
        assert check_every_call(patched) > 30
        # For a bare name the gateway tries every imported package, and each miss goes through all
        # of Spark's jars: half a millisecond of CPU for nearly every column of every test.
        for name in NAMED_OFTEN:
            setattr(session._jvm, name, getattr(session._jvm, name))
        # py4j logs its farewell after pytest has closed the streams that it captured.
        logging.getLogger("py4j").setLevel(logging.ERROR)
        yield session
        session.stop()


@pytest.fixture(scope="module")
def production(spark: SparkSession) -> Iterator[None]:
    """Give the tests of a module the settings of Spark that users have."""
    for name, value in PRODUCTION.items():
        spark.conf.set(name, value)
    yield
    for name, value in SMALL.items():
        spark.conf.set(name, value)
