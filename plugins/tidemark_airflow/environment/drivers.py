"""Where the driver of an application runs, and how its settings, secrets and report travel.

A driver on this machine is a child of the task and inherits its environment. To one in the cluster
spark-submit passes an environment as `--conf`, which everybody sees in the list of processes
(source: SparkSubmitHook._build_spark_common_args, provider 5.6.0): its secrets are mounted there.
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
from airflow.sdk.exceptions import AirflowFailException

_SECRET = "_PASSWORD"  # noqa: S105  the end of their names
_OF_THIS_MACHINE = ("TIDEMARK_HOME", "TIDEMARK_STATE", "TIDEMARK_SPARK_JARS")
_HOME = "tidemark-home"
_SECRETS_DIR = "secrets-dir"


@dataclass(frozen=True)
class Driver:
    """The driver of a Spark connection.

    Attributes:
        home: where Tidemark is on the machines of a driver that does not run on this one.
        secrets: the directory there in which its secrets are mounted.
    """

    home: str | None = None
    secrets: str | None = None

    @classmethod
    def of(cls, connection: Connection) -> Driver:
        """Read a connection; its extra field `deploy-mode` says where the driver runs.

        Raises:
            AirflowFailException: the driver runs elsewhere, and the connection does not say where
                Tidemark and the secrets are there.
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

    def environment(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """Return what is passed to the driver of an application's environment, secrets included."""
        if self.secrets is None:
            return dict(wanted)
        plain = {name: value for name, value in wanted.items() if not name.endswith(_SECRET)}
        return {**_settings_here(), **plain, "TIDEMARK_SECRETS_DIR": self.secrets}

    def place(self, file: Path, home: Path) -> str:
        """Return a file of Tidemark's `home` as it is found where the driver runs."""
        if self.home is None or not file.is_relative_to(home):
            return str(file)
        return f"local://{PurePosixPath(self.home) / file.relative_to(home).as_posix()}"


def _settings_here() -> dict[str, str]:
    """Return the settings of this process, which a driver elsewhere does not inherit."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith("TIDEMARK_")
        and not name.endswith(_SECRET)
        and name not in _OF_THIS_MACHINE
    }


def own_python() -> str:
    """Return the Python that has the library's packages, which Airflow's need not have."""
    return os.environ.get("PYSPARK_DRIVER_PYTHON") or sys.executable


def report_of(run_id: str, environment: Mapping[str, str], home: Path) -> dict[str, Any] | None:
    """Return the report of a run from the table `run`; None if it is not there."""
    ended = _library(home, environment, "tidemark.application.report", run_id)
    report: dict[str, Any] | None = json.loads(ended.stdout) if ended.stdout.strip() else None
    return report


def projection_names(home: Path, *, of_topics: bool = False) -> list[str]:
    """Return the names of all projections on this machine, or of those that read a topic.

    Raises:
        AirflowFailException: there is no directory of definitions.
    """
    options = ["--of-topics"] if of_topics else []
    ended = _library(home, {}, "tidemark.project.definition.names", *options)
    if ended.returncode:
        raise AirflowFailException(ended.stderr.strip().splitlines()[-1])
    names: list[str] = json.loads(ended.stdout)
    return names


def _library(
    home: Path, environment: Mapping[str, str], module: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  our own module
        [own_python(), "-m", module, *arguments],
        # There Python finds the library, whether it is installed or not.
        cwd=home / "spark_apps",
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def write_private(file: Path, text: str) -> None:
    """Write a new file that only its owner reads; what is no text is for the reader to refuse."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(text.encode("utf-8", "surrogatepass"))


def sendable(arguments: list[str]) -> list[str]:
    """Return the arguments of a command line.

    Raises:
        AirflowFailException: one of them cannot be passed to a process.
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
