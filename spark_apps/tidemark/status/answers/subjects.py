"""The answer on each subject. Before the first run there are no tables, so pages are empty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from tidemark.context import RunContext
from tidemark.ledger.piece import State
from tidemark.partitioning.keys import BucketSize
from tidemark.purge.policies.states import PolicyState
from tidemark.replicate.progress.partition_pages import HeldKey
from tidemark.status import (
    event_groups,
    findings,
    overview,
    projections,
    purges,
    replication,
    runs,
    time_buckets,
)
from tidemark.status.event_groups import GroupOfStream, StreamState
from tidemark.status.findings import FindingRow
from tidemark.status.page import MOST, Page
from tidemark.status.projections import ProjectionState
from tidemark.status.purges import PurgePlan
from tidemark.status.replication import PartitionState
from tidemark.status.runs import RunProgress
from tidemark.status.time_buckets import LedgerSummary, TimeBucketState
from tidemark.validate.findings.check import Severity
from tidemark.validate.stored_findings import WantedFindings

T = TypeVar("T")


@dataclass(frozen=True)
class Purges:
    """The policies of purge, and a page of its plans."""

    policies: Page[PolicyState]
    plans: Page[PurgePlan]


def _page(run: RunContext, read: Callable[..., Page[T]], *arguments: Any, **rest: Any) -> Page[T]:
    if not overview.has_ledger(run.control, run.settings):
        return Page([])
    return read(run, *arguments, **rest)


def of_time_buckets(
    run: RunContext,
    application: str | None = None,
    *,
    subject: str = "",
    size: BucketSize | None = None,
    state: State | None = None,
    limit: int,
    after: str | None = None,
) -> Page[LedgerSummary] | Page[TimeBucketState]:
    """Return the ledgers, or the newest time buckets of one application."""
    if application is None:
        return _page(run, time_buckets.ledgers, limit=limit, after=after)
    return _page(
        *(run, time_buckets.time_buckets, application),
        subject=subject,
        size=size,
        state=state,
        limit=limit,
        after=after,
    )


def of_projections(
    run: RunContext, *, limit: int, after: str | None = None
) -> Page[ProjectionState]:
    """Return the projections."""
    return _page(run, projections.projections, limit=limit, after=after)


def of_findings(
    run: RunContext,
    *,
    settled: bool = False,
    check: str = "",
    severity: Severity | None = None,
    before: datetime | None = None,
    time_bucket: datetime | None = None,
    limit: int,
    after: str | None = None,
) -> Page[FindingRow]:
    """Return the open findings, or the settled ones; filters are those of `WantedFindings`."""
    read = findings.settled_findings if settled else findings.open_findings
    wanted = WantedFindings(check, severity, before, time_bucket)
    return _page(run, read, wanted, limit=limit, after=after)


def of_purges(run: RunContext, *, limit: int, after: str | None = None) -> Purges:
    """Return the policies, and a page of the plans."""
    return Purges(
        _page(run, purges.policies, limit=MOST),
        _page(run, purges.plans, limit=limit, after=after),
    )


def of_replication(
    run: RunContext,
    *,
    kafka: bool = False,
    held: bool = False,
    limit: int,
    after: str | None = None,
) -> Page[PartitionState] | Page[HeldKey]:
    """Return the topic partitions, or the held keys; with `kafka` as far as Kafka is read."""
    if held:
        return _page(run, replication.held_keys, limit=limit, after=after)
    return _page(run, replication.partitions, limit=limit, after=after, asks_kafka=kafka)


def of_groups(
    run: RunContext, stream: str | None = None, *, limit: int, after: str | None = None
) -> Page[StreamState] | Page[GroupOfStream]:
    """Return the streams of event groups, or the open groups of one stream."""
    if stream is None:
        return _page(run, event_groups.streams, limit=limit, after=after)
    return _page(run, event_groups.groups, stream, limit=limit, after=after)


def of_runs(run: RunContext, *, limit: int, after: str | None = None) -> Page[RunProgress]:
    """Return the newest runs."""
    return _page(run, runs.runs_page, limit=limit, after=after)
