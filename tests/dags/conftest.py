"""Fixtures of the door tests: a real Airflow, in which only Spark itself is replaced."""

from __future__ import annotations

import json
import secrets
import sqlite3
import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page

from embedded.airflow import configuration, rest
from embedded.airflow.server import Airflow
from embedded.cassandra.server import Endpoint
from embedded.machine import processes, secrets_file
from tests.dags import browser
from tests.integration.conftest import control, pool
from tests.integration.pool import Pool
from tests.integration.support import Journal
from tidemark_airflow import alerts, purging

__all__ = ["control", "pool"]

DAG_IDS = (
    "tag_write",
    "validate",
    "project",
    "chain",
    "backfill",
    "weekly_check",
    "purge",
    "reconcile",
    "cleanup",
    "manage_projections",
    "manage_replication",
    "manage_event_groups",
    "replicate",
    "event_groups",
    "submit_event_groups",
    "observe",
)

_ON_CALL = """
import json, pathlib

def page(context):
    if "alarm" in context:
        if pathlib.Path(__file__).with_name("silent").exists():
            raise OSError("nobody answers")
        with pathlib.Path(__file__).with_name("alarms.jsonl").open("a") as alarms:
            print(json.dumps([context["dag_run"].run_id, context["reason"]]), file=alarms)
        return
    run = context["dag_run"]
    run_id = run["dag_run_id"] if isinstance(run, dict) else run.run_id
    with pathlib.Path(__file__).with_name("pages.jsonl").open("a") as pages:
        print(json.dumps([run_id, "deadline" in context]), file=pages)
"""
"""A notifier, which keeps of each call the run and whether it was for a deadline.

Of a call for an alarm it keeps the run and the reason, and fails if there is a file `silent`."""
_DEFINITION = """\
/*---
name: totals
version: 1
source: messages
mode: bucket
target: t.totals
event: amount INT
---*/
SELECT time_bucket, sum(amount) AS total FROM events GROUP BY time_bucket
"""
PATIENCE_S = 300.0
"""How long a test waits for what must come, in seconds: a bound for what hangs, not for speed."""
PARSED_RARELY = {"AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": str(round(PATIENCE_S / 3))}
"""No DAG changes while tests run, and parsing them at every turn takes an eighth of a core.

Not once only: a DAG that SQLite was too busy to keep counts as gone until it is parsed again."""
PAGES = "pages.jsonl"
ALARMS = "alarms.jsonl"
SILENT = "silent"
OBSERVED = "observed.env"
"""A file of a shell with the variables of the application `observe`, which is not replaced."""
LINEAGE = "lineage.jsonl"
"""The file below Airflow's home that OpenLineage's events go to."""


READER = "reader"
"""A user of Airflow who may trigger DAGs."""
VIEWER = "viewer"
"""A user of Airflow who may only read."""
_USERS = {configuration.ADMIN: "admin", READER: "user", VIEWER: "viewer"}
_WAITING = (
    "SELECT job_type, state, latest_heartbeat FROM job WHERE state = 'running'",
    "SELECT dag_id, is_stale, is_paused, last_parsed_time FROM dag WHERE is_stale OR is_paused",
    "SELECT dag_id, run_id, state FROM dag_run WHERE state IN ('queued', 'running')",
    "SELECT dag_id, run_id, task_id, state FROM task_instance"
    " WHERE state IN ('scheduled', 'queued', 'running', 'deferred', 'up_for_retry')",
)
"""What Airflow's database knows of work that is not over."""


@dataclass(frozen=True)
class Doors:
    """A running Airflow whose DAGs are all unpaused, without a run under way.

    Attributes:
        airflow: the Airflow.
        client: a client of its REST API, as its admin.
        environment: the environment of its processes.
    """

    airflow: Airflow
    client: httpx.Client
    environment: dict[str, str] = field(repr=False)

    @property
    def address(self) -> str:
        """The URL of its server."""
        return str(self.airflow.url())

    @property
    def home(self) -> Path:
        """The directory of its files, with the database."""
        return Path(self.environment["AIRFLOW_HOME"])

    def password(self, user: str) -> str:
        """Return the password of a user."""
        file = configuration.passwords_file(self.home)
        return str(json.loads(file.read_text())[user])

    def lines_of(self, name: str) -> list[Any]:
        """Return what stands in a file below Airflow's home, a value a line."""
        file = self.home / name
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def condition(self) -> str:
        """Return the end of the logs of Airflow's processes, which of them run, and what waits."""
        names = ("dag-processor", "scheduler")
        logs = [processes.log_tail(self.home / "logs" / f"{name}.log", 30) for name in names]
        run = [
            f"{name}: {processes.running(name, self.home / 'run') or 'has ended'}" for name in names
        ]
        with closing(sqlite3.connect(self.home / "airflow.db")) as database:
            waits = [f"{row}" for query in _WAITING for row in database.execute(query)]
        return "\n".join([*logs, *run, *waits])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the condition of Airflow to the report of a test that waited in vain."""
    report = yield
    doors = getattr(item, "funcargs", {}).get("doors")
    if report.failed and isinstance(doors, Doors):
        report.sections.append(("Airflow", doors.condition()))
    return report


@pytest.fixture(scope="session")
def shown_journal(pool: Pool, cassandra: Endpoint) -> Iterator[Journal]:
    """Yield an empty journal, whose state the operator's page of the running Airflow shows."""
    keyspaces = pool.take()
    yield Journal.over(pool.control, cassandra.environment(), keyspaces.journal, keyspaces.own)
    pool.give_back(keyspaces)


