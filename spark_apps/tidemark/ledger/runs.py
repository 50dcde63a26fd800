"""The tables of runs: one row per run of an application, with its report, and one by day."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from tidemark import clock
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.errors import TidemarkError

BY_DAY = "run_of_day"
RUNNING = "running"
"""The state of a run that has not ended."""


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


def note_progress(run: RunContext) -> None:
    """Record how many pieces a run has started and done; ignore a failure to record it."""
    with suppress(TidemarkError):
        _note(run, {"state": RUNNING, **_pieces(run.progress.planned, run.progress.done)})


def note_end(run: RunContext, report: Mapping[str, Any]) -> None:
    """Record how a run has ended, if Tidemark's tables exist; ignore a failure to record it."""
    pieces, progress = report["pieces"], run.progress
    started, done = max(pieces["planned"], progress.planned), max(pieces["done"], progress.done)
    ended = {"state": report["state"], "error": report["error"], "finished_at": clock.now()}
    with suppress(TidemarkError):
        if run.control.table_columns(run.settings.keyspace, BY_DAY) is not None:
            _note(run, {**ended, **_pieces(started, done)})


def _pieces(started: int, done: int) -> dict[str, object]:
    return {"pieces_started": started, "pieces_done": done}


def _note(run: RunContext, values: Mapping[str, object]) -> None:
    row = {
        "day": day_of(run.started_at),
        "started_at": run.started_at,
        "run_id": run.run_id,
        "application": run.application,
        "owner": run.owner,
        "counts": dict(run.counted),
        "updated_at": clock.now(),
        **values,
    }
    run.control.execute(
        f"INSERT INTO {table(run.settings.keyspace, BY_DAY)} ({', '.join(row)})"
        f" VALUES ({', '.join('?' * len(row))}) USING TTL ?",
        (*row.values(), run.settings.keep_reports_seconds),
    )


def day_of(moment: datetime) -> str:
    """Return the partition of a moment in the tables by day."""
    return f"{moment:%Y-%m-%d}"
