"""Runs, their progress, and who has started them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from tidemark import clock
from tidemark.context import RunContext
from tidemark.ledger import applications
from tidemark.ledger.reading import locks, runs
from tidemark.ledger.reading.runs import AfterRun, RunRow
from tidemark.ledger.runs import RUNNING
from tidemark.status.page import Amount, Page, token, unknown, values_of
from tidemark.window import from_millis, to_millis

RUNS = "runs"
DIED = "died"
"""The state of a run that has not recorded its end and holds no lock."""
_ROW_COUNTS = {
    applications.TAG_WRITE: "events_read",
    applications.VALIDATE: "messages_checked",
    applications.PROJECT: "events_read",
}
"""The name of the count of rows that an application has read, by application."""


@dataclass(frozen=True)
class RunProgress:
    """A run.

    Attributes:
        run_id: id of the run; `dag/dag run/attempt` if Airflow started it.
        application: the application.
        state: `running`, `died`, or the state in the report.
        started_by: `host:pid:run id`.
        started_at: when the run has started.
        ended_at: when the run has ended; None if it has not.
        pieces_started: number of time buckets and policies that the run has started.
        pieces_done: number of started time buckets and policies that are done.
        rows: number of rows read for time buckets that have ended.
        rows_per_second: average since the start.
        seconds_left: estimated time until all that the run has started is done.
        error: why the run has failed.
    """

    run_id: str
    application: str
    state: str
    started_by: str
    started_at: datetime
    ended_at: datetime | None
    pieces_started: int
    pieces_done: int
    rows: Amount
    rows_per_second: Amount
    seconds_left: Amount
    error: str = ""


def runs_page(run: RunContext, *, limit: int, after: str | None = None) -> Page[RunProgress]:
    """Return the newest runs, the newest first, without dry runs.

    Raises:
        InvalidInput: `after` is not a token of these pages.
    """
    begin = values_of(RUNS, after, str, int, str)
    page = runs.page(
        run.control,
        run.settings,
        limit=limit,
        after=None
        if begin is None
        else AfterRun(
            date.fromisoformat(begin[0]), from_millis(begin[1]) if begin[2] else None, begin[2]
        ),
    )
    alive = locks.holders(run.control, run.settings) if _any_running(page.rows) else {}
    next_token = None
    if page.next_day is not None:
        last = page.rows[-1] if page.goes_on_within else None
        next_token = token(
            RUNS,
            page.next_day.isoformat(),
            to_millis(last.started_at) if last else 0,
            last.run_id if last else "",
        )
    now = clock.now()
    return Page([progress(row, now, is_alive=row.run_id in alive) for row in page.rows], next_token)


def _any_running(rows: Sequence[RunRow]) -> bool:
    return any(row.state == RUNNING for row in rows)


def progress(row: RunRow, now: datetime, *, is_alive: bool) -> RunProgress:
    """Return the progress of a run. No I/O."""
    is_running = row.state == RUNNING and is_alive
    ended_at = row.finished_at if row.state != RUNNING else None
    end = now if is_running else ended_at or row.updated_at
    seconds = max((end - row.started_at).total_seconds(), 0.0)
    count_name = _ROW_COUNTS.get(row.application)
    if count_name is None:
        rows = unknown(f"{row.application} counts no rows for each time bucket")
    else:
        rows = Amount(row.counts.get(count_name, 0))
    return RunProgress(
        row.run_id,
        row.application,
        DIED if row.state == RUNNING and not is_alive else row.state,
        row.owner,
        row.started_at,
        ended_at,
        row.pieces_started,
        row.pieces_done,
        rows,
        _rows_per_second(rows, seconds),
        _seconds_left(row, seconds) if is_running else Amount(0),
        row.error or "",
    )


def _rows_per_second(rows: Amount, seconds: float) -> Amount:
    if rows.number is None:
        return rows
    return Amount(round(rows.number / seconds)) if seconds >= 1 else unknown("it has just started")


def _seconds_left(row: RunRow, seconds: float) -> Amount:
    if not row.pieces_done:
        return unknown("nothing that it has started is done yet")
    return Amount(round(seconds / row.pieces_done * (row.pieces_started - row.pieces_done)))
