"""A purge with many deletes waits in the UI of a real Airflow, and ends as its answer says."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from embedded.airflow import rest
from tests.dags.conftest import PATIENCE_S, READER, Doors
from tests.dags.fake_application import APPROVAL
from tidemark.application.approval import Approval
from tidemark.errors import InvalidInput
from tidemark_airflow.purging import ABOVE

WINDOW = {"window_start": "2013-01-01", "window_end": "2013-01-02"}
DETAILS = "taskInstances/approve/-1/hitlDetails"


def started(doors: Doors, **form: Any) -> str:
    return rest.trigger(doors.client, "purge", conf={**WINDOW, "dry_run": False, **form})


def waiting(doors: Doors) -> str:
    """Start a purge of 12 deletes, and wait until it asks; return the run's id."""
    run_id = started(doors, approval_above=11)

    def asks() -> bool | None:
        state = rest.task_state(doors.client, "purge", run_id, "approve")
        return state == "awaiting_input" or None

    rest.wait_until(f"{run_id} to ask", PATIENCE_S, asks)
    # Airflow 3.3 fails a task whose answer comes before the scheduler has seen it parked.
    parked = f"TaskInstance Finished: dag_id=purge, task_id=approve, run_id={run_id},"
    log = doors.home / "logs" / "scheduler.log"
    rest.wait_until(f"{run_id} to be parked", PATIENCE_S, lambda: parked in log.read_text() or None)
    assert rest.task_state(doors.client, "purge", run_id, "purge") is None
    asked = rest.call(doors.client, "GET", f"dags/purge/dagRuns/{run_id}/{DETAILS}")
    assert "**old-tag-views** (tag-views): 12 partitions" in asked["body"]
    return run_id


def answer(doors: Doors, run_id: str, option: str) -> None:
    path = f"dags/purge/dagRuns/{run_id}/{DETAILS}"
    rest.call(doors.client, "PATCH", path, chosen_options=[option])
    rest.wait_for_run(doors.client, "purge", run_id, PATIENCE_S)


def states(doors: Doors, run_id: str) -> list[str | None]:
    tasks = ("plan", "approve", "purge")
    return [rest.task_state(doors.client, "purge", run_id, task) for task in tasks]


def test_exactly_what_was_approved_is_applied(doors: Doors, page: Page) -> None:
    run_id = waiting(doors)
    page.goto(f"{doors.address}/dags/purge/runs/{run_id}/tasks/approve/required_actions")
    expect(page.get_by_text("## Nothing is deleted, approve")).to_be_visible()
    expect(page.get_by_role("heading", name="Nothing is deleted")).to_have_count(0)
    expect(page.locator("img[src*='example.invalid']")).to_have_count(0)

    answer(doors, run_id, "Approve")
    assert states(doors, run_id) == ["success", "success", "success"]
    log = rest.task_log(doors.client, "purge", run_id, "purge")
    assert f"--apply --approved {APPROVAL}" in log


def test_rejection_fails_the_run_and_deletes_nothing(doors: Doors) -> None:
    run_id = waiting(doors)
    answer(doors, run_id, "Reject")
    assert states(doors, run_id) == ["success", "failed", "upstream_failed"]


def test_whoever_is_no_approver_neither_approves_nor_gets_round_the_approval(doors: Doors) -> None:
    run_id = waiting(doors)
    run = f"dags/purge/dagRuns/{run_id}"
    with doors.airflow.client(READER) as reader:
        with pytest.raises(RuntimeError, match="403 "):
            rest.call(reader, "PATCH", f"{run}/{DETAILS}", chosen_options=["Approve"])
        # Airflow lets a user set the state of any task.
        rest.call(reader, "PATCH", f"{run}/taskInstances/approve", new_state="success")
    rest.wait_for_run(doors.client, "purge", run_id, PATIENCE_S)
    assert "--apply --approved None" in rest.task_log(doors.client, "purge", run_id, "purge")
    with pytest.raises(InvalidInput, match="not the approval of a plan: 'None'"):
        Approval.parse("None")


def test_few_deletes_need_no_approval(doors: Doors) -> None:
    run_id = started(doors, approval_above=12)
    rest.wait_for_run(doors.client, "purge", run_id, PATIENCE_S)
    assert states(doors, run_id) == ["success", "success", "success"]


def test_form_does_not_raise_the_deletes_without_approval(doors: Doors) -> None:
    run_id = started(doors, approval_above=2**63 - 1)
    rest.wait_for_run(doors.client, "purge", run_id, PATIENCE_S)
    assert states(doors, run_id) == ["failed", "upstream_failed", "upstream_failed"]
    log = rest.task_log(doors.client, "purge", run_id, "plan")
    assert f"which is more than {ABOVE} allows (1000)" in log
    assert "spark-submit" not in log
