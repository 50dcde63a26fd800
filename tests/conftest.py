"""One Cassandra and one Spark session for the whole run."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from embedded.cassandra import Endpoint

_STATE = Path(
    os.environ.get("TIDEMARK_STATE") or Path(__file__).parents[1] / ".tidemark" / "test"
).resolve()


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `make soak` asks for."""
    parser.addoption("--soak", action="store_true", help="also run the tests marked soak")
    parser.addoption("--kills", type=int, default=2, help="kills at random moments")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what is marked soak to `make soak`; a sample of each such test has no mark."""
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
    os.environ["SPARK_CONF_DIR"] = str(Path(__file__).parent / "spark-conf")
    # Ended from outside as by Ctrl-C: the fixtures stop their servers on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def state() -> Iterator[Path]:
    """The state directory of this run, emptied of the last one's servers and data."""
    from embedded import processes

    _STATE.mkdir(parents=True, exist_ok=True)
    with (_STATE / "tests.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pytest.exit(
                f"another test run uses {_STATE}; set TIDEMARK_STATE to another directory",
                returncode=1,
            )
        for run_directory, names in processes.all_recorded(_STATE).items():
            processes.stop(names, run_directory)
        for home in ("cassandra", "chain", "doors"):
            shutil.rmtree(_STATE / home, ignore_errors=True)
        yield _STATE


@pytest.fixture(scope="session")
def cassandra(state: Path) -> Iterator[Endpoint]:
    """The address of a real Cassandra; each test makes keyspaces of its own in it."""
    from embedded.cassandra import Cassandra

    node = Cassandra(state / "cassandra")
    try:
        yield node.start()
    finally:
        node.stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One small Spark session with the Cassandra connector; applications run inside it too."""
    from pyspark.sql import SparkSession

    from embedded import spark as embedded_spark

    environment = embedded_spark.environment()
    with pytest.MonkeyPatch.context() as patched:
        for name, value in environment.items():
            if not name.startswith("TIDEMARK_"):
                patched.setenv(name, value)
        session = (
            SparkSession.builder.master("local[2]")
            .appName("tidemark-tests")
            .config("spark.jars", environment["TIDEMARK_SPARK_JARS"])
            .config("spark.sql.extensions", "com.datastax.spark.connector.CassandraSparkExtensions")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.memory", "2g")
            .config("spark.sql.execution.arrow.pyspark.enabled", "true")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            .config("spark.ui.enabled", "false")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        # It says goodbye after pytest has closed the streams that it captured.
        logging.getLogger("py4j").setLevel(logging.ERROR)
        yield session
        session.stop()
