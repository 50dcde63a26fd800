"""The DAG `backfill` in a real scheduler: preview, parts in their order, stop and resume."""

from __future__ import annotations

import itertools
from typing import Any
from urllib.parse import quote

import psutil
import pytest

from embedded.airflow import rest
from tests.dags.asset_events import events_of
from tests.dags.conftest import PATIENCE_S, Doors, wait_for_page
from tests.dags.fake_application import FAILS_ONCE, NOTHING_TO_DO, SLOW
from tidemark_airflow.chain.tasks import divided

STEPS = ("part.tag_write", "part.validate", "part.project")


def ordered(doors: Doors, first: str, end: str, **conf: object) -> str:
    """Order a range, and return the id of the run."""
    fields = {"window_start": first, "window_end": end, **conf}
    return rest.trigger(doors.client, "backfill", conf=fields)


def ended(doors: Doors, run_id: str) -> str:
    """Return the state of a run that has ended."""
    return str(rest.wait_for_run(doors.client, "backfill", run_id, PATIENCE_S)["state"])


def tasks_of(doors: Doors, run_id: str, task_id: str) -> list[dict[str, Any]]:
    """Return the instances of a task, by map index."""
    path = f"dags/backfill/dagRuns/{quote(run_id)}/taskInstances?limit=1000"
    instances = rest.call(doors.client, "GET", path)["task_instances"]
    of_task = [instance for instance in instances if instance["task_id"] == task_id]
    return sorted(of_task, key=lambda instance: instance["map_index"])


def states_of(doors: Doors, run_id: str, task_id: str) -> list[str | None]:
    """Return the states of a task's instances, by map index."""
    return [instance["state"] for instance in tasks_of(doors, run_id, task_id)]


def report_of(doors: Doors, run_id: str, task_id: str, map_index: int = -1) -> dict[str, Any]:
    """Return the report that a task has left."""
    report: dict[str, Any] = rest.xcom(
        doors.client, "backfill", run_id, task_id, "report", map_index
    )
    return report


def test_an_order_is_previewed_and_runs_part_by_part(doors: Doors) -> None:
    fields = {"days_at_a_time": 3, "projections": ["totals"], "force": True}
    run_id = ordered(doors, "2013-01-01", "2013-01-08", **fields)
    assert ended(doors, run_id) == "success"
    preview = report_of(doors, run_id, "preview")
    assert (preview["state"], preview["dry_run"]) == ("planned", True)
    asked = preview["details"]["arguments"]
    assert {"--force", "--projection", "totals"} <= set(asked)

    days = [f"2013-01-{day:02}T00:00:00Z" for day in (1, 4, 7, 8)]
    windows = list(itertools.pairwise(days))
    assert states_of(doors, run_id, "part.chain") == ["success"] * 3
    for step in STEPS:
        reports = [report_of(doors, run_id, step, number) for number in range(3)]
        assert [(report["window_start"], report["window_end"]) for report in reports] == windows
    times = [
        (instance["start_date"], instance["end_date"])
        for instance in tasks_of(doors, run_id, "part.chain")
    ]
    assert all(former[1] <= later[0] for former, later in itertools.pairwise(times))
    events = [
        (event["window_start"], event["window_end"])
        for event in events_of(doors.home, "backfill", run_id)
    ]
    # tag_views, validated, read_models, and the read model of the one projection.
    assert sorted(events) == sorted(windows * 4)


@pytest.mark.parametrize(
    ("first", "conf"), [("2013-01-01", {"dry_run": True}), (f"{NOTHING_TO_DO}-01-01", {})]
)
def test_without_work_an_order_ends_with_its_preview(
    doors: Doors, first: str, conf: dict[str, object]
) -> None:
    run_id = ordered(doors, first, f"{first[:4]}-01-08", **conf)
    assert ended(doors, run_id) == "success"
    assert report_of(doors, run_id, "preview")["dry_run"]
    for task_id in ("part.chain", *STEPS):
        assert states_of(doors, run_id, task_id) == ["skipped"]
    path = f"dags/backfill/dagRuns/{quote(run_id)}/taskInstances/preview/links"
    button = rest.call(doors.client, "GET", path)["extra_links"]["Next step"]
    assert bool(button) is bool(conf)


def test_a_part_that_failed_stops_no_other_and_is_resumed_alone(doors: Doors) -> None:
    run_id = ordered(doors, f"{int(FAILS_ONCE) - 1}-12-31", f"{FAILS_ONCE}-01-03", days_at_a_time=1)
    assert ended(doors, run_id) == "failed"
    assert states_of(doors, run_id, "part.chain") == ["success", "failed", "success"]
    for step in STEPS:
        assert states_of(doors, run_id, step) == ["success", "failed", "success"]

    # Before the deadline of the run, Airflow cannot clear its tasks (apache/airflow#70368).
    wait_for_page(doors, [run_id, True])
    cleared = {"dag_run_id": run_id, "only_failed": True, "dry_run": False}
    rest.call(doors.client, "POST", "dags/backfill/clearTaskInstances", **cleared)
    assert ended(doors, run_id) == "success"
    for task_id in ("part.chain", *STEPS):
        assert [
            (instance["state"], instance["try_number"])
            for instance in tasks_of(doors, run_id, task_id)
        ] == [("success", 1), ("success", 2), ("success", 1)]


def test_an_order_that_is_marked_as_failed_stops(doors: Doors) -> None:
    run_id = ordered(doors, f"{SLOW}-01-01", f"{SLOW}-01-03", days_at_a_time=1)

    def running() -> psutil.Process | None:
        words = (f"backfill/{run_id}/1/0", "fake_application.py")
        for process in psutil.process_iter(["cmdline"]):
            line = " ".join(process.info["cmdline"] or [])
            if all(word in line for word in words):
                return process
        return None

    application = rest.wait_until("the application", PATIENCE_S, running)
    path = f"dags/backfill/dagRuns/{quote(run_id)}"
    rest.call(doors.client, "PATCH", path, state="failed")
    psutil.wait_procs([application], timeout=PATIENCE_S)
    assert not application.is_running()
    assert states_of(doors, run_id, "part.chain")[0] == "failed"
    assert "success" not in states_of(doors, run_id, "part.chain")


def test_the_last_part_is_what_is_left_of_the_range() -> None:
    window = {"start": "2024-02-28T00:00:00Z", "end": "2024-03-02T12:00:00Z", "source": "params"}
    parts = [(part["start"], part["end"]) for part in divided(window, 2)]
    assert parts == [
        ("2024-02-28T00:00:00Z", "2024-03-01T00:00:00Z"),
        ("2024-03-01T00:00:00Z", "2024-03-02T12:00:00Z"),
    ]
