"""What somebody types into a form to break out of it, through a real scheduler."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import httpx
import pytest
from airflow.sdk.exceptions import AirflowFailException

from embedded.airflow import rest
from tests.dags.conftest import Doors
from tests.dags.test_operator import wait_for_application
from tests.security.texts import SENDABLE, TEXTS
from tidemark_airflow.environment.drivers import sendable


def arguments_of(doors: Doors, dag_id: str, run_id: str) -> list[str]:
    """Return the arguments that the application got."""
    report = rest.xcom(doors.client, dag_id, run_id, dag_id, "report")
    arguments: list[str] = report["details"]["arguments"]
    return arguments


def test_fields_reach_the_application_as_they_are(doors: Doors) -> None:
    """No shell, no template and no option takes anything out of a text."""
    texts = list(SENDABLE.values())
    conf = {"operation": "delete", "persistence_ids": texts, "tags": texts}
    run_id = rest.trigger(doors.client, "reconcile", conf=conf)
    wait_for_application(doors, "reconcile", run_id)
    arguments = arguments_of(doors, "reconcile", run_id)
    values = {
        option: [word for before, word in pairwise(arguments) if before == option]
        for option in ("--persistence-id", "--tag")
    }
    assert values == {"--persistence-id": texts, "--tag": texts}
    # `--apply` is one of the texts, and stands nowhere but behind its option.
    assert arguments.count("--apply") == len(values)
    log = rest.task_log(doors.client, "reconcile", run_id, "reconcile")
    assert doors.environment["TIDEMARK_CASSANDRA_PASSWORD"] not in log
    assert not list(doors.home.rglob("broken_in"))


def test_names_of_projections_are_never_options(doors: Doors) -> None:
    texts = list(SENDABLE.values())
    conf = {"operation": "pause", "projections": texts}
    run_id = rest.trigger(doors.client, "manage_projections", conf=conf)
    assert wait_for_application(doors, "manage_projections", run_id) == "success"
    arguments = arguments_of(doors, "manage_projections", run_id)
    assert arguments[arguments.index("--") + 1 :] == texts


def test_what_no_command_line_can_hold_is_refused_in_one_line(doors: Doors) -> None:
    conf = {"operation": "delete", "persistence_ids": [TEXTS["NUL"]]}
    run_id = rest.trigger(doors.client, "reconcile", conf=conf)
    assert wait_for_application(doors, "reconcile", run_id) == "failed"
    log = rest.task_log(doors.client, "reconcile", run_id, "reconcile")
    assert "a field of the form holds what no command line can" in log
    assert "spark-submit" not in log


def test_half_of_a_character_is_refused_too() -> None:
    with pytest.raises(AirflowFailException, match=r"half of a character: 'a\\ud83d'"):
        sendable(["--tag", "a\ud83d"])


@pytest.mark.parametrize("name", ["path", "shell", "HTML", "Jinja", "newline"])
def test_run_ids_are_refused(doors: Doors, name: str) -> None:
    body: dict[str, Any] = {"logical_date": None, "dag_run_id": TEXTS[name], "conf": {}}
    answer = doors.client.post("dags/reconcile/dagRuns", json=body)
    assert answer.status_code in (httpx.codes.BAD_REQUEST, httpx.codes.UNPROCESSABLE_ENTITY), (
        json.dumps(answer.json())
    )
