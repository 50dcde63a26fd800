"""The table of runs: one row per run of an application, with its report."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table


def write_report(
    control: Control,
    keyspace: str,
    report: dict[str, Any],
    *,
    started_at: datetime,
    finished_at: datetime,
    ttl: int,
) -> None:
    """Store a report under its run id, for `ttl` seconds."""
    control.execute(
        f"INSERT INTO {table(keyspace, 'run')}"
        " (run_id, application, state, report, started_at, finished_at)"
        " VALUES (?, ?, ?, ?, ?, ?) USING TTL ?",
        (
            report["run_id"],
            report["application"],
            report["state"],
            json.dumps(report),
            started_at,
            finished_at,
            ttl,
        ),
    )


def read_report(control: Control, keyspace: str, run_id: str) -> dict[str, Any] | None:
    """Return the report of a run; None if there is none."""
    if control.table_columns(keyspace, "run") is None:
        return None
    rows = control.execute(
        f"SELECT report FROM {table(keyspace, 'run')} WHERE run_id = ?", (run_id,)
    )
    report: dict[str, Any] | None = json.loads(rows[0]["report"]) if rows else None
    return report
