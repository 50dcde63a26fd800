"""The window of a run for each way to start it, through a real scheduler.

Runs are dry unless a test is about the chain, so that they start nothing downstream.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from embedded.airflow import rest
from tests.dags.conftest import DAG_IDS, PATIENCE_S, Doors
from tidemark_airflow import alerts
from tidemark_airflow.window import GIVE_PARAMS, iso

DRY = {"dry_run": True}


def window_of(doors: Doors, dag_id: str, run_id: str) -> list[str]:
    """Return start and end of the window of a run that must succeed."""
    run = rest.wait_for_run(doors.client, dag_id, run_id, PATIENCE_S)
    assert run["state"] == "success", rest.task_log(doors.client, dag_id, run_id, "resolve_window")
    window = rest.xcom(doors.client, dag_id, run_id, "resolve_window")
    return [window["start"], window["end"]]


def refusal_of(doors: Doors, dag_id: str, run_id: str, attempt: int = 1) -> str:
    """Return the log line that says why a run was refused; nothing may have been submitted."""
    run = rest.wait_for_run(doors.client, dag_id, run_id, PATIENCE_S)
    assert run["state"] == "failed"
    mapped = 0 if dag_id == "project" else -1
    assert rest.task_state(doors.client, dag_id, run_id, dag_id, mapped) == "upstream_failed"
    log = rest.task_log(doors.client, dag_id, run_id, "resolve_window", attempt)
    lines = [line for line in log.splitlines() if "window refused: " in line]
    assert len(lines) == 1, log
    return lines[0]


def wait_for_backfilled(doors: Doors, dag_id: str, dates: str, count: int) -> list[str]:
    """Return the ids of `count` backfilled runs in the order of their starts, once all are over."""

    def probe() -> list[str] | None:
        runs = [
            run
            for run in rest.runs(doors.client, dag_id)
            if run["run_type"] == "backfill" and run["logical_date"].startswith(dates)
        ]
        over = len(runs) == count and all(run["state"] in rest.OVER for run in runs)
        return [run["dag_run_id"] for run in runs] if over else None

    return rest.wait_until(f"{count} backfilled runs of {dag_id} in {dates}", PATIENCE_S, probe)


def midnight(moment: str) -> datetime:
    """Return midnight, UTC, at or before a time that REST gave."""
    return datetime.fromisoformat(moment).replace(hour=0, minute=0, second=0, microsecond=0)


def airflow(doors: Doors, *arguments: str) -> None:
    """Call Airflow's command line."""
    # With a deadline `dags test` fails after the run (apache/airflow#73428).
    environment = {k: v for k, v in doors.environment.items() if k != alerts.DEADLINE}
    subprocess.run(
        [sys.executable, "-m", "airflow", *arguments],
        env=environment,
        # Where the notifier is that the DAGs import.
        cwd=doors.environment["AIRFLOW_HOME"],
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )


def test_ui_form_left_as_it_is_gives_the_last_interval_that_is_over(doors: Doors) -> None:
    # The form sends the present as logical date, and null for empty dates.
    now = iso(datetime.now(UTC))
    form = {"window_start": None, "window_end": None, "dry_run": True, "force": False}
    body = {"logical_date": now, "data_interval_start": None, "data_interval_end": None}
    answer = doors.client.post(
        "dags/tag_write/dagRuns",
        json={**body, "conf": form},
        headers={"referer": str(doors.client.base_url)},
    )
    run = answer.raise_for_status().json()
    assert run["triggered_by"] == "ui"
    end = midnight(now)
    assert window_of(doors, "tag_write", run["dag_run_id"]) == [
        iso(end - timedelta(days=1)),
        iso(end),
    ]


def test_rest_with_logical_date_gives_the_interval_before_it(doors: Doors) -> None:
    run_id = rest.trigger(doors.client, "tag_write", logical_date="2024-01-05T13:00:00Z", conf=DRY)
    expected = ["2024-01-04T00:00:00Z", "2024-01-05T00:00:00Z"]
    assert window_of(doors, "tag_write", run_id) == expected


