"""Where the password of Cassandra must not be while an application uses it, and after that.

The environment of a process is its user's own, and so are files of mode 600; all else is read by
others: command lines, logs, reports, Data Docs, Spark's event logs, tables.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import pytest

from embedded.cassandra.server import Endpoint
from tests.integration.project.projections import Projections, event
from tests.integration.support import ROOT, Journal
from tests.integration.tag_write.test_tag_write import a_small_journal, window
from tests.security.seen import listening, process_tree
from tests.security.test_hostile_journal import KEPT_TABLE

WINDOW = window(0, 6)
POLL_S = 0.2
FAILING = """\
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.projection import projection


@projection(name="kept", version=1, source="messages", mode="upsert",
            target="{keyspace}.kept", event="said STRING")
def kept(events: DataFrame) -> DataFrame:
    def fail(text: str) -> str:
        raise ValueError("broken on purpose")

    failing = F.udf(fail, "string")
    return events.select("persistence_id", "sequence_nr", failing("said").alias("said"))
"""
LOOPBACK = ("127.", "::1", "::ffff:127.")


@dataclass
class Watched:
    """What all processes of an application showed to everybody while it ran."""

    command_lines: set[str] = field(default_factory=set)
    environments: set[str] = field(default_factory=set)
    """Of the processes that it has started: their user can read these."""
    listened: set[str] = field(default_factory=set)

    def look(self, pid: int) -> None:
        """Note what is seen of a process and of those that it has started."""
        try:
            tree = process_tree(psutil.Process(pid))
            for started in tree[1:]:
                # One of them may have ended, and not the others.
                with suppress(psutil.NoSuchProcess):
                    self.environments.add(str(started.environ()))
            for process in tree:
                self.command_lines.add("\0".join(process.cmdline()))
                self.listened |= listening([process])
        except psutil.NoSuchProcess:
            return


@pytest.mark.parametrize(
    "application",
    [
        "validate",
        pytest.param("tag_write", marks=pytest.mark.long),
        pytest.param("reconcile", marks=pytest.mark.long),
    ],
)
def test_the_password_is_nowhere_else(
    make_journal: Callable[..., Journal], cassandra: Endpoint, tmp_path: Path, application: str
) -> None:
    """Its ports are on this machine's own addresses only, and ask who is there."""
    journal = make_journal(DATA_DOCS_DIR=str(tmp_path / "docs"))
    journal.insert("messages", a_small_journal())
    if application != "tag_write":
        assert journal.run("tag_write", *WINDOW).status == 0
    options = ("check", "--all") if application == "reconcile" else WINDOW
    status, seen = run_watched(journal, application, *options, directory=tmp_path)
    assert status == 0, seen["output"]
    assert places(seen, cassandra.password) == {}


def test_the_password_is_nowhere_else_if_a_run_fails(
    projections: Projections, cassandra: Endpoint, tmp_path: Path
) -> None:
    """Python that raises in a worker: Spark writes its traceback to logs and errors."""
    projections.define(FAILING, KEPT_TABLE, "kept.py")
    projections.insert(event("p", 1, 0.5, said="x"))
    projections.validated(0)
    directories = {"TIDEMARK_PROJECTIONS_DIR": str(projections.directory)}
    journal = projections.journal
    journal = replace(journal, environment={**journal.environment, **directories})
    status, seen = run_watched(
        *(journal, "project", "--window-start", "2024-03-01", "--window-end"),
        *("2024-03-02",),
        directory=tmp_path,
    )
    assert status != 0
    assert "broken on purpose" in seen["output"]
    assert places(seen, cassandra.password) == {}


def run_watched(
    journal: Journal, application: str, *options: str, directory: Path
) -> tuple[int, dict[str, str]]:
    """Run an application in a process of its own; return its status and what others see of it."""
    logs, conf = directory / "events", directory / "conf"
    logs.mkdir()
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.dir {logs.as_uri()}\n"
    )
    alone = replace(journal, environment={**journal.environment, "SPARK_CONF_DIR": str(conf)})
    script = ROOT / "spark_apps" / f"{application}.py"
    report = directory / "report.json"

    watched = Watched()
    process = alone.start(script, *options, "--report", str(report))
    while process.returncode is None:
        watched.look(process.pid)
        with suppress(subprocess.TimeoutExpired):
            stdout, stderr = process.communicate(timeout=POLL_S)

    assert len(watched.command_lines) > 1
    assert watched.environments
    assert watched.listened, stderr
    assert {address for address in watched.listened if not address.startswith(LOOPBACK)} == set()
    events = "".join(file.read_text() for file in logs.rglob("*") if file.is_file())
    assert '"spark.authenticate":"true"' in events
    docs = Path(journal.environment.get("TIDEMARK_DATA_DOCS_DIR", directory / "docs"))
    seen = {
        "command lines": "\n".join(watched.command_lines),
        "environments": "\n".join(watched.environments),
        "output": stdout + stderr,
        "report": report.read_text() if report.exists() else stdout,
        "event log": events,
        "Data Docs": "".join(page.read_text() for page in docs.rglob("*.html")),
        "table run": str(journal.own_rows("run")),
        "table audit": str(journal.own_rows("audit")),
    }
    assert all(text for name, text in seen.items() if name not in ("Data Docs", "table audit"))
    return process.returncode, seen


def places(seen: dict[str, str], password: str) -> dict[str, str]:
    """Return where a password is, with what is around it."""
    return {
        name: text[max(0, text.find(password) - 80) :][:80]
        for name, text in seen.items()
        if password in text
    }
