"""Policies of purge, and its plans with their approvals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID

from tidemark.context import RunContext
from tidemark.ledger import runs
from tidemark.ledger.applications import PURGE
from tidemark.ledger.reading import audits
from tidemark.ledger.reading.audits import AfterAudit, AuditRow
from tidemark.purge.policies import states
from tidemark.purge.policies.states import PolicyState
from tidemark.status.page import Page, token, values_of

POLICIES, PLANS = "policies", "purge-plans"
DAYS = 365
"""How many days back plans are searched."""


@dataclass(frozen=True)
class PurgePlan:
    """A purge that was planned, started or applied.

    Attributes:
        at: when it was planned, started or applied.
        state: `planned` by a dry run, `started`, or `applied`.
        subject: the journal keyspace.
        owner: who ran purge.
        run_id: id of the run.
        approval: `digest@time`, which approves the plan; empty if the report of the run is no
            longer stored.
        tombstones: number of deletes in the plan; None if the report is no longer stored.
        counts: the numbers that would be, or were deleted.
    """

    at: datetime
    state: str
    subject: str
    owner: str
    run_id: str
    approval: str
    tombstones: int | None
    counts: Mapping[str, int]


def policies(run: RunContext, *, limit: int, after: str | None = None) -> Page[PolicyState]:
    """Return the policies that a run has started to apply, by name.

    Raises:
        InvalidInput: `after` is not a token of these pages.
    """
    begin = values_of(POLICIES, after, str)
    items = states.page(run, limit=limit, after="" if begin is None else begin[0])
    return Page(items, token(POLICIES, items[-1].name) if len(items) == limit else None)


def plans(run: RunContext, *, limit: int, after: str | None = None) -> Page[PurgePlan]:
    """Return the newest plans and purges, the newest first.

    Raises:
        InvalidInput: `after` is not a token of these pages.
    """
    begin = values_of(PLANS, after, str, str)
    page = audits.page(
        run.control,
        run.settings,
        limit=limit,
        days=DAYS,
        after=None
        if begin is None
        else AfterAudit(date.fromisoformat(begin[0]), UUID(begin[1]) if begin[1] else None),
    )
    next_token = None
    if page.next_day is not None:
        last = str(page.rows[-1].timeuuid) if page.goes_on_within else ""
        next_token = token(PLANS, page.next_day.isoformat(), last)
    return Page([_plan(run, row) for row in page.rows if row.application == PURGE], next_token)


def _plan(run: RunContext, row: AuditRow) -> PurgePlan:
    report = runs.read_report(run.control, run.settings.keyspace, row.run_id) or {}
    details: Mapping[str, Any] = report.get("details") or {}
    is_started = row.operation.endswith(" started")
    return PurgePlan(
        row.at,
        "planned" if row.dry_run else "started" if is_started else "applied",
        row.subject,
        row.owner,
        row.run_id,
        str(details.get("approval") or ""),
        details.get("tombstones"),
        row.counts,
    )