def test_rest_without_logical_date_is_refused(doors: Doors) -> None:
    run_id = rest.trigger(doors.client, "tag_write", conf=DRY)
    refusal = refusal_of(doors, "tag_write", run_id)
    assert "this manual run has no window" in refusal
    assert GIVE_PARAMS in refusal


def test_rest_with_params_gives_the_params(doors: Doors) -> None:
    conf = {"window_start": "2013-01-01T00:00:00Z", "window_end": "2013-02-01", **DRY}
    run_id = rest.trigger(doors.client, "project", conf=conf)
    assert window_of(doors, "project", run_id) == ["2013-01-01T00:00:00Z", "2013-02-01T00:00:00Z"]


def test_rest_with_reversed_params_is_refused(doors: Doors) -> None:
    conf = {"window_start": "2013-02-01", "window_end": "2013-01-01", **DRY}
    run_id = rest.trigger(doors.client, "purge", conf=conf)
    assert "the window from the params is empty or reversed" in refusal_of(doors, "purge", run_id)


def test_rest_with_explicit_interval_gives_that_interval(doors: Doors) -> None:
    run_id = rest.trigger(
        doors.client,
        "tag_write",
        logical_date="2024-02-01T00:00:00Z",
        conf=DRY,
        data_interval_start="2024-02-01T00:00:00Z",
        data_interval_end="2024-02-04T00:00:00Z",
    )
    expected = ["2024-02-01T00:00:00Z", "2024-02-04T00:00:00Z"]
    assert window_of(doors, "tag_write", run_id) == expected


def test_command_line_with_logical_date_is_refused(doors: Doors) -> None:
    """Airflow derives this interval from the time of the call."""
    arguments = ("--logical-date", "2024-03-01T05:00:00Z", "--run-id", "manual__command_line")
    airflow(doors, "dags", "trigger", "tag_write", *arguments, "--conf", json.dumps(DRY))
    refusal = refusal_of(doors, "tag_write", "manual__command_line")
    assert "does not belong to its logical date 2024-03-01T05:00:00Z" in refusal
    assert GIVE_PARAMS in refusal


@pytest.mark.long
def test_command_line_without_logical_date_is_refused(doors: Doors) -> None:
    arguments = ("--run-id", "manual__undated", "--conf", json.dumps(DRY))
    airflow(doors, "dags", "trigger", "validate", *arguments)
    assert "this manual run has no window" in refusal_of(doors, "validate", "manual__undated")


def test_dags_test_gives_the_interval_before_its_date(doors: Doors) -> None:
    # The scheduler takes a running DAG's tasks away from the command.
    rest.unpause(doors.client, "tag_write", paused=True)
    try:
        airflow(doors, "dags", "test", "tag_write", "2024-04-15", "--conf", json.dumps(DRY))
    finally:
        rest.unpause(doors.client, "tag_write")
    run_ids = [
        run["dag_run_id"]
        for run in rest.runs(doors.client, "tag_write")
        if run["logical_date"] == "2024-04-15T00:00:00Z"
    ]
    assert len(run_ids) == 1
    expected = ["2024-04-14T00:00:00Z", "2024-04-15T00:00:00Z"]
    assert window_of(doors, "tag_write", run_ids[0]) == expected


@pytest.mark.parametrize(
    ("dag_id", "month", "backwards"),
    [
        pytest.param("tag_write", "2024-05", False, marks=pytest.mark.long),
        ("tag_write", "2024-06", True),
        pytest.param("validate", "2024-05", False, marks=pytest.mark.long),
        ("purge", "2024-06", True),
    ],
)
def test_backfill_covers_every_bucket_once_and_in_order(
    doors: Doors, dag_id: str, month: str, backwards: bool
) -> None:
    backfill_id = rest.backfill(
        doors.client,
        dag_id,
        f"{month}-01T00:00:00Z",
        f"{month}-03T00:00:00Z",
        backwards=backwards,
        conf=DRY,
    )
    run_ids = wait_for_backfilled(doors, dag_id, month, 3)
    rest.close_backfill(doors.client, backfill_id)
    days = [f"{month}-0{day}T00:00:00Z" for day in (1, 2, 3, 4)]
    windows = [list(pair) for pair in itertools.pairwise(days)]
    expected = windows[::-1] if backwards else windows
    assert [window_of(doors, dag_id, run_id) for run_id in run_ids] == expected


