"""The operator's use of an application's report, through a real scheduler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from embedded.airflow import rest
from tests.dags.asset_events import events_of, started_by
from tests.dags.conftest import LINEAGE, PATIENCE_S, Doors, wait_for_page
from tests.dags.fake_application import (
    APPROVAL,
    BROKEN,
    DIES,
    ERROR,
    FAILS,
    LEFT,
    NOTHING_TO_DO,
    PARTLY_DONE,
    REFUSES,
    SLOW,
    option,
)
from tidemark_airflow import next_step

OF_A_TOPIC = """\
/*---
name: orders_of_a_topic
version: 1
source:
  kafka-journal: orders
mode: bucket
target: t.orders_of_a_topic
event: amount INT
---*/
SELECT time_bucket, sum(amount) AS total FROM events GROUP BY time_bucket
"""


def window_of(year: str) -> dict[str, str]:
    """Return the fields of a form for the first day of a year."""
    return {"window_start": f"{year}-01-01", "window_end": f"{year}-01-02"}


def run_over(doors: Doors, dag_id: str, year: str, **conf: object) -> str:
    """Trigger a run whose window starts in a year, and wait until its application has ended."""
    run_id = rest.trigger(doors.client, dag_id, conf={**window_of(year), **conf})
    wait_for_application(doors, dag_id, run_id)
    return run_id


def wait_for_application(doors: Doors, dag_id: str, run_id: str) -> str:
    """Return the state of the application's task once its first attempt is over."""
    if dag_id == "project":
        # Its tasks are not there before the projections are known.
        rest.wait_for_run(doors.client, dag_id, run_id, PATIENCE_S)
        return str(rest.task_state(doors.client, dag_id, run_id, dag_id, 0))
    over = {"success", "failed", "skipped", "up_for_retry"}

    def probe() -> str | None:
        state = rest.task_state(doors.client, dag_id, run_id, dag_id)
        return state if state in over else None

    return rest.wait_until(f"{dag_id} {run_id}", PATIENCE_S, probe)


def lineage_of(doors: Doors, run_id: str) -> list[tuple[str, str]] | None:
    """Return the data sets that OpenLineage was told a run of `project` has written."""
    for event in doors.lines_of(LINEAGE):
        is_task = event["eventType"] == "COMPLETE" and event["job"]["name"] == "project.project"
        airflow = event["run"]["facets"].get("airflow", {})
        if is_task and airflow.get("dagRun", {}).get("run_id") == run_id:
            return [(output["namespace"], output["name"]) for output in event["outputs"]]
    return None


def test_schedule_starts_the_chain_and_the_window_travels_along(doors: Doors) -> None:
    """Unpausing starts a run for the latest interval; each DAG starts the next one with it."""
    scheduled = rest.wait_for_runs(doors.client, "tag_write", "scheduled", 1, PATIENCE_S)[0]
    window = rest.xcom(doors.client, "tag_write", scheduled["dag_run_id"], "resolve_window")
    expected = {
        "start": scheduled["data_interval_start"],
        "end": scheduled["data_interval_end"],
        "source": "data interval",
    }
    assert window == expected
    for dag_id in ("validate", "project"):
        run = rest.wait_for_runs(doors.client, dag_id, "asset_triggered", 1, PATIENCE_S)[0]
        window = rest.xcom(doors.client, dag_id, run["dag_run_id"], "resolve_window")
        assert window == {**expected, "source": "asset events"}
    # Started by an asset, purge only plans, over all time buckets past their retention.
    run = rest.wait_for_runs(doors.client, "purge", "asset_triggered", 1, PATIENCE_S)[0]
    report = rest.xcom(doors.client, "purge", run["dag_run_id"], "plan", "report")
    assert (report["state"], report["dry_run"]) == ("planned", True)
    assert report["window_start"] is None


def test_run_that_produced_something_tells_its_asset_the_window(doors: Doors) -> None:
    run_id = run_over(doors, "project", "2013")
    assert rest.task_state(doors.client, "project", run_id, "project", 0) == "success"
    events = events_of(doors.home, "project", run_id)
    done = {
        "window_start": "2013-01-01T00:00:00Z",
        "window_end": "2013-01-02T00:00:00Z",
        "run_id": f"project/{run_id}/1/0",
    }
    assert events == [done] * 2
    report = rest.xcom(doors.client, "project", run_id, "project", "report", 0)
    assert report["run_id"] == f"project/{run_id}/1/0"
    assert option(report["details"]["arguments"], "--projection") == "totals"
    outputs = rest.wait_until("the lineage", PATIENCE_S, lambda: lineage_of(doors, run_id))
    hosts = doors.environment["TIDEMARK_CASSANDRA_HOSTS"]
    assert outputs == [(f"cassandra://{hosts}", "pekko.tag_views")]


