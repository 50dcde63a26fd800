"""Hooks of event groups that tell a real Airflow."""

from __future__ import annotations

import json
import uuid

import pytest
from airflow.sdk import Connection

from embedded.airflow import rest
from tests.dags.asset_events import all_events
from tests.dags.conftest import PATIENCE_S, Doors
from tests.dags.test_operator import wait_for_application
from tidemark.event_groups.external.airflow import AirflowApi
from tidemark.event_groups.failure import EventFailed
from tidemark.settings import Settings
from tidemark_airflow.environment.connections import airflow_environment


def airflow_of(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> AirflowApi:
    """Return Airflow as an application has it that the DAG `event_groups` has started."""
    given = json.loads(doors.environment["AIRFLOW_CONN_AIRFLOW_DEFAULT"])
    for name, value in airflow_environment(Connection(conn_id="airflow", **given)).items():
        monkeypatch.setenv(name, value)
    return AirflowApi(Settings(), PATIENCE_S)


def test_a_run_of_a_dag_is_started_once(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = str(uuid.uuid4())
    for _ in range(2):
        airflow_of(doors, monkeypatch).start_run(
            "event_groups", run_id, {"event_group": {"told": "done"}}
        )
    wait_for_application(doors, "event_groups", run_id)
    run = rest.call(doors.client, "GET", f"dags/event_groups/dagRuns/{run_id}")
    assert run["conf"]["event_group"] == {"told": "done"}


def test_an_event_of_an_asset_is_created(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    own = str(uuid.uuid4())
    window = {"window_start": "2013-01-01T00:00:00Z", "window_end": "2013-01-02T00:00:00Z"}
    airflow_of(doors, monkeypatch).create_asset_event("tidemark://validated", {"id": own, **window})
    assert own in [event.get("id") for event in all_events(doors.home)]


def test_what_airflow_refuses_is_told_in_one_line(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EventFailed, match="Airflow has no asset tidemark://nothing"):
        airflow_of(doors, monkeypatch).create_asset_event("tidemark://nothing", {})
    with pytest.raises(EventFailed, match="Airflow has answered 404 to dags/nothing/dagRuns"):
        airflow_of(doors, monkeypatch).start_run("nothing", "a", {})
    monkeypatch.delenv("TIDEMARK_AIRFLOW_URL")
    with pytest.raises(EventFailed, match="TIDEMARK_AIRFLOW_URL does not say"):
        AirflowApi(Settings(), 1).start_run("nothing", "a", {})
