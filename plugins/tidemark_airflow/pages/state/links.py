"""Links from ids of runs to the runs in Airflow."""

from __future__ import annotations

import re
from urllib.parse import quote

from tidemark_airflow.next_step import below_airflow

_OF_AIRFLOW = re.compile(r"(?P<dag>[^/]+)/(?P<run>[^/]+)/\d+(?:/\d+)?")
"""Matches DAG, run, number of the try, and index of a mapped task, as operators make them."""


def run_path(dag_id: str, run_id: str) -> str:
    """Return the path of a run in Airflow."""
    return below_airflow(f"/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}")


def url_of(run_id: str) -> str | None:
    """Return the path of the run of Airflow with this id; None for a run by hand."""
    match = _OF_AIRFLOW.fullmatch(run_id)
    return run_path(match["dag"], match["run"]) if match else None


def with_urls(value: object) -> object:
    """Return JSON values in which each object with a `run_id` also has the `url` of the run."""
    if isinstance(value, list):
        return [with_urls(part) for part in value]
    if not isinstance(value, dict):
        return value
    parts = {key: with_urls(part) for key, part in value.items()}
    return {**parts, "url": url_of(value["run_id"])} if "run_id" in value else parts
