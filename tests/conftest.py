"""Fixtures of all tests: one Cassandra for the run, and one Spark session for each worker."""

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
from xdist.workermanage import WorkerController

from tests import turns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from embedded.cassandra.server import Endpoint
    from embedded.postgres.server import PostgresEndpoint
    from embedded.spark.cluster import SparkCluster

_LOCK = pytest.StashKey[IO[str]]()
_STATUS = pytest.StashKey[list[str]]()
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
SHARING = ("interop", "dags")
"""Directories whose tests share a server that only they use. Airflow's takes the most while it has
nothing to do, and runs until the tests end."""
ROOMS = (*SHARING, "cluster", "faults", "live", "integration", "security", "unit")
"""Directories in the order in which they are begun: the slowest must not begin last."""
WAITING = (*SHARING, "tests/live/test_real_time.py")
"""Groups that mostly wait: for Airflow's scheduler, for Pekko's readers, for the next minute."""
BEGUN_FIRST = (
    "tests/dags/test_chain.py",
    "tests/unit/reconcile/test_reconciliation.py",
    "tests/unit/validate/test_continuity.py",
    "tests/unit/validate/test_incremental.py",
    "tests/unit/test_flights.py",
    "tests/unit/reconcile/test_cleanup_rules.py",
)
"""Files that are begun before the others of their directory, for the same reason, and the one with
an Airflow of its own, before the shared one runs beside it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that `make test`, `make long` and `make soak` set."""
    parser.addoption("--long", action="store_true", help="also run the tests marked long")
    parser.addoption("--half", action="store_true", help="mark half of tests/integration as long")
    parser.addoption("--soak", action="store_true", help="also run those marked long or soak")
    parser.addoption("--share", action="store_true", help="run this commit's share of those")
    parser.addoption("--long-status", action="store_true", help="show when those last ran here")
    parser.addoption("--kills", type=int, default=1, help="kills at random moments")
    parser.addoption("--cluster", action="store_true", help="use a Spark cluster with two workers")


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """A scheduler that gives each worker a whole group of tests at a time, in the order of ROOMS.

    The tests that share an Airflow or the Pekko client are one group; every other file is a group.
    From three workers on, one takes the groups of WAITING, beside the others' work, and then ends.
    """

    _waiter: WorkerController | None = None

    def schedule(self) -> None:
        """Choose the worker that waits, then give each worker its first groups."""
        if self.collection is None and len(self.nodes) > 2:
            self._waiter = self.nodes[0]
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        room = _room(nodeid)
        return room if room in SHARING else nodeid.partition("::")[0]

    def _reschedule(self, node: WorkerController) -> None:
        is_done = not any(group in WAITING for group in self.workqueue)
        if is_done and node is self._waiter:
            self._waiter.shutdown()
        else:
            super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if self._waiter in self.nodes:
            waits = node is self._waiter
            # Workers without other work left take the groups that wait, too.
            for group in self.workqueue:
                if (group in WAITING) == waits:
                    self.workqueue.move_to_end(group, last=False)
                    break
        super()._assign_work_unit(node)


def _room(nodeid: str) -> str:
    """Return the directory below `tests` that a test is in."""
    return Path(nodeid.partition("::")[0]).parts[1]


def _place(item: pytest.Item) -> tuple[int, int]:
    """Return what tests are sorted by: ROOMS, and in each of them BEGUN_FIRST."""
    file = item.nodeid.partition("::")[0]
    place = BEGUN_FIRST.index(file) if file in BEGUN_FIRST else len(BEGUN_FIRST)
    return ROOMS.index(_room(item.nodeid)), place


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Groups:
    """Use `Groups` with `--numprocesses`, instead of the scheduler that `--dist` names."""
    # By default xdist begins with the groups of many tests, and those tests are short.
    config.option.loadscopereorder = False
    return Groups(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests marked long or soak to `make long` and `make soak`; samples have no mark.

    Tests that need Spark get the mark of that name, which `make unit` leaves out. With --half, half
    of the integration tests are long as well: those that ran at the commit before are, and at the
    next one the others.
    """
    items.sort(key=_place)
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    if config.getoption("long_status"):
        config.stash[_STATUS] = turns.status(items, turns.kept(_STATE))
        items.clear()
        return
    commit = turns.commits() if config.getoption("half") or config.getoption("share") else 0
    if config.getoption("half"):
        for item in items:
            function = turns.function_of(item)
            if _room(function) == "integration" and not turns.is_turn(function, commit, 2):
                item.add_marker("long")
    if config.getoption("soak"):
        return
    marks = {"soak"} if config.getoption("long") else turns.LEFT_OUT

    def runs(item: pytest.Item) -> bool:
        if config.getoption("share"):
            is_turn = turns.is_turn(turns.function_of(item), commit, turns.SHARES)
            return is_turn and turns.is_left_out(item)
        return not turns.is_left_out(item, marks)

    chosen = [(item, runs(item)) for item in items]
    config.hook.pytest_deselected(items=[item for item, is_chosen in chosen if not is_chosen])
    items[:] = [item for item, is_chosen in chosen if is_chosen]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note when the tests ran that `make test` leaves out."""
    turns.note(report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how to repeat what has failed, or when tests last ran."""
    lines = terminalreporter.config.stash.get(_STATUS, [])
    for line in [*lines, *turns.repeats(terminalreporter.getreports("failed"))]:
        terminalreporter.write_line(line)


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

    turns.keep(_STATE)
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
