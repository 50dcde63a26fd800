"""`spark_apps/status.py` as a user runs it: exit statuses, errors, pages, and what is loaded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from embedded.cassandra.server import Endpoint
from tests.integration.pool import Pool
from tests.integration.status.status_reading import Ledger, journal_without_spark
from tests.integration.support import ROOT, Journal
from tidemark.ledger.piece import State

SCRIPT = ROOT / "spark_apps" / "status.py"
COMMANDS = ("time-buckets", "projections", "findings", "purges", "replication", "groups", "runs")
FIRST = datetime(2024, 3, 1, tzinfo=UTC)
LOADED = """\
import runpy, sys
sys.argv = ["status.py", *sys.argv[1:]]
try:
    runpy.run_path({script!r}, run_name="__main__")
finally:
    print(sorted({{name.partition(".")[0] for name in sys.modules}}), file=sys.stderr)
"""


@pytest.fixture
def journal(pool: Pool, cassandra: Endpoint, tmp_path: Path) -> Iterator[Journal]:
    """Yield an empty journal, for tests that start no Spark."""
    with journal_without_spark(pool, cassandra, tmp_path) as journal:
        yield journal


def run(journal: Journal, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **journal.environment, **variables}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_exit_status_0_of_an_empty_and_of_a_good_ledger(journal: Journal) -> None:
    empty = run(journal)
    assert (empty.returncode, empty.stderr) == (0, "")
    assert empty.stdout.startswith("empty at ")
    assert "nothing has run yet" in empty.stdout

    Ledger(journal, FIRST).end(State.DONE, 0)
    good = run(journal, "--json")
    assert (good.returncode, good.stderr) == (0, "")
    found = json.loads(good.stdout)
    assert found["state"] == "ok"
    assert [line["subject"] for line in found["lines"]] == [
        *("journal", "tag views", "checks", "projections", "replication", "purge", "groups"),
        "observation",
    ]


def test_exit_status_4_of_what_is_late_and_3_of_what_is_bad(journal: Journal) -> None:
    Ledger(journal, FIRST).end(State.DONE, 0)
    assert run(journal, "--cadence", "daily").returncode == 4

    Ledger(journal, FIRST).end(State.FAILED, 1, error="wrong")
    bad = run(journal)
    assert bad.returncode == 3
    assert "    -> spark_apps/tag_write.py --window-start 2024-03-01T01:00:00Z" in bad.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_answers_before_the_first_run_and_after_it(
    journal: Journal, command: str
) -> None:
    absent = run(journal, command, TIDEMARK_KEYSPACE=f"{journal.own_keyspace}_absent")
    assert (absent.returncode, absent.stderr) == (0, "")
    Ledger(journal, FIRST).end(State.DONE, 0, 1)
    for options in ((), ("--json", "--limit", "1")):
        found = run(journal, command, *options)
        assert (found.returncode, found.stderr) == (0, "")
    answer = json.loads(found.stdout)
    assert set(answer) == ({"policies", "plans"} if command == "purges" else {"items", "next"})


def test_a_page_names_the_next_one(journal: Journal) -> None:
    Ledger(journal, FIRST).end(State.DONE, 0, 1)
    command = ("time-buckets", "--application", "tag-write", "--limit", "1")
    newest = run(journal, *command).stdout
    assert "2024-03-01 01:00" in newest
    token = newest.rpartition("--after ")[2].strip()
    assert "2024-03-01 00:00" in run(journal, *command, "--after", token).stdout


@pytest.mark.parametrize(
    ("arguments", "status", "part"),
    [
        (("--cadence", "weekly"), 2, "there is no cadence 'weekly'"),
        (("runs", "--after", "x"), 2, "no token of a page of runs"),
        (("projections",), 2, "TIDEMARK_PROJECTIONS_DIR"),
        ((), 1, "cannot reach Cassandra"),
    ],
)
def test_errors_are_one_line(
    journal: Journal, arguments: tuple[str, ...], status: int, part: str
) -> None:
    variables = {"TIDEMARK_PROJECTIONS_DIR": "/nowhere"} if arguments == ("projections",) else {}
    if not arguments:
        variables = {"TIDEMARK_CASSANDRA_HOSTS": "127.0.0.1:1"}
    found = run(journal, *arguments, **variables)
    assert found.returncode == status
    [line] = found.stderr.splitlines()
    assert line.startswith("status: error: ")
    assert part in line
    assert found.stdout == ""


@pytest.mark.parametrize("arguments", [(), *((command,) for command in COMMANDS)])
def test_neither_spark_nor_great_expectations_nor_pandas_is_loaded(
    journal: Journal, arguments: tuple[str, ...]
) -> None:
    """They would cost seconds at each start."""
    Ledger(journal, FIRST).end(State.DONE, 0)
    found = subprocess.run(
        [sys.executable, "-c", LOADED.format(script=str(SCRIPT)), *arguments],
        env={**os.environ, **journal.environment, "PYTHONPATH": str(SCRIPT.parent)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    loaded = found.stderr.splitlines()[-1]
    assert "'tidemark'" in loaded
    assert not [
        name for name in ("pyspark", "pandas", "great_expectations") if f"'{name}'" in loaded
    ]


def test_watch_shows_it_again_and_again_and_ctrl_c_ends_it_with_status_0(journal: Journal) -> None:
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), "--watch", "--every", "0.5", "--json"],
        env={**os.environ, **journal.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    shown = [json.loads(process.stdout.readline()) for _ in range(2)]
    assert shown[0]["at"] < shown[1]["at"]
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, "")


def test_a_reader_leaves_no_row_anywhere(journal: Journal) -> None:
    Ledger(journal, FIRST).end(State.DONE, 0)
    tables = ("run", "run_of_day", "audit", "lock", "piece")
    before = {name: len(journal.own_rows(name)) for name in tables}
    for command in ((), *((command,) for command in COMMANDS)):
        run(journal, *command)
    assert {name: len(journal.own_rows(name)) for name in tables} == before
