"""A test's own journal, and the applications, run as a user runs them."""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark import SparkContext
from pyspark.sql import SparkSession

from embedded.cassandra.server import Endpoint
from tests.integration.connections import know
from tests.integration.pool import unique_names
from tidemark import spark_session
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import SCHEMA_DIR, create_keyspace, create_tables, table
from tidemark.context import RunContext
from tidemark.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
REPLICATION = {"class": "SimpleStrategy", "replication_factor": "1"}
DATA = Path(__file__).parent / "data"
TAG_TABLES = ("tag_views", "tag_write_progress", "tag_scanning")
POLL_S = 0.2
KEYSPACE_VARIABLES = ("TIDEMARK_JOURNAL_KEYSPACE", "TIDEMARK_KEYSPACE")


def control_of(endpoint: Endpoint, **unchecked: str) -> Control:
    """Return a session to a server; its user closes it.

    `unchecked` are settings that an application would perhaps refuse.
    """
    settings = Settings(
        cassandra_hosts=f"{endpoint.host}:{endpoint.port}",
        cassandra_username=endpoint.username,
        cassandra_password=endpoint.password,
    )
    return Control(settings.model_copy(update=unchecked))


@dataclass
class Journal:
    """A journal keyspace with Pekko's tables, and Tidemark's own keyspace beside it."""

    control: Control
    environment: Mapping[str, str]
    keyspace: str
    own_keyspace: str

    @classmethod
    def create(cls, control: Control, environment: Mapping[str, str], **settings: str) -> Journal:
        """Make the journal's tables in a new keyspace; Tidemark makes its own, in another."""
        keyspace, own = unique_names()
        create_keyspace(control, keyspace, REPLICATION)
        create_tables(control, SCHEMA_DIR / "pekko.cql", keyspace)
        return cls.over(control, environment, keyspace, own, **settings)

    @classmethod
    def over(
        cls,
        control: Control,
        environment: Mapping[str, str],
        keyspace: str,
        own_keyspace: str,
        **settings: str,
    ) -> Journal:
        """Return the journal in keyspaces that exist already.

        `settings` are further TIDEMARK_ variables, such as BUCKET_SIZE="Day".
        """
        names = {"JOURNAL_KEYSPACE": keyspace, "KEYSPACE": own_keyspace}
        variables = {f"TIDEMARK_{key}": value for key, value in (names | settings).items()}
        return cls(control, {**environment, **variables}, keyspace, own_keyspace)

    def insert(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Insert rows as a driver would; columns that are None are left unset."""
        by_columns: dict[tuple[str, ...], list[list[Any]]] = {}
        for row in rows:
            present = {key: value for key, value in row.items() if value is not None}
            by_columns.setdefault(tuple(present), []).append(list(present.values()))
        for columns, values in by_columns.items():
            marks = ", ".join("?" * len(columns))
            cql = (
                f"INSERT INTO {table(self.keyspace, name)} ({', '.join(columns)}) VALUES ({marks})"
            )
            self.control.execute_many(cql, values)

    def rows(self, name: str) -> list[Row]:
        """Return all rows of a table of the journal, in a total order."""
        result = self.control.execute(f"SELECT * FROM {table(self.keyspace, name)}")
        return sorted(result, key=lambda row: str(sorted(row.items())))

    def own_rows(self, name: str) -> list[Row]:
        """Return all rows of one of Tidemark's tables."""
        return self.control.execute(f"SELECT * FROM {table(self.own_keyspace, name)}")

    def tag_tables(self) -> dict[str, list[Row]]:
        """Return all rows that tag-write writes, by table."""
        return {name: self.rows(name) for name in TAG_TABLES}

    def settings(self) -> Settings:
        """Return the settings that an application would read from this environment."""
        values = {
            key.removeprefix("TIDEMARK_").lower(): value
            for key, value in self.environment.items()
            if key.removeprefix("TIDEMARK_").lower() in Settings.model_fields
        }
        return Settings(**values)  # type: ignore[arg-type]

    def run(self, application: str, *arguments: str, **variables: str) -> Result:
        """Run `spark_apps/<application>.py` inside this process, on the tests' Spark session."""
        script = ROOT / "spark_apps" / f"{application}.py"
        environment = self._with(variables)
        know(self.control, *(environment[name] for name in KEYSPACE_VARIABLES))
        return run_inside(script, arguments, environment)

    def index_timestamps(self) -> None:
        """Make the opt-in index of docs/tagging.md."""
        self.control.execute_ddl(
            f"CREATE CUSTOM INDEX ON {self.keyspace}.messages(timestamp)"
            " USING 'StorageAttachedIndex'"
        )

    def start(self, script: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start a script in a process group of its own, so that the whole group can be killed."""
        return subprocess.Popen(
            [sys.executable, str(script), *arguments],
            env=self._with(variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run_alone(self, application: str, *arguments: str, **variables: str) -> Result:
        """Run `spark_apps/<application>.py` in a process of its own."""
        process = self.start(ROOT / "spark_apps" / f"{application}.py", *arguments, **variables)
        stdout, stderr = process.communicate()
        return Result(process.returncode, stdout, stderr)

    def _with(self, variables: Mapping[str, str]) -> dict[str, str]:
        return {
            **os.environ,
            **self.environment,
            **{f"TIDEMARK_{key}": value for key, value in variables.items()},
        }


@dataclass(frozen=True)
class Result:
    """How an application ended, as its user sees it."""

    status: int
    stdout: str
    stderr: str

    @property
    def report(self) -> dict[str, Any]:
        """The report: the last line of standard output, decoded."""
        report: dict[str, Any] = json.loads(self.stdout.splitlines()[-1])
        return report

    @property
    def error_lines(self) -> list[str]:
        """The lines of standard error that state an error."""
        return [line for line in self.stderr.splitlines() if ": error: " in line]


def run_inside(script: Path, arguments: Iterable[str], environment: Mapping[str, str]) -> Result:
    """Run a script as in its own process, except that it finds the running Spark session.

    A session costs ten seconds of the two cores that all tests share. As in a process of its own,
    the script finds no session until it asks its `RunContext` for one.
    """
    stdout, stderr = io.StringIO(), io.StringIO()
    status: int | str | None = 0
    with (
        patch.dict(os.environ, environment),
        patch.object(sys, "argv", [str(script), *arguments]),
        redirect_stdout(stdout),
        redirect_stderr(stderr),
        _without_session_until_opened(),
    ):
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as end:
            status = end.code
    return Result(int(status or 0), stdout.getvalue(), stderr.getvalue())


@contextmanager
def _without_session_until_opened() -> Iterator[None]:
    """Hide the running session from pyspark until `open_session` is called."""
    open_session = spark_session.open_session
    context, instance = SparkContext._active_spark_context, SparkSession._instantiatedSession

    def show() -> None:
        SparkContext._active_spark_context, SparkSession._instantiatedSession = context, instance

    def opened(application: str, settings: Settings) -> SparkSession:
        show()
        return open_session(application, settings)

    SparkContext._active_spark_context = SparkSession._instantiatedSession = None
    try:
        # A session that starts beside other work might be open in time, or might not.
        with (
            patch.object(RunContext, "start_spark", lambda run: None),
            patch.object(spark_session, "open_session", opened),
        ):
            yield
    finally:
        show()


def wait_until(state: str, probe: Callable[[], bool], deadline_s: float = 60) -> None:
    """Poll until the probe returns true.

    Raises:
        TimeoutError: the probe returned false for `deadline_s` seconds.
    """
    until = time.monotonic() + deadline_s
    while not probe():
        if time.monotonic() > until:
            raise TimeoutError(f"after {deadline_s} s still waiting for {state}")
        time.sleep(POLL_S)


def pekko_sample() -> dict[str, list[Row]]:
    """Read the rows that the real plugin wrote, by table (data/pekko-sample-rows.txt)."""
    rows: dict[str, list[Row]] = {}
    current: list[Row] = []
    for line in (DATA / "pekko-sample-rows.txt").read_text().splitlines():
        if heading := re.match(r"== select \* from sample\.(\w+)", line):
            current = rows.setdefault(heading[1], [])
        elif line.startswith("== "):
            current = []
        elif line.startswith("-- row"):
            current.append({})
        elif column := re.match(r"\s+(\w+) : ([^=]+?) = (.*)$", line):
            current[-1][column[1]] = _sample_value(column[2], column[3])
    return rows


def _sample_value(kind: str, text: str) -> Any:
    if text == "null":
        return None
    if kind == "TIMEUUID":
        return uuid.UUID(text.split()[0])
    if kind == "BLOB":
        return bytes.fromhex(text.split()[0][2:])
    if kind.startswith("Set"):
        return set(text[1:-1].split(", "))
    return int(text) if kind in ("BIGINT", "INT") else text[1:-1]
