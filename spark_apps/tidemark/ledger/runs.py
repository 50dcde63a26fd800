"""One row per run of an application, with its report."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.settings import Settings


def write_report(
    control: Control,
    keyspace: str,
    report: dict[str, Any],
    *,
    started_at: datetime,
    finished_at: datetime,
) -> None:
    """Store a report under its run id.

    Raises:
        CassandraUnavailable: the statement failed.
    """
    control.execute(
        f"INSERT INTO {table(keyspace, 'run')}"
        " (run_id, application, state, report, started_at, finished_at) VALUES (?, ?, ?, ?, ?, ?)",
        (
            report["run_id"],
            report["application"],
            report["state"],
            json.dumps(report),
            started_at,
            finished_at,
        ),
    )


def read_report(settings: Settings, run_id: str) -> dict[str, Any] | None:
    """The report of a run; None if that run stored none.

    Raises:
        CassandraUnavailable: Cassandra cannot be reached or refuses us.
    """
    with Control(settings) as control:
        if control.table_columns(settings.keyspace, "run") is None:
            return None
        rows = control.execute(
            f"SELECT report FROM {table(settings.keyspace, 'run')} WHERE run_id = ?", (run_id,)
        )
    return json.loads(rows[0]["report"]) if rows and rows[0]["report"] else None
