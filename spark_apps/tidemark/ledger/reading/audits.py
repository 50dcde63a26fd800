"""Rows of the table `audit`: manual changes and purges, the newest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from tidemark import clock
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.ledger.reading.by_day import DayPage, days_back
from tidemark.partitioning.keys import timeuuid_epoch_ms
from tidemark.settings import Settings
from tidemark.window import from_millis


class AfterAudit(NamedTuple):
    """The position after which a page begins; without a timeuuid, it begins with the day."""

    day: date
    at: UUID | None = None


@dataclass(frozen=True)
class AuditRow:
    """A row of the table `audit`."""

    timeuuid: UUID
    application: str
    operation: str
    subject: str
    owner: str
    run_id: str
    dry_run: bool
    plan: str
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def at(self) -> datetime:
        """When the row was written."""
        return from_millis(timeuuid_epoch_ms(str(self.timeuuid)))


def page(
    control: Control, settings: Settings, *, limit: int, days: int, after: AfterAudit | None = None
) -> DayPage[AuditRow]:
    """Return the newest rows of the last `days` days, or those that follow `after`."""
    today = clock.now().date()
    begin = after or AfterAudit(today)

    def read(day: date, most: int) -> list[AuditRow]:
        is_first = day == begin.day and begin.at is not None
        rows = control.execute(
            "SELECT at, application, operation, subject, owner, run_id, dry_run, plan, counts"
            f" FROM {table(settings.keyspace, 'audit')} WHERE day = ?"
            + (" AND at < ?" if is_first else "")
            + " LIMIT ?",
            (day.isoformat(), *((begin.at,) if is_first else ()), most),
        )
        return [_audit(row) for row in rows]

    return days_back(read, begin.day, today - timedelta(days=days), limit)


def _audit(row: Row) -> AuditRow:
    return AuditRow(
        row["at"],
        row["application"],
        row["operation"],
        row["subject"],
        row["owner"],
        row["run_id"],
        bool(row["dry_run"]),
        row["plan"] or "",
        dict(row["counts"] or {}),
    )
