"""Runs that are ended in the middle of a Spark job: by a signal, or with their spark-submit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.faults.killing import end_after
from tests.faults.seams import Seam
from tests.integration.project.projections import START, Projections, amount, event
from tests.integration.support import ROOT, Journal, wait_until
from tidemark.spark_session import FETCHED_JARS

BUCKETS = 3
EVENTS = [event("a|1", hour + 1, hour, kind="in", amount=hour) for hour in range(BUCKETS)]
TABLE = "CREATE TABLE {keyspace}.slow (time_bucket bigint PRIMARY KEY, total bigint)"
# The first attempt at the last time bucket never ends.
SLOW = f"""from __future__ import annotations

import threading
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.projection import projection


@projection(
    name="slow",
    version=1,
    source="messages",
    mode="bucket",
    target="{{keyspace}}.slow",
    event="amount INT",
)
def slow(events: DataFrame) -> DataFrame:
    started = Path("DIRECTORY/started")

    @F.pandas_udf("int")
    def waits(amounts: pd.Series) -> pd.Series:
        if (amounts == {BUCKETS - 1}).any() and not started.exists():
            started.touch()
            threading.Event().wait()
        return amounts

    return events.groupBy("time_bucket").agg(F.sum(waits("amount")).alias("total"))
"""
DEADLINE_S = 600
# Each time bucket is a batch of its own.
SETTINGS = {"PROJECT_MAX_ROWS": "1"}


@pytest.fixture
def slow(journal: Journal, tmp_path: Path) -> Projections:
    projections = Projections(journal, tmp_path)
    projections.define(SLOW.replace("DIRECTORY", str(tmp_path)), TABLE, "slow.py")
    projections.insert(*EVENTS)
    projections.validated(*range(BUCKETS))
    return projections


def arguments(projections: Projections) -> list[str]:
    window = [START.isoformat(), START.replace(hour=BUCKETS).isoformat()]
    return ["--window-start", window[0], "--window-end", window[1]]


def wait_for_job(projections: Projections, process: subprocess.Popen[str]) -> None:
    def has_started() -> bool:
        assert process.poll() is None, process.communicate()
        return (projections.directory / "started").exists()

    wait_until("the Spark job", has_started, deadline_s=DEADLINE_S)


def end_group(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def assert_open_and_then_done(projections: Projections) -> None:
    """Two time buckets are done, the last is no failure, and the next run finishes."""
    journal = projections.journal
    assert journal.own_rows("lock") == []
    assert [state[1:] for state in projections.states()] == [
        (0, "done", None),
        (1, "done", None),
        (2, "running", None),
    ]
    again = projections.run(0, BUCKETS)
    assert again.status == 0, again.stderr
    assert again.report["pieces"]["done"] == 1
    assert {state[2] for state in projections.states()} == {"done"}
    assert {row["total"] for row in journal.rows("slow")} == set(map(amount, EVENTS))


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
def test_signal_ends_a_run_with_one_line_and_no_failure(
    slow: Projections, number: signal.Signals
) -> None:
    process = slow.journal.start(
        ROOT / "spark_apps" / "project.py",
        *arguments(slow),
        PROJECTIONS_DIR=str(slow.directory),
        **SETTINGS,
    )
    try:
        wait_for_job(slow, process)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=DEADLINE_S)
    finally:
        end_group(process)
    why = f"ended by {number.name}; 2 of 3 started pieces are done; run again"
    assert process.returncode == 128 + number, stderr
    assert stderr.splitlines()[-1] == f"project: error: {why}"
    assert "Traceback" not in stderr
    assert "py4j" not in stderr.lower()
    assert "pieces: 3 planned, 2 done" in stdout
    [run] = slow.journal.own_rows("run")
    assert run["state"] == "failed"
    assert json.loads(run["report"])["error"] == why
    assert_open_and_then_done(slow)


@pytest.mark.long
def test_signal_ends_other_applications_in_the_same_way(journal: Journal, tmp_path: Path) -> None:
    projections = Projections(journal, tmp_path)
    projections.insert_messages(*(replace(event, tags=frozenset({"red"})) for event in EVENTS))
    projections.list_persistence_ids()
    status, _, stderr = end_after(
        journal, Seam.TAG_VIEWS_WRITTEN, "tag_write", *arguments(projections)
    )
    assert status == 143, stderr
    ended = "ended by SIGTERM; 0 of 3 started pieces are done; run again"
    assert stderr.splitlines()[-1] == f"tag-write: error: {ended}"
    assert "Traceback" not in stderr
    assert journal.own_rows("lock") == []
    assert {row["state"] for row in journal.own_rows("piece")} == {"running"}
    again = journal.run("tag_write", *arguments(projections))
    assert again.status == 0, again.stderr
    assert again.report["pieces"]["done"] == 3


def test_end_of_spark_submit_is_no_failure_of_a_piece(slow: Projections) -> None:
    """Airflow sends SIGKILL to spark-submit, of which Python is a child."""
    environment = {f"TIDEMARK_{key}": value for key, value in SETTINGS.items()}
    process = subprocess.Popen(
        [
            str(Path(sys.executable).with_name("spark-submit")),
            *("--master", "local[1]"),
            *("--jars", ",".join(map(str, (FETCHED_JARS / "spark").glob("*.jar")))),
            str(ROOT / "spark_apps" / "project.py"),
            *arguments(slow),
        ],
        env={
            **os.environ,
            **slow.journal.environment,
            **environment,
            "TIDEMARK_PROJECTIONS_DIR": str(slow.directory),
            "PYTHONPATH": str(ROOT / "spark_apps"),
            "PYSPARK_PYTHON": sys.executable,
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for_job(slow, process)
        [lock] = slow.journal.own_rows("lock")
        python = psutil.Process(int(lock["owner"].split(":")[1]))
        assert python.ppid() == process.pid
        process.kill()
        process.wait()
        wait_until("its process to end", lambda: not python.is_running())
    finally:
        end_group(process)
    assert_open_and_then_done(slow)
