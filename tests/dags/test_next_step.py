"""Which run a button leads to, with which fields."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from tidemark_airflow.next_step import (
    LONGEST_LINK,
    NextStepLink,
    Step,
    applied,
    remedy_of,
    step_of,
)
from tidemark_airflow.operators import TidemarkOperator
from tidemark_airflow.pages import forms

UNWRITABLE = {"check": "unwritable_event", "persistence-id": "a|1", "number": 7}


def failed(command: str, options: dict[str, Any]) -> dict[str, Any]:
    remedy = {"application": "reconcile", "command": command, "options": options}
    return {"failure": {"remedy": remedy}}


def test_options_of_a_remedy_become_fields_and_what_only_a_person_knows_is_empty() -> None:
    repair = remedy_of(failed("repair", {"persistence-id": ["a|1", "b"], "tag": "red"}))
    fields = {"operation": "repair", "persistence_ids": ["a|1", "b"], "tags": ["red"]}
    assert repair == Step("reconcile", fields)
    settle = remedy_of(failed("settle", UNWRITABLE))
    given = {
        "operation": "settle",
        "check": "unwritable_event",
        "persistence_ids": ["a|1"],
        "number": 7,
    }
    assert settle == Step("reconcile", {**given, "reason": None})


@pytest.mark.parametrize(
    ("application", "command", "options", "arguments", "step"),
    [
        ("tag-write", "", {"window-start": "a"}, (), Step("tag_write", {"window_start": "a"})),
        ("project", "", {"projection": "t"}, (), Step("project", {"projections": ["t"]})),
        (
            *("project", "resume", {}, ("t",)),
            Step("manage_projections", {"operation": "resume", "projections": ["t"]}),
        ),
        ("purge", "", {"policy": "p"}, (), Step("purge", {"policies": ["p"]})),
        ("replicate", "", {}, (), Step("replicate", {})),
        ("replicate", "replay", {}, (), Step("manage_replication", {"operation": "replay"})),
        ("run-event-groups", "", {"stream": "s"}, (), Step("event_groups", {"stream": "s"})),
        (
            *("reconcile", "repair", {"from-findings": True}, ()),
            Step("reconcile", {"operation": "repair", "from_findings": True}),
        ),
    ],
)
def test_the_run_of_a_remedy_is_a_dag_with_the_fields_of_its_form(
    application: str,
    command: str,
    options: dict[str, Any],
    arguments: tuple[str, ...],
    step: Step,
) -> None:
    remedy = {"application": application, "command": command, "options": options}
    assert step_of({**remedy, "arguments": arguments}) == step
    of_orders = Step(f"{step.dag_id}.orders", step.fields)
    assert step_of({**remedy, "arguments": arguments}, "orders") == of_orders


@pytest.mark.parametrize(
    "report",
    [
        None,
        {"failure": None},
        {"failure": {"remedy": None}},
        {"failure": {"remedy": {"application": "purge"}}},
    ],
)
def test_without_a_remedy_that_is_a_run_there_is_no_step(report: dict[str, Any] | None) -> None:
    assert remedy_of(report) is None


@pytest.mark.parametrize(
    ("dag_id", "details", "planned", "flag"),
    [
        ("reconcile", {"can_be_applied": True}, 0, {"dry_run": False}),
        ("manage_projections", {"can_be_applied": True}, 0, {"apply": True}),
        ("tag_write", {}, 3, {"dry_run": False}),
        ("reconcile", {"can_be_applied": False}, 0, None),
    ],
)
def test_plan_leads_to_the_run_that_does_it_if_there_is_something_to_do(
    dag_id: str, details: dict[str, Any], planned: int, flag: dict[str, bool] | None
) -> None:
    report = {"state": "planned", "pieces": {"planned": planned}, "details": details}
    step = applied(dag_id, {"tags": ["red"]}, report)
    assert step == (flag and Step(dag_id, {"tags": ["red"], **flag}))
    assert applied(dag_id, {}, {**report, "state": "done"}) is None


def test_step_is_a_clause_for_people() -> None:
    step = Step("reconcile", {"operation": "repair", "persistence_ids": ["a|1", "b"]})
    assert str(step) == ("trigger the DAG reconcile with operation repair, persistence ids a|1, b")


def test_only_dags_with_the_buttons_have_pages() -> None:
    with DAG("own") as own:
        TidemarkOperator(task_id="one", application_name="tag_write")
    with DAG("another") as another:
        EmptyOperator(task_id="one")
    has_pages = [
        forms.has_buttons(DagSerialization.from_dict(DagSerialization.to_dict(dag)))
        for dag in (own, another)
    ]
    assert has_pages == [True, False]


def test_link_that_no_browser_takes_is_no_button() -> None:
    class Operator:
        next_step = Step("reconcile", {"tags": ["x" * 100] * (LONGEST_LINK // 100)})

    assert NextStepLink().get_link(Operator(), ti_key=None) == ""  # type: ignore[arg-type]
