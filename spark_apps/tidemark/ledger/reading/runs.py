"""Runs, the newest first, including those that have not ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from tidemark import clock
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.ledger.reading.by_day import DayPage, days_back
from tidemark.ledger.runs import BY_DAY
from tidemark.settings import Settings

_COLUMNS = (
    "started_at, run_id, application, owner, state, pieces_started, pieces_done, counts, error,"
    " updated_at, finished_at"
)

_LONGEST_DAYS = 3650


class AfterRun(NamedTuple):
    """The position after which a page begins; without a run id, it begins with the day."""

    day: date
    started_at: datetime | None = None
    run_id: str = ""


@dataclass(frozen=True)
class RunRow:
    """A row of the table of runs by day."""

    run_id: str
    application: str
    owner: str
    state: str
    started_at: datetime
    updated_at: datetime
    finished_at: datetime | None = None
    pieces_started: int = 0
    pieces_done: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None


def page(
    control: Control, settings: Settings, *, limit: int, after: AfterRun | None = None
) -> DayPage[RunRow]:
    """Return the newest runs, or those that follow `after`; none if the table does not exist."""
    today = clock.now().date()
    if control.table_columns(settings.keyspace, BY_DAY) is None:
        return DayPage([], None)
    begin = after or AfterRun(today)

    def read(day: date, most: int) -> list[RunRow]:
        is_first = day == begin.day and begin.started_at is not None
        rows = control.execute(
            f"SELECT {_COLUMNS} FROM {table(settings.keyspace, BY_DAY)} WHERE day = ?"
            + (" AND (started_at, run_id) < (?, ?)" if is_first else "")
            + " LIMIT ?",
            (
                day.isoformat(),
                *((begin.started_at, begin.run_id) if is_first else ()),
                most,
            ),
        )
        return [_run(row) for row in rows]

    # 0 days means that reports are kept permanently.
    oldest = today - timedelta(days=settings.keep_reports_days or _LONGEST_DAYS)
    return days_back(read, begin.day, oldest, limit)


def _run(row: Row) -> RunRow:
    return RunRow(
        row["run_id"],
        row["application"],
        row["owner"] or "",
        row["state"],
        row["started_at"].replace(tzinfo=UTC),
        row["updated_at"].replace(tzinfo=UTC),
        None if row["finished_at"] is None else row["finished_at"].replace(tzinfo=UTC),
        row["pieces_started"] or 0,
        row["pieces_done"] or 0,
        dict(row["counts"] or {}),
        row["error"],
    )