def test_dry_run_and_nothing_to_do_end_as_skipped_without_an_event(doors: Doors) -> None:
    reasons = {
        run_over(doors, "project", "2013", dry_run=True): "a dry run wrote nothing",
        run_over(doors, "project", NOTHING_TO_DO): f"nothing was to be done: {LEFT}",
    }
    for run_id, reason in reasons.items():
        assert rest.task_state(doors.client, "project", run_id, "project", 0) == "skipped"
        assert reason in rest.task_log(doors.client, "project", run_id, "project", map_index=0)
        assert events_of(doors.home, "project", run_id) == []


def test_failed_application_is_retried_and_shows_its_own_error(doors: Doors) -> None:
    run_id = run_over(doors, "validate", FAILS)
    assert rest.task_state(doors.client, "validate", run_id, "validate") == "up_for_retry"
    log = rest.task_log(doors.client, "validate", run_id, "validate")
    assert f"validate: {ERROR} (pekko)\nnext: wait" in log
    assert rest.xcom(doors.client, "validate", run_id, "validate", "report")["state"] == "failed"
    rest.call(doors.client, "PATCH", f"dags/validate/dagRuns/{run_id}", state="failed")


def test_failed_run_updates_its_asset_with_what_it_completed(doors: Doors) -> None:
    """Each run of the chain fails at its last day, and passes on the days before that day."""
    conf = {"window_start": f"{PARTLY_DONE}-01-01", "window_end": f"{PARTLY_DONE}-01-05"}
    run_id = rest.trigger(doors.client, "tag_write", conf=conf)
    for dag_id, day in {"tag_write": 4, "validate": 3, "project": 2}.items():
        run = rest.wait_for_run(doors.client, dag_id, run_id, PATIENCE_S)
        assert run["state"] == "failed"
        mapped = "/0" if dag_id == "project" else ""
        path = f"dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances/{dag_id}{mapped}"
        application = rest.call(doors.client, "GET", path)
        assert (application["state"], application["try_number"]) == ("failed", 1)
        completed = {
            "window_start": f"{PARTLY_DONE}-01-01T00:00:00Z",
            "window_end": f"{PARTLY_DONE}-01-{day:02}T00:00:00Z",
            "run_id": f"{dag_id}/{run_id}/1{mapped}",
        }
        events = events_of(doors.home, dag_id, run_id)
        assert events == [completed] * (2 if dag_id == "project" else 1)
        wait_for_page(doors, [run_id, False])
        if dag_id != "project":
            run_id = started_by(doors.home, dag_id, run_id)


def test_run_that_completed_nothing_updates_no_asset(doors: Doors) -> None:
    run_id = run_over(doors, "tag_write", BROKEN)
    assert rest.wait_for_run(doors.client, "tag_write", run_id, PATIENCE_S)["state"] == "failed"
    assert events_of(doors.home, "tag_write", run_id) == []


def test_each_step_of_the_chain_has_its_own_report_state_and_assets(doors: Doors) -> None:
    run_id = run_over(doors, "chain", "2013")
    assert rest.wait_for_run(doors.client, "chain", run_id, PATIENCE_S)["state"] == "success"
    steps = ("tag_write", "validate", "project")
    assert {rest.task_state(doors.client, "chain", run_id, step) for step in steps} == {"success"}
    names = ("project", "project", "tag-write", "validate")
    events = events_of(doors.home, "chain", run_id)
    assert sorted(event["run_id"] for event in events) == [
        f"chain/{run_id}/1/{name}" for name in names
    ]
    assert {(event["window_start"], event["window_end"]) for event in events} == {
        ("2013-01-01T00:00:00Z", "2013-01-02T00:00:00Z")
    }
    report = rest.xcom(doors.client, "chain", run_id, "validate", "report")
    assert report["application"] == "validate"


def test_chain_whose_check_fails_passes_on_what_has_passed(doors: Doors) -> None:
    conf = {"window_start": f"{PARTLY_DONE}-01-01", "window_end": f"{PARTLY_DONE}-01-05"}
    run_id = rest.trigger(doors.client, "chain", conf=conf)
    assert rest.wait_for_run(doors.client, "chain", run_id, PATIENCE_S)["state"] == "failed"
    steps = ("chain", "tag_write", "validate", "validate_after_failure", "project")
    states = [rest.task_state(doors.client, "chain", run_id, step) for step in steps]
    assert states == ["failed", "success", "failed", "success", "success"]
    ends = {
        event["run_id"].rpartition("/")[2]: event["window_end"]
        for event in events_of(doors.home, "chain", run_id)
    }
    passed = f"{PARTLY_DONE}-01-04T00:00:00Z"
    assert ends == {
        "tag-write": f"{PARTLY_DONE}-01-05T00:00:00Z", "validate": passed, "project": passed
    }  # fmt: skip