def test_backfill_over_a_manual_run_is_refused_and_the_advice_works(doors: Doors) -> None:
    bucket = "2024-07-02T00:00:00Z"
    manual = rest.trigger(doors.client, "project", logical_date=bucket, conf=DRY)
    assert window_of(doors, "project", manual) == ["2024-07-01T00:00:00Z", bucket]

    def backfill_the_bucket() -> str:
        backfill_id = rest.backfill(
            doors.client, "project", bucket, bucket, reprocess="completed", conf=DRY
        )
        [run_id] = wait_for_backfilled(doors, "project", bucket, 1)
        rest.close_backfill(doors.client, backfill_id)
        return run_id

    assert backfill_the_bucket() == manual
    refusal = refusal_of(doors, "project", manual, attempt=2)
    assert "kept the data interval [2024-07-01T00:00:00Z, 2024-07-02T00:00:00Z)" in refusal
    assert "delete the run and repeat the backfill" in refusal

    rest.call(doors.client, "DELETE", f"dags/project/dagRuns/{manual}")
    expected = [bucket, "2024-07-03T00:00:00Z"]
    assert window_of(doors, "project", backfill_the_bucket()) == expected


@pytest.mark.parametrize(
    ("dag_id", "conf"),
    [
        *(
            (dag_id, {"dry_run": "yes"})
            for dag_id in DAG_IDS
            if dag_id not in ("manage_projections", "observe", "weekly_check")
        ),
        ("weekly_check", {"window_start": 20130101}),
        ("backfill", {"days_at_a_time": 0}),
        ("manage_projections", {"operation": "forget"}),
        ("manage_projections", {"projections": "aircraft_state"}),
        ("tag_write", {"force": None}),
        ("tag_write", {"strategy": "guess"}),
        ("validate", {"window_start": 20130101}),
        ("purge", {"retention_days": 0}),
    ],
)
def test_form_refuses_a_value_of_another_type(
    doors: Doors, dag_id: str, conf: dict[str, Any]
) -> None:
    [name] = conf
    with pytest.raises(RuntimeError, match=rf"400 .*Invalid input for param {name}"):
        rest.trigger(doors.client, dag_id, conf=conf)


@pytest.mark.long
def test_runs_that_are_started_at_once_work_one_after_the_other(doors: Doors) -> None:
    """Two runs of a DAG, and a run of each other DAG that works on the same tables."""
    conf = {"window_start": "2024-08-01", "window_end": "2024-08-02", **DRY}
    started = [
        (dag_id, rest.trigger(doors.client, dag_id, conf=conf))
        for dag_id in ("tag_write", "tag_write", "validate", "project", "purge")
    ]
    worked = sorted(worked_between(doors, dag_id, run_id) for dag_id, run_id in started)
    assert all(former[1] <= later[0] for former, later in itertools.pairwise(worked)), worked


def test_scheduler_waits_for_a_writer_that_is_slow(doors: Doors) -> None:
    """A transaction takes 20 s; with SQLite's timeout of 5 s a scheduler tries thrice and ends."""
    database = Path(doors.environment["AIRFLOW_HOME"]) / "airflow.db"
    conf = {"window_start": "2024-08-01", "window_end": "2024-08-02", **DRY}
    run_id = rest.trigger(doors.client, "tag_write", conf=conf)
    with closing(sqlite3.connect(database, timeout=60, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        time.sleep(20)
        writer.execute("ROLLBACK")
    assert window_of(doors, "tag_write", run_id) == ["2024-08-01T00:00:00Z", "2024-08-02T00:00:00Z"]


def worked_between(doors: Doors, dag_id: str, run_id: str) -> tuple[datetime, datetime]:
    """Return when the application of a run, which must succeed, began and ended."""
    assert rest.wait_for_run(doors.client, dag_id, run_id, PATIENCE_S)["state"] == "success"
    # A dry run of purge ends with its plan.
    task_id = "plan" if dag_id == "purge" else dag_id
    path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
    task = rest.call(doors.client, "GET", path)
    return datetime.fromisoformat(task["start_date"]), datetime.fromisoformat(task["end_date"])
