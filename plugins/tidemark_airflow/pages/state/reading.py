"""The routes that read: for each subject the JSON of `tidemark status SUBJECT --json`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse
from pydantic import AwareDatetime

from tidemark.context import RunContext
from tidemark.ledger.piece import State
from tidemark.partitioning.keys import BucketSize
from tidemark.replicate.progress.partition_pages import HeldKey
from tidemark.status import overview, rules
from tidemark.status.answers import grid, one_projection, subjects
from tidemark.status.answers.grid import Grid
from tidemark.status.answers.one_projection import ReleaseRow
from tidemark.status.answers.subjects import Purges
from tidemark.status.as_json import as_json
from tidemark.status.event_groups import GroupOfStream, StreamState
from tidemark.status.findings import FindingRow
from tidemark.status.overview import Overview
from tidemark.status.page import LIMIT, MOST, Page
from tidemark.status.projections import LagAt, ProjectionState
from tidemark.status.replication import PartitionState
from tidemark.status.runs import RunProgress
from tidemark.status.time_buckets import LedgerSummary, TimeBucketState
from tidemark.user_files import journals
from tidemark.validate.findings.check import Severity
from tidemark_airflow.pages.state.journal import ChosenJournal
from tidemark_airflow.pages.state.journal import names as journal_names
from tidemark_airflow.pages.state.links import with_urls
from tidemark_airflow.pages.state.permissions import may_read
from tidemark_airflow.pages.state.remedies import OverviewWithOrders, with_orders
from tidemark_airflow.pages.state.session import shared

router = APIRouter(prefix="/api/v1", dependencies=[Depends(may_read)])
Limit = Annotated[int, Query(ge=1, le=MOST, description="The most items of a page.")]
After = Annotated[str | None, Query(description="`next` of the page before.")]


async def _answer(journal: str, read: Callable[[RunContext], object]) -> JSONResponse:
    return JSONResponse(with_urls(as_json(await shared.read(journal, read))))


@dataclass(frozen=True)
class JournalNames:
    """The names of the journals, `default` first."""

    items: Sequence[str]


@router.get("/journals")
def get_journals() -> JournalNames:
    """Return the journals; the other routes take one as the parameter `journal`."""
    return JournalNames(journal_names())


@router.get("/overview", response_model=OverviewWithOrders)
async def get_overview(journal: ChosenJournal) -> JSONResponse:
    """Return a line for each part of the system: its state, since when, and what to do."""

    def read(run: RunContext) -> Overview:
        period = rules.period_of(journals.scheduled("cadence", "daily"))
        is_one_dag = journals.scheduled("chain", "three-dags") == rules.ONE_DAG
        return with_orders(overview.overview(run, period, is_one_dag=is_one_dag), journal)

    return await _answer(journal, read)


@router.get("/time-buckets", response_model=Page[LedgerSummary] | Page[TimeBucketState])
async def get_time_buckets(
    journal: ChosenJournal,
    application: Annotated[
        str | None, Query(description="Return the time buckets of this application.")
    ] = None,
    subject: Annotated[str, Query(description="Empty: the journal.")] = "",
    state: State | None = None,
    size: BucketSize | None = None,
    limit: Limit = LIMIT,
    after: After = None,
) -> JSONResponse:
    """Return the ledgers of the applications, or the newest time buckets of one of them."""
    return await _answer(
        journal,
        lambda run: subjects.of_time_buckets(
            run, application, subject=subject, size=size, state=state, limit=limit, after=after
        ),
    )


@router.get("/projections", response_model=Page[ProjectionState])
async def get_projections(
    journal: ChosenJournal, limit: Limit = LIMIT, after: After = None
) -> JSONResponse:
    """Return the projections: condition, lag, oldest gap, held, paused, quarantined."""
    return await _answer(
        journal, lambda run: subjects.of_projections(run, limit=limit, after=after)
    )


Projection = Annotated[str, Query(description="The name of a projection.")]


@router.get("/lag", response_model=Page[LagAt])
async def get_lag(journal: ChosenJournal, projection: Projection) -> JSONResponse:
    """Return the lag of a projection in the last 14 days, the largest of each hour."""
    return await _answer(journal, lambda run: one_projection.lag(run, projection))


@router.get("/releases", response_model=Page[ReleaseRow])
async def get_releases(journal: ChosenJournal, projection: Projection) -> JSONResponse:
    """Return the versions of a projection, the newest first; none if it is not blue/green."""
    return await _answer(journal, lambda run: one_projection.releases(run, projection))


@router.get("/findings", response_model=Page[FindingRow])
async def get_findings(
    journal: ChosenJournal,
    settled: bool = False,
    check: Annotated[str, Query(description="Only findings of this check.")] = "",
    severity: Annotated[
        Severity | None, Query(description="Only open findings with this severity.")
    ] = None,
    before: Annotated[
        AwareDatetime | None,
        Query(description="Only findings that were first found, or settled, before this time."),
    ] = None,
    time_bucket: AwareDatetime | None = None,
    limit: Limit = LIMIT,
    after: After = None,
) -> JSONResponse:
    """Return the open findings of validate, or the settled ones."""
    return await _answer(
        journal,
        lambda run: subjects.of_findings(
            run,
            settled=settled,
            check=check,
            severity=severity,
            before=before,
            time_bucket=time_bucket,
            limit=limit,
            after=after,
        ),
    )


@router.get("/purges", response_model=Purges)
async def get_purges(
    journal: ChosenJournal, limit: Limit = LIMIT, after: After = None
) -> JSONResponse:
    """Return the policies of purge, and its newest plans."""
    return await _answer(journal, lambda run: subjects.of_purges(run, limit=limit, after=after))


@router.get("/replication", response_model=Page[PartitionState] | Page[HeldKey])
async def get_replication(
    journal: ChosenJournal,
    kafka: Annotated[bool, Query(description="Read the ends of the topics from Kafka.")] = False,
    held: Annotated[bool, Query(description="Return the held keys.")] = False,
    limit: Limit = LIMIT,
    after: After = None,
) -> JSONResponse:
    """Return the topic partitions, or the held keys."""
    return await _answer(
        journal,
        lambda run: subjects.of_replication(run, kafka=kafka, held=held, limit=limit, after=after),
    )


@router.get("/groups", response_model=Page[StreamState] | Page[GroupOfStream])
async def get_groups(
    journal: ChosenJournal,
    stream: Annotated[
        str | None, Query(description="Return the open groups of this stream.")
    ] = None,
    limit: Limit = LIMIT,
    after: After = None,
) -> JSONResponse:
    """Return the streams of event groups, or the open groups of one of them."""
    return await _answer(
        journal, lambda run: subjects.of_groups(run, stream, limit=limit, after=after)
    )


@router.get("/runs", response_model=Page[RunProgress])
async def get_runs(
    journal: ChosenJournal, limit: Limit = LIMIT, after: After = None
) -> JSONResponse:
    """Return the newest runs with their progress, and who has started them."""
    return await _answer(journal, lambda run: subjects.of_runs(run, limit=limit, after=after))


@router.get("/grid", response_model=Grid)
async def get_grid(
    journal: ChosenJournal,
    start: AwareDatetime | None = None,
    end: Annotated[AwareDatetime | None, Query(description="Exclusive.")] = None,
    row: Annotated[list[str], Query(description="Only rows with these names.")] = [],  # noqa: B006 - FastAPI copies it
    limit: Limit = LIMIT,
    after: After = None,
) -> JSONResponse:
    """Return the newest time buckets, with their state by application and projection."""

    def read(run: RunContext) -> Grid:
        bounds: dict[str, datetime | None] = {"start": start, "end": end}
        return grid.grid(run, **bounds, names=row, limit=limit, after=after)

    return await _answer(journal, read)