def test_step_of_the_chain_that_was_not_started_is_skipped(doors: Doors) -> None:
    run_id = run_over(doors, "chain", BROKEN)
    assert rest.wait_for_run(doors.client, "chain", run_id, PATIENCE_S)["state"] == "failed"
    steps = ("tag_write", "validate", "project")
    states = [rest.task_state(doors.client, "chain", run_id, step) for step in steps]
    assert states == ["success", "failed", "skipped"]
    log = rest.task_log(doors.client, "chain", run_id, "validate")
    assert f"validate: {ERROR} (pekko)\nnext: trigger the DAG reconcile" in log
    path = f"dags/chain/dagRuns/{quote(run_id)}/taskInstances/validate/links"
    assert rest.call(doors.client, "GET", path)["extra_links"]["Next step"]


def wait_until_idle(doors: Doors) -> None:
    """Wait until no DAG of the chain runs, or will be started by assets of earlier runs."""

    def probe() -> bool | None:
        for dag_id in ("validate", "project", "purge"):
            queued = rest.call(doors.client, "GET", f"dags/{dag_id}/assets/queuedEvents")
            runs = rest.runs(doors.client, dag_id)
            if queued["total_entries"] or any(run["state"] not in rest.OVER for run in runs):
                return None
        return True

    rest.wait_until("the chain to be idle", PATIENCE_S, probe)


def test_replicated_time_buckets_start_the_projections_of_topics_once(doors: Doors) -> None:
    # Airflow gives the events of several assets to one run.
    wait_until_idle(doors)
    definition = Path(doors.environment["TIDEMARK_PROJECTIONS_DIR"]) / "orders.sql"
    definition.write_text(OF_A_TOPIC)

    def replicated(hour: int) -> str:
        conf = {"topics": [f"orders:2013-01-01T0{hour}:00:00Z"]}
        run_id = rest.trigger(doors.client, "replicate", conf=conf)
        run = rest.wait_for_run(doors.client, "replicate", run_id, PATIENCE_S)
        assert run["state"] == "success"
        return run_id

    begin = "2013-01-01T00:00:00Z"
    for hour in (3, 5):
        run_id = replicated(hour)
        end = f"2013-01-01T0{hour}:00:00Z"
        run = {"window_start": begin, "window_end": end, "run_id": f"replicate/{run_id}/1"}
        assert events_of(doors.home, "replicate", run_id) == [{**run, "topics": {"orders": end}}]
        project = started_by(doors.home, "replicate", run_id)
        assert rest.wait_for_run(doors.client, "project", project, PATIENCE_S)["state"] == "success"
        report = rest.xcom(doors.client, "project", project, "project", "report", 0)
        assert option(report["details"]["arguments"], "--projection") == "orders_of_a_topic"
        assert [report["window_start"], report["window_end"]] == [begin, end]
        # Of `totals`, which reads messages, there is no run.
        assert len(rest.task_states(doors.client, "project", project, "project")) == 1
        begin = end
    nothing_new = replicated(5)
    assert events_of(doors.home, "replicate", nothing_new) == []
    definition.unlink()


def test_someone_is_told_of_runs_that_fail_and_of_those_that_are_late(doors: Doors) -> None:
    late = rest.trigger(doors.client, "validate", conf=window_of(SLOW))
    refused = run_over(doors, "tag_write", REFUSES)
    wait_for_page(doors, [refused, False])
    wait_for_page(doors, [late, True])
    # It goes on: the alert ends nothing.
    assert wait_for_application(doors, "validate", late) == "success"


def test_refused_input_is_not_retried(doors: Doors) -> None:
    run_id = run_over(doors, "validate", REFUSES, force=True)
    assert rest.task_state(doors.client, "validate", run_id, "validate") == "failed"
    assert " --force" in rest.task_log(doors.client, "validate", run_id, "validate")


def links_of(doors: Doors, dag_id: str, run_id: str) -> dict[str, str | None]:
    """Return the buttons of the application's task, with where they lead to."""
    path = f"dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances/{dag_id}/links"
    links: dict[str, str | None] = rest.call(doors.client, "GET", path)["extra_links"]
    return links