@pytest.fixture(scope="session")
def doors(state: Path, shown_journal: Journal) -> Iterator[Doors]:
    """Yield the DAGs in a real scheduler; spark-submit starts tests/dags/fake_application.py."""
    home = state / "doors"
    home.mkdir(parents=True)
    # Airflow's processes start in its home, so that a module there is one that they can import.
    (home / "on_call.py").write_text(_ON_CALL)
    definition = home / "projections" / "totals.sql"
    definition.parent.mkdir()
    definition.write_text(_DEFINITION)
    environment = {
        **PARSED_RARELY,
        "TIDEMARK_PROJECTIONS_DIR": str(definition.parent),
        "SPARK_HOME": str(_spark_home(state / "doors-spark")),
        **shown_journal.environment,
        "PYSPARK_DRIVER_PYTHON": str(_python(home)),
        "TIDEMARK_DATA_DOCS_DIR": str(home / "data_docs"),
        "TIDEMARK_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:9092",
        "TIDEMARK_REPLICATE_MINUTES": "0",
        "TIDEMARK_OBSERVE_MINUTES": "0",
        "TIDEMARK_WEEKLY_CHECK": "off",
        purging.APPROVERS: configuration.ADMIN,
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(
            {"type": "file", "log_file_path": str(home / LINEAGE), "append": True}
        ),
        alerts.NOTIFIER: "on_call:page",
        alerts.DEADLINE: "1",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(
            f"{name}:{role}" for name, role in _USERS.items()
        ),
    }
    # Airflow itself would make them up, and print them.
    passwords = {name: secrets.token_urlsafe() for name in _USERS}
    secrets_file.keep(configuration.passwords_file(home), lambda: json.dumps(passwords))
    airflow = Airflow(home, environment)
    try:
        airflow.start()
        with airflow.client() as client:
            rest.wait_until("the DAGs to be parsed", PATIENCE_S, lambda: _all_known(client))
            for dag_id in DAG_IDS:
                rest.unpause(client, dag_id)
            # Unpausing tag_write starts a run for the latest interval, which starts the chain.
            rest.wait_for_runs(client, "purge", "asset_triggered", 1, PATIENCE_S)
            yield Doors(airflow, client, airflow.environment())
    finally:
        airflow.stop()


@pytest.fixture(scope="session")
def address(doors: Doors) -> str:
    """Return the URL of the running Airflow."""
    return doors.address


@pytest.fixture(scope="module")
def reader(doors: Doors) -> Iterator[BrowserContext]:
    """Yield a browser in which `READER` has logged in.

    Of the module: one that has been left alone for minutes opens no more pages.
    """
    with browser.logged_in(doors.address, READER, doors.password(READER)) as context:
        yield context


@pytest.fixture
def page(reader: BrowserContext, tmp_path: Path) -> Iterator[Page]:
    """Yield a new page."""
    page = reader.new_page()
    yield page
    page.screenshot(path=tmp_path / "page.png")
    page.close()


def wait_for_page(doors: Doors, page: list[Any]) -> None:
    """Wait until somebody was called: for which run, and whether for a deadline."""
    rest.wait_until("the page", PATIENCE_S, lambda: page in doors.lines_of(PAGES) or None)


def _all_known(client: httpx.Client) -> bool | None:
    dag_ids = {dag["dag_id"] for dag in rest.call(client, "GET", "dags")["dags"]}
    return dag_ids == set(DAG_IDS) or None


def _spark_home(home: Path) -> Path:
    """Make a SPARK_HOME for the real spark-submit script, which starts its `bin/spark-class`."""
    launcher = home / "bin" / "spark-class"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    application = Path(__file__).with_name("fake_application.py")
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{application}" "$@"\n')
    launcher.chmod(0o755)
    return home


def _python(home: Path) -> Path:
    """Make a Python for the library, in which only `observe.py` finds a Cassandra."""
    python, variables = home / "python", home / OBSERVED
    python.write_text(
        f"""#!/bin/sh
[ "$1" = observe.py ] && [ -f "{variables}" ] && . "{variables}"
exec "{sys.executable}" "$@"
"""
    )
    python.chmod(0o755)
    return python
