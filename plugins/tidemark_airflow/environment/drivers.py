"""The driver of an application: where it runs, and how it gets settings and returns its report.

A driver on this machine is a child of the task and inherits its environment. For a driver in the
cluster, spark-submit passes an environment as `--conf`, which everybody sees in the list of
processes (source: SparkSubmitHook._build_spark_common_args, provider 5.6.0), so its secrets are
mounted there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException

_SECRET = "_PASSWORD"  # noqa: S105  the suffix of their names
_LOCAL_VARIABLES = ("TIDEMARK_HOME", "TIDEMARK_STATE", "TIDEMARK_SPARK_JARS")
_HOME = "tidemark-home"
_SECRETS_DIR = "secrets-dir"


@dataclass(frozen=True)
class Driver:
    """The driver of a Spark connection.

    Attributes:
        home: the directory of Tidemark in the cluster; None if the driver runs on this machine.
        secrets: the directory of the mounted secrets in the cluster.
    """

    home: str | None = None
    secrets: str | None = None

    @classmethod
    def of(cls, connection: Connection) -> Driver:
        """Read a connection, whose extra field `deploy-mode` determines where the driver runs.

        Raises:
            AirflowFailException: the driver runs in the cluster, and the connection lacks the
                directory of Tidemark or of the secrets.
        """
        extra = connection.extra_dejson
        if extra.get("deploy-mode") != "cluster":
            return cls()
        missing = [name for name in (_HOME, _SECRETS_DIR) if not extra.get(name)]
        if missing:
            raise AirflowFailException(
                f"the connection {connection.conn_id} runs drivers in the cluster, and does not"
                f" say where Tidemark and its secrets are there: set the extra fields"
                f" {' and '.join(missing)}, see docs/cluster.md"
            )
        return cls(extra[_HOME], extra[_SECRETS_DIR])

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that are passed to the driver; without secrets in the cluster."""
        if self.secrets is None:
            return dict(variables)
        plain = {name: value for name, value in variables.items() if not name.endswith(_SECRET)}
        return {**_own_settings(), **plain, "TIDEMARK_SECRETS_DIR": self.secrets}

    def place(self, file: Path, home: Path) -> str:
        """Return the path or URI of a file of Tidemark's `home` where the driver runs."""
        if self.home is None or not file.is_relative_to(home):
            return str(file)
        return f"local://{PurePosixPath(self.home) / file.relative_to(home).as_posix()}"


def _own_settings() -> dict[str, str]:
    """Return the settings of this process, which a driver in the cluster does not inherit."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith("TIDEMARK_")
        and not name.endswith(_SECRET)
        and name not in _LOCAL_VARIABLES
    }


def own_python() -> str:
    """Return the Python that has the library's packages; Airflow's Python may lack them."""
    return os.environ.get("PYSPARK_DRIVER_PYTHON") or sys.executable


def report_of(run_id: str, environment: Mapping[str, str], home: Path) -> dict[str, Any] | None:
    """Return the report of a run from the table `run`; None if there is none."""
    process = _python(home, environment, "-m", "tidemark.application.report", run_id)
    report: dict[str, Any] | None = json.loads(process.stdout) if process.stdout.strip() else None
    return report


def projection_names(
    home: Path, environment: Mapping[str, str], *, of_topics: bool = False
) -> list[str]:
    """Return the names of all projections of a journal, or of those that read a topic.

    Raises:
        AirflowFailException: there is no directory of definitions.
    """
    options = ["--of-topics"] if of_topics else []
    process = _python(home, environment, "-m", "tidemark.project.definition.names", *options)
    if process.returncode:
        raise AirflowFailException(_last_line(process.stderr))
    names: list[str] = json.loads(process.stdout)
    return names


def observe(home: Path, environment: Mapping[str, str], *options: str) -> str:
    """Run `observe.py`, and return its output.

    Raises:
        AirflowException: it has failed; the text is its last line.
    """
    process = _python(home, environment, "observe.py", *options)
    if process.returncode:
        raise AirflowException(_last_line(process.stderr) or "observe.py has failed without a text")
    return process.stdout


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def _python(
    home: Path, environment: Mapping[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  our own module
        [own_python(), *arguments],
        # Python finds the library there, even if it is not installed.
        cwd=home / "spark_apps",
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def write_private(file: Path, text: str) -> None:
    """Write a new file that only its owner can read; invalid Unicode is written as it is."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as target:
        target.write(text.encode("utf-8", "surrogatepass"))


def sendable(arguments: list[str]) -> list[str]:
    """Return the arguments of a command line unchanged.

    Raises:
        AirflowFailException: an argument cannot be passed to a process.
    """
    for argument in arguments:
        if not _is_sendable(argument):
            raise AirflowFailException(
                f"a field of the form holds what no command line can, NUL or half of a character:"
                f" {ascii(argument)[:100]}; correct it and trigger the DAG again"
            )
    return arguments


def _is_sendable(argument: str) -> bool:
    try:
        return b"\0" not in os.fsencode(argument)
    except UnicodeEncodeError:
        return False