def form_of(link: str | None) -> tuple[str, dict[str, Any]]:
    """Return the DAG that a link is about, and the fields that it fills in."""
    assert link is not None
    place = urlsplit(link)
    assert place.path.startswith(f"{next_step.PREFIX}/")
    return place.path.rpartition("/")[2], json.loads(parse_qs(place.query)["conf"][0])


def test_damage_names_its_repair_and_leads_there_and_back(doors: Doors) -> None:
    """Somebody on call at night needs the pages, the repair, and the same run again."""
    run_id = run_over(doors, "validate", BROKEN)
    assert rest.task_state(doors.client, "validate", run_id, "validate") == "failed"
    log = rest.task_log(doors.client, "validate", run_id, "validate")
    repair = "trigger the DAG reconcile with operation repair, persistence ids aircraft|N3753"
    assert f"validate: {ERROR} (pekko)\nnext: {repair} (the button" in log
    links = links_of(doors, "validate", run_id)
    assert links["Data Docs"] == "/tidemark/data-docs/index.html"
    fields = {"operation": "repair", "persistence_ids": ["aircraft|N3753"]}
    assert form_of(links["Next step"]) == ("reconcile", fields)
    window = {
        "window_start": f"{BROKEN}-01-01T00:00:00Z",
        "window_end": f"{BROKEN}-01-02T00:00:00Z",
    }
    assert form_of(links["Run again"]) == ("validate", window)


def test_dry_run_leads_to_the_run_that_does_what_it_planned(doors: Doors) -> None:
    fields = {"operation": "repair", "persistence_ids": ["aircraft|N3753"]}
    run_id = rest.trigger(doors.client, "reconcile", conf=fields)
    assert wait_for_application(doors, "reconcile", run_id) == "skipped"
    links = links_of(doors, "reconcile", run_id)
    assert form_of(links["Next step"]) == ("reconcile", {**fields, "dry_run": False})
    assert links["Run again"] is None


def test_run_that_has_done_its_work_leads_nowhere_else(doors: Doors) -> None:
    run_id = run_over(doors, "tag_write", "2013")
    links = links_of(doors, "tag_write", run_id)
    assert links == {"Next step": None, "Run again": None}


def test_form_is_refused_in_its_own_words_before_anything_is_submitted(doors: Doors) -> None:
    conf = {"operation": "truncate", "persistence_ids": ["a|1"]}
    run_id = rest.trigger(doors.client, "reconcile", conf=conf)
    assert wait_for_application(doors, "reconcile", run_id) == "failed"
    log = rest.task_log(doors.client, "reconcile", run_id, "reconcile")
    assert 'the operation truncate does not take "Persistence ids"' in log
    assert "spark-submit" not in log


def test_application_that_left_no_report_fails_and_points_to_the_log(doors: Doors) -> None:
    run_id = run_over(doors, "validate", DIES)
    log = rest.task_log(doors.client, "validate", run_id, "validate")
    assert "The application's error is in the log above." in log
    rest.call(doors.client, "PATCH", f"dags/validate/dagRuns/{run_id}", state="failed")


def test_password_reaches_the_application_and_no_log(doors: Doors) -> None:
    run_id = run_over(doors, "purge", "2013", dry_run=False, retention_days=7)
    log = rest.task_log(doors.client, "purge", run_id, "purge")
    assert "connected with ***" in log
    assert doors.environment["TIDEMARK_CASSANDRA_PASSWORD"] not in log
    assert f"--apply --approved {APPROVAL} --retention-days 7" in log


def test_reconcile_gets_its_command_and_what_the_form_names(doors: Doors) -> None:
    conf = {"operation": "delete", "persistence_ids": ["a|1", "b 2"], "tags": ["red"]}
    run_id = rest.trigger(doors.client, "reconcile", conf={**conf, "dry_run": False})
    assert wait_for_application(doors, "reconcile", run_id) == "success"
    log = rest.task_log(doors.client, "reconcile", run_id, "reconcile")
    assert "reconcile.py delete --run-id" in log
    assert "--apply --persistence-id a|1 --persistence-id b 2 --tag red" in log


def test_projections_are_managed_by_name(doors: Doors) -> None:
    conf = {"operation": "pause", "projections": ["aircraft_state", "--force"]}
    run_id = rest.trigger(doors.client, "manage_projections", conf=conf)
    assert wait_for_application(doors, "manage_projections", run_id) == "success"
    log = rest.task_log(doors.client, "manage_projections", run_id, "manage_projections")
    assert "project.py pause --run-id" in log
    assert " -- aircraft_state --force" in log
