"""Events of assets, read from Airflow's database.

Its server answers with an error as long as a run that an event has caused is queued, because its
description of an event needs the start date of the run. Airflow writes the events of a task in the
transaction that ends the task: those that a run has then are all.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from embedded.airflow import rest
from tests.dags.conftest import PATIENCE_S


def all_events(home: Path) -> list[dict[str, Any]]:
    """Return what all events say."""
    return [json.loads(extra) for (extra,) in _read(home, "SELECT extra FROM asset_event")]


def events_of(home: Path, dag_id: str, run_id: str) -> list[dict[str, Any]]:
    """Return what the events say that a run has caused."""
    query = "SELECT extra FROM asset_event WHERE source_dag_id = ? AND source_run_id = ?"
    return [json.loads(extra) for (extra,) in _read(home, query, dag_id, run_id)]


def started_by(home: Path, dag_id: str, run_id: str) -> str:
    """Return the id of the run that the event of a run has started."""
    query = (
        "SELECT dag_run.run_id FROM dag_run"
        " JOIN dagrun_asset_event ON dagrun_asset_event.dag_run_id = dag_run.id"
        " JOIN asset_event ON asset_event.id = dagrun_asset_event.event_id"
        " WHERE asset_event.source_dag_id = ? AND asset_event.source_run_id = ?"
    )

    def probe() -> str | None:
        run_ids = _read(home, query, dag_id, run_id)
        return str(run_ids[0][0]) if run_ids else None

    return rest.wait_until(f"the run after {dag_id} {run_id}", PATIENCE_S, probe)


def _read(home: Path, query: str, *values: str) -> list[Any]:
    file = f"file:{home / 'airflow.db'}?mode=ro"
    with closing(sqlite3.connect(file, timeout=60, uri=True)) as reader:
        return reader.execute(query, values).fetchall()
