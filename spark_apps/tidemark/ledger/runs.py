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
) -> None:
    """Store a report under its run id."""
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
