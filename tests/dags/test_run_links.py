"""Links from ids of runs to Airflow."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tidemark_airflow.operators import _run_id
from tidemark_airflow.pages.state.links import url_of, with_urls


@pytest.mark.parametrize("map_index", [-1, 3])
def test_id_that_an_operator_makes_leads_to_its_run(
    map_index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://jobs.example/airflow")
    task = SimpleNamespace(
        dag_id="project", run_id="manual__2024-03-01T00:00:00+00:00", try_number=2,
        map_index=map_index,
    )  # fmt: skip
    path = "/airflow/dags/project/runs/manual__2024-03-01T00%3A00%3A00%2B00%3A00"
    assert url_of(_run_id(task)) == path


@pytest.mark.parametrize("run_id", ["", "status", "by/hand", "a/b/c", "a/b/1/2/3"])
def test_other_ids_lead_nowhere(run_id: str) -> None:
    assert url_of(run_id) is None


def test_every_object_with_a_run_gets_a_link() -> None:
    value = {"items": [{"run_id": "a/b/1", "x": 1}], "cells": {"p": {"run_id": ""}}}
    assert with_urls(value) == {
        "items": [{"run_id": "a/b/1", "x": 1, "url": "/dags/a/runs/b"}],
        "cells": {"p": {"run_id": "", "url": None}},
    }
