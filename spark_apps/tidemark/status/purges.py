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
from tidemark.status.page import Page, place, token

POLICIES, PLANS = "policies", "purge-plans"
DAYS = 365
"""How many days back plans are looked for."""


@dataclass(frozen=True)
class PurgePlan:
    """A purge that was planned, started or applied.

    Attributes:
        at: when.
        state: `planned` by a dry run, `started`, or `applied`.
        subject: the journal keyspace.
        owner: who.
        run_id: the run.
        approval: `digest@time`, by which the plan is applied; empty if the report of the run is
            not stored any more.
        tombstones: how many deletes the plan has; None if that report is not stored.
        counts: what would be, or was deleted.
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
    """Return the policies that a run has applied, or was about to apply, by name.

    Raises:
        InvalidInput: `after` is no token of these pages.
    """
    begin = place(POLICIES, after, str)
    found = states.page(run, limit=limit, after="" if begin is None else begin[0])
    return Page(found, token(POLICIES, found[-1].name) if len(found) == limit else None)


def plans(run: RunContext, *, limit: int, after: str | None = None) -> Page[PurgePlan]:
    """Return the newest plans and purges, the newest first.

    Raises:
        InvalidInput: `after` is no token of these pages.
    """
    begin = place(PLANS, after, str, str)
    page = audits.page(
        run.control,
        run.settings,
        limit=limit,
        days=DAYS,
        after=None
        if begin is None
        else AfterAudit(date.fromisoformat(begin[0]), UUID(begin[1]) if begin[1] else None),
    )
    rest = None
    if page.next_day is not None:
        last = str(page.rows[-1].place) if page.goes_on_within else ""
        rest = token(PLANS, page.next_day.isoformat(), last)
    return Page([_plan(run, row) for row in page.rows if row.application == PURGE], rest)


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
