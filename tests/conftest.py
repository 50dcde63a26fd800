"""One Cassandra and one Spark session for the whole run."""

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
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from embedded.cassandra import Endpoint

_LOCK = pytest.StashKey[IO[str]]()
_STATE = Path(
    os.environ.get("TIDEMARK_STATE") or Path(__file__).parents[1] / ".tidemark" / "test"
).resolve()

JVM_OPTIONS = (
    "-XX:-UseParallelGC",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    # As much as with both compilers: at the 48 MB of one, code is thrown out and compiled again.
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:MetaspaceSize=256m",
    "-Xmn256m",
)
"""A handful of rows in many short runs: compiling costs the JVM more than it saves. Applications in
processes of their own, as those that are killed or that Airflow starts, run with these too, and
otherwise as in production."""
SMALL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
}
"""Spark's settings inside the tests' process: planning and compiling cost the most there, too."""
PRODUCTION = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.leafNodeDefaultParallelism": "2",
    "spark.sql.shuffle.partitions": "8",
}
"""What an application has on two cores, if nobody sets anything else (see
`tidemark.spark_session`). It costs the main suites 1.8 times the CPU, so that not every
module has it."""
NAMED_OFTEN = ("functions", "PythonUtils", "PythonRDD", "SerDeUtil", "SparkSession", "org")
"""What pyspark takes from its view of the JVM by a bare name."""
SHARING = ("dags", "interop")
"""Directories whose tests share a server that only they use."""
ROOMS = (*SHARING, "faults", "live", "integration", "unit")
"""Directories in the order in which they are begun: what takes longest must not begin last."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `make soak` asks for."""
    parser.addoption("--soak", action="store_true", help="also run the tests marked soak")
    parser.addoption("--kills", type=int, default=1, help="kills at random moments")


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each worker a whole group of tests at a time, in the order of ROOMS.

    What shares an Airflow or the Pekko client is one group, every other file is one of its own.
    """

    def _split_scope(self, nodeid: str) -> str:
        room = _room(nodeid)
        return room if room in SHARING else nodeid.partition("::")[0]


def _room(nodeid: str) -> str:
    """The directory below `tests` that a test is in."""
    return Path(nodeid.partition("::")[0]).parts[1]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Groups:
    """With `--numprocesses`, instead of what `--dist` names."""
    # By itself it begins with the groups of many tests, which are those of short ones.
    config.option.loadscopereorder = False
    return Groups(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what is marked soak to `make soak`; a sample of each such test has no mark."""
    items.sort(key=lambda item: ROOMS.index(_room(item.nodeid)))
    if config.getoption("soak"):
        return
    left_out = [item for item in items if item.get_closest_marker("soak")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_configure() -> None:
    """Keep the shell's settings out, and point everything at the tests' own state directory.

    This runs before any test module is imported: `embedded.paths` and Airflow read the
    environment when they are loaded.
    """
    for name in list(os.environ):
        if name.startswith(("TIDEMARK_", "AIRFLOW_")):
            del os.environ[name]
    os.environ["TIDEMARK_STATE"] = str(_STATE)
    # For DAG files loaded inside the test process; a running Airflow has a home of its own.
    os.environ["AIRFLOW_HOME"] = str(_STATE / "airflow-in-process")
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    os.environ.pop("SPARK_CONF_DIR", None)
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join(JVM_OPTIONS)
    # Ended from outside as by Ctrl-C: the fixtures stop their servers on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Lock the state directory, and empty it of the last run's servers and data."""
    if _is_worker(session.config):
        return
    from embedded import processes

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
    for home in ("cassandra", "chain", "doors"):
        shutil.rmtree(_STATE / home, ignore_errors=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop the server that all workers used."""
    if _is_worker(session.config):
        # What this worker started for all outlives it.
        warnings.simplefilter("ignore", ResourceWarning)
        return
    if _LOCK not in session.config.stash:
        return
    from embedded.cassandra import Cassandra

    Cassandra(_STATE / "cassandra").stop()
    session.config.stash[_LOCK].close()


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


@pytest.fixture(scope="session")
def state() -> Path:
    """The state directory of this run."""
    return _STATE


@pytest.fixture(scope="session")
def cassandra(state: Path) -> Endpoint:
    """The address of a real Cassandra; each test has keyspaces to itself in it.

    The first test that wants it starts it.
    """
    from embedded.cassandra import Cassandra
    from embedded.spark import LATE_OPTIMIZING

    with pytest.MonkeyPatch.context() as patched:
        # As for the applications: compiling took half of a server's CPU in its first minutes.
        patched.setenv("JDK_JAVA_OPTIONS", " ".join(LATE_OPTIMIZING))
        return Cassandra(state / "cassandra").start()


@pytest.fixture(scope="session")
def spark_environment() -> dict[str, str]:
    """What applications need around them to run Spark; made once, since it checks every jar."""
    from embedded import spark as embedded_spark

    return embedded_spark.environment()


@pytest.fixture(scope="session")
def spark(
    tmp_path_factory: pytest.TempPathFactory, spark_environment: dict[str, str]
) -> Iterator[SparkSession]:
    """One small Spark session with the Cassandra connector; applications run inside it too."""
    from pyspark.sql import SparkSession

    from tests.shapes import check_every_call

    with pytest.MonkeyPatch.context() as patched:
        for name, value in spark_environment.items():
            if not name.startswith("TIDEMARK_"):
                patched.setenv(name, value)
        session = (
            SparkSession.builder.master("local[2]")
            .appName("tidemark-tests")
            .config("spark.jars", spark_environment["TIDEMARK_SPARK_JARS"])
            .config("spark.sql.extensions", "com.datastax.spark.connector.CassandraSparkExtensions")
            # An hour, if left to itself; each open connection hears of each change of the schema.
            .config("spark.cassandra.connection.keepAliveMS", "10000")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.memory", "2g")
            .config("spark.sql.execution.arrow.pyspark.enabled", "true")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            .config("spark.ui.enabled", "false")
            .config(map={**SMALL, "spark.default.parallelism": "1"})
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        assert check_every_call(patched) > 30
        # For a bare name the gateway tries every imported package, and each miss goes through all
        # of Spark's jars: half a millisecond of CPU for nearly every column of every test.
        for name in NAMED_OFTEN:
            setattr(session._jvm, name, getattr(session._jvm, name))
        # It says goodbye after pytest has closed the streams that it captured.
        logging.getLogger("py4j").setLevel(logging.ERROR)
        yield session
        session.stop()


@pytest.fixture(scope="module")
def production(spark: SparkSession) -> Iterator[None]:
    """Spark's settings as users have them, for the tests of a module that uses this fixture."""
    for name, value in PRODUCTION.items():
        spark.conf.set(name, value)
    yield
    for name, value in SMALL.items():
        spark.conf.set(name, value)
