"""The wheels in environments of their own, used from an empty directory as their users do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from embedded.machine import jars
from tests import wheels
from tests.integration.project.projections import SOME_EVENTS, START, Projections
from tests.integration.support import Journal
from tests.repository import REPOSITORY
from tidemark import __version__
from tidemark.command_line.program import COMMANDS
from tidemark.jars.fetch import OF_SPARK

pytestmark = pytest.mark.long

OF_JOURNAL = re.compile(r"TIDEMARK_(CASSANDRA_(HOSTS|USERNAME|PASSWORD)|(JOURNAL_)?KEYSPACE)")
WINDOW = (
    *("--window-start", START.isoformat()),
    *("--window-end", START.replace(hour=2).isoformat()),
)


@dataclass(frozen=True)
class Installed:
    """An environment with a wheel, and an empty directory."""

    environment: Path
    directory: Path

    @classmethod
    def of(cls, directory: Path, distribution: str, extra: str = "") -> Installed:
        """Install a wheel with what it needs in the versions of the lock, from the index."""
        installed = cls(directory / "environment", directory / "empty")
        installed.directory.mkdir()
        uv = Path(sys.executable).with_name("uv")
        wheel = wheels.build(directory / "wheels")[distribution]
        subprocess.run(
            [uv, "venv", "--quiet", "--python", sys.executable, installed.environment], check=True
        )
        subprocess.run(
            [
                *(uv, "pip", "install", "--quiet", "--python", installed.environment),
                *("--constraint", REPOSITORY / "requirements.lock", f"{wheel}{extra}"),
            ],
            check=True,
        )
        return installed

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, without anything of this process's own."""
        path = f"{self.environment / 'bin'}:/usr/bin:/bin"
        return subprocess.run(
            command, cwd=self.directory, capture_output=True, text=True,
            env={"PATH": path, "HOME": str(self.directory.parent), **variables},
        )  # fmt: skip


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Return the library with all of its extras, and the jars in its user's cache."""
    made = Installed.of(tmp_path_factory.mktemp("library"), "tidemark", "[all]")
    cache = made.directory.parent / ".cache" / "tidemark" / __version__ / "jars"
    for group in OF_SPARK:
        (cache / group).mkdir(parents=True)
        for jar in jars.fetch(group):
            shutil.copy(jar, cache / group)
    return made


def test_every_command_shows_its_help(installed: Installed) -> None:
    for command in COMMANDS:
        shown = installed.run("tidemark", command, "--help")
        assert shown.stdout.startswith(f"Usage: tidemark {command} "), shown.stderr
    assert list(installed.directory.iterdir()) == []


def test_jars_of_the_cache_are_checked_and_used(installed: Installed) -> None:
    ended = installed.run("tidemark", "jars")
    cache = installed.directory.parent / ".cache" / "tidemark" / __version__ / "jars"
    assert ended.stdout.splitlines() == [
        f"{group}: {len(list((cache / group).iterdir()))} jars in {cache / group}"
        for group in OF_SPARK
    ]
    [first, *_] = sorted((cache / "spark").iterdir())
    content = first.read_bytes()
    first.write_bytes(content[:-1])
    damaged = installed.run("tidemark", "jars")
    first.write_bytes(content)
    assert damaged.returncode == 1
    assert "delete the file and run again" in damaged.stderr


def settings_of(journal: Journal) -> dict[str, str]:
    """Return the variables of a journal, without those that say where Spark, jars and Java are."""
    return {
        name: value for name, value in journal.environment.items() if OF_JOURNAL.fullmatch(name)
    }


def test_missing_jars_are_named_with_the_command_that_fetches_them(
    installed: Installed, journal: Journal
) -> None:
    variables = settings_of(journal)
    ended = installed.run("tidemark", "tag-write", *WINDOW, **variables, XDG_CACHE_HOME="/nowhere")
    assert ended.returncode == 2
    assert "the jars of the Cassandra connector are missing" in ended.stderr
    assert "run `tidemark jars`, or set TIDEMARK_SPARK_JARS" in ended.stderr


def test_the_chain_runs_from_tagging_to_a_read_model(
    installed: Installed, projections: Projections
) -> None:
    journal = projections.journal
    projections.insert_messages(*SOME_EVENTS)
    variables = settings_of(journal)

    def tidemark(*arguments: str) -> str:
        ended = installed.run("tidemark", *arguments, **variables)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    tagged = json.loads(tidemark("tag-write", *WINDOW).splitlines()[-1])
    assert tagged["counts"]["tag_rows_written"] == sum(len(event.tags) for event in SOME_EVENTS)
    validated = json.loads(tidemark("validate", *WINDOW).splitlines()[-1])
    assert validated["pieces"]["done"] == 2
    assert (installed.directory / ".tidemark" / "data_docs" / "index.html").exists()
    (installed.directory / "include" / "sql" / "projections").mkdir(parents=True)
    target = f"{journal.keyspace}.kinds"
    tidemark("project", "new", "kinds", "--mode", "bucket", "--target", target)
    definitions = installed.directory / "include" / "sql" / "projections"
    journal.control.execute_ddl((definitions / "kinds.cql").read_text().strip().rstrip(";"))
    projected = json.loads(tidemark("project", *WINDOW).splitlines()[-1])
    assert projected["counts"]["events_read"] == len(SOME_EVENTS)
    rows = {(row["time_bucket"], row["kind"]): row["events"] for row in journal.rows("kinds")}
    assert sorted(rows.values()) == [1, 1, 3]
    assert "kinds version 1: 2 done, 0 open" in tidemark("project", "status")


@pytest.mark.parametrize("command", ["purge", "reconcile check", "run-event-groups"])
def test_other_applications_run_over_an_empty_journal(
    installed: Installed, journal: Journal, command: str
) -> None:
    ended = installed.run("tidemark", *command.split(), **settings_of(journal))
    assert ended.returncode == 0, ended.stderr


def test_airflow_finds_the_plugin_of_its_wheel(tmp_path: Path) -> None:
    installed = Installed.of(tmp_path, "tidemark-airflow")
    variables = {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__LOAD_EXAMPLES": "false"}
    shown = installed.run("airflow", "plugins", "--output", "json", **variables)
    [plugin] = [
        one for one in json.loads(shown.stdout.splitlines()[-1]) if one["name"] == "tidemark"
    ]
    assert plugin["source"].startswith("tidemark-airflow==")
    assert [app["name"] for app in plugin["fastapi_apps"]] == ["Data Docs", "Next step"]
    code = "from tidemark_airflow.environment.installation import home; home()"
    failed = installed.run("python", "-c", code)
    assert failed.stderr.endswith(
        "ValueError: TIDEMARK_HOME is not set; set it to the directory that has spark_apps\n"
    )
