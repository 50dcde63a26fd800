"""A purge with many deletes waits in the UI of a real Airflow, and ends as its answer says."""

from __future__ import annotations

from pathlib import Path

from embedded.airflow import rest
from tests.dags.conftest import PATIENCE_S, Doors
from tests.dags.fake_application import APPROVAL

WINDOW = {"window_start": "2013-01-01", "window_end": "2013-01-02"}


def answered(doors: Doors, answer: str) -> str:
    """Start a purge of 12 deletes, wait until it asks, and answer; return the run's id."""
    conf = {**WINDOW, "dry_run": False, "approval_above": 11}
    run_id = rest.trigger(doors.client, "purge", conf=conf)

    def asks() -> bool | None:
        state = rest.task_state(doors.client, "purge", run_id, "approve")
        return state == "awaiting_input" or None

    rest.wait_until(f"{run_id} to ask", PATIENCE_S, asks)
    # Airflow 3.3 fails a task whose answer comes before the scheduler has seen it parked.
    parked = f"TaskInstance Finished: dag_id=purge, task_id=approve, run_id={run_id},"
    log = Path(doors.environment["AIRFLOW_HOME"]) / "logs" / "scheduler.log"
    rest.wait_until(f"{run_id} to be parked", PATIENCE_S, lambda: parked in log.read_text() or None)
    assert rest.task_state(doors.client, "purge", run_id, "purge") is None
    path = f"dags/purge/dagRuns/{run_id}/taskInstances/approve/-1/hitlDetails"
    asked = rest.call(doors.client, "GET", path)
    assert "**old-tag-views** (tag-views): 12 partitions" in asked["body"]
    rest.call(doors.client, "PATCH", path, chosen_options=[answer])
    rest.wait_for_run(doors.client, "purge", run_id, PATIENCE_S)
    return run_id


def states(doors: Doors, run_id: str) -> list[str | None]:
    tasks = ("plan", "approve", "purge")
    return [rest.task_state(doors.client, "purge", run_id, task) for task in tasks]


def test_exactly_what_was_approved_is_applied(doors: Doors) -> None:
    run_id = answered(doors, "Approve")
    assert states(doors, run_id) == ["success", "success", "success"]
    log = rest.task_log(doors.client, "purge", run_id, "purge")
    assert f"--apply --approved {APPROVAL}" in log


def test_rejection_fails_the_run_and_deletes_nothing(doors: Doors) -> None:
    run_id = answered(doors, "Reject")
    assert states(doors, run_id) == ["success", "failed", "upstream_failed"]


def test_few_deletes_need_no_approval(doors: Doors) -> None:
    conf = {**WINDOW, "dry_run": False, "approval_above": 12}
    run_id = rest.trigger(doors.client, "purge", conf=conf)
    rest.wait_for_run(doors.client, "purge", run_id, PATIENCE_S)
    assert states(doors, run_id) == ["success", "success", "success"]
