"""The overview: one line for each part of the system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidemark import clock
from tidemark.cassandra.control import Control
from tidemark.context import RunContext
from tidemark.errors import NO_RETRY_HELPS
from tidemark.installation import DEFAULT_JOURNAL, chosen_journal
from tidemark.journals.pekko import tables
from tidemark.journals.pekko.bucket_size import recorded_bucket_size
from tidemark.journals.r2dbc import tables as r2dbc
from tidemark.ledger.applications import PURGE, TAG_WRITE, VALIDATE
from tidemark.observations import store
from tidemark.settings import Settings
from tidemark.status import event_groups, findings, projections, purges, replication, rules
from tidemark.status.page import MOST, all_of
from tidemark.status.rules import Line, PartState
from tidemark.status.time_buckets import LedgerSummary, of_application
from tidemark.window import from_millis, to_millis

_CHAIN = {rules.TAG_VIEWS: "tag_write", rules.CHECKS: "validate", "projections": "project"}
_OTHERS = {"replication": "replicate", "observation": "observe"}
_THREE_DAGS = {**_CHAIN, **_OTHERS}
_ONE_DAG = {**dict.fromkeys(_CHAIN, "chain"), **_OTHERS}


@dataclass(frozen=True)
class Overview:
    """The state of the system.

    Attributes:
        at: when the state was read.
        state: the worst state of the lines; `empty` if nothing has run.
        lines: a line for each part of the system.
        last_ended: when a ledger of tag-write, validate or project was last written; None if
            nothing has run.
    """

    at: datetime
    state: PartState
    lines: Sequence[Line]
    last_ended: datetime | None


def has_ledger(control: Control, settings: Settings) -> bool:
    """Return whether Tidemark's own tables exist: the first run creates them."""
    return control.table_columns(settings.keyspace, "piece") is not None


def overview(run: RunContext, period: timedelta | None, *, is_one_dag: bool = False) -> Overview:
    """Read the state of the system.

    Args:
        run: the context.
        period: the time between scheduled runs of tag-write; None if there is no schedule.
        is_one_dag: whether the DAG `chain` runs the whole chain.

    Raises:
        InvalidInput: there is no directory of projections.
    """
    now = clock.now()
    dags = dag_ids(is_one_dag=is_one_dag)
    if not has_ledger(run.control, run.settings):
        names = [rules.CHECKS] if run.settings.is_r2dbc else [rules.TAG_VIEWS, rules.CHECKS]
        lines = [_journal(run, has_run=False), *_lines_before_first_run(names, dags)]
        return Overview(now, rules.overall(lines), lines, None)
    tag_write, validate = of_application(run, TAG_WRITE), of_application(run, VALIDATE)
    lines = [_journal(run, has_run=tag_write is not None or validate is not None)]
    if run.settings.is_r2dbc:
        first_step = _first_step(run, rules.CHECKS, validate, period, now, dags)
        lines.append(_with_findings(run, first_step))
    else:
        lines.append(_first_step(run, rules.TAG_VIEWS, tag_write, period, now, dags))
        lines.append(_checks(run, validate, tag_write, now, dags))
    states = list(all_of(lambda after: projections.projections(run, limit=MOST, after=after)))
    is_overdue = validate is None or _is_overdue(validate.last_ended, now)
    lines.append(rules.projections(states, overdue=is_overdue, dag=dags["projections"]))
    partitions = replication.partitions(run, limit=MOST)
    has_more = partitions.next is not None
    lines.append(
        rules.replication(partitions.items, has_more=has_more, now=now, dag=dags["replication"])
    )
    policies = purges.policies(run, limit=MOST)
    lines.append(rules.purge(policies.items, of_application(run, PURGE)))
    lines.append(rules.groups(event_groups.streams(run, limit=MOST).items, now=now))
    open_alarms = [alarm for alarm in store.alarms(run) if alarm.state.is_open]
    last = store.last(run)
    lines.append(rules.observation(last, open_alarms, now=now, dag=dags["observation"]))
    ended = [
        at
        for at in (
            *(ledger.last_ended for ledger in (tag_write, validate) if ledger is not None),
            *(projection.last_ended for projection in states),
        )
        if at is not None
    ]
    return Overview(now, rules.overall(lines), lines, max(ended, default=None))


def dag_ids(*, is_one_dag: bool) -> Mapping[str, str]:
    """Return the DAGs of the chosen journal, by the part of the overview that they bring on."""
    dags, journal = _ONE_DAG if is_one_dag else _THREE_DAGS, chosen_journal()
    if journal == DEFAULT_JOURNAL:
        return dags
    return {part: f"{dag_id}.{journal}" for part, dag_id in dags.items()}


def _lines_before_first_run(names: Sequence[str], dags: Mapping[str, str]) -> list[Line]:
    return [
        rules.chain(name, None, expected=None, overdue_from=None, now=clock.now(), dag=dags[name])
        for name in names
    ] + [
        Line(name, PartState.EMPTY, rules.NOTHING_YET)
        for name in ("projections", "replication", "purge", "groups", "observation")
    ]


def _journal(run: RunContext, *, has_run: bool) -> Line:
    settings = run.settings
    problem, remedy = "", ""
    recorded = None
    try:
        if settings.is_r2dbc:
            r2dbc.require_journal(settings)
        else:
            tables.require_journal(run.control, settings)
            if has_ledger(run.control, settings):
                # Runs also compare the rows of the tag views, which is too slow for status.
                recorded = recorded_bucket_size(run.control, settings)
    except NO_RETRY_HELPS as error:
        problem, remedy = error.what, error.do
    if recorded not in (None, settings.bucket_size):
        problem = f"the tag views have {recorded} buckets, the settings {settings.bucket_size}"
        remedy = f"set TIDEMARK_BUCKET_SIZE={recorded}"
    name = (
        f"{settings.r2dbc_schema} in PostgreSQL" if settings.is_r2dbc else settings.journal_keyspace
    )
    kind = f"{name}, {settings.bucket_size.value} buckets"
    return rules.journal(problem, remedy, has_run=has_run, kind=kind)


def _first_step(
    run: RunContext,
    name: str,
    ledger: LedgerSummary | None,
    period: timedelta | None,
    now: datetime,
    dags: Mapping[str, str],
) -> Line:
    """Judge the first step of the chain.

    A time bucket is due one bucket size after live readers have passed it.
    """
    settings = run.settings
    size = settings.bucket_size.milliseconds
    delay = settings.readers_delay
    reachable = to_millis(now - delay) - size
    expected = None if period is None else from_millis(reachable // size * size)
    done = None if ledger is None else ledger.newest_done or ledger.first
    overdue_from = None
    if period is not None and done is not None:
        overdue_from = done + rules.MISSED_RUNS * period + timedelta(milliseconds=size) + delay
    return rules.chain(
        name, ledger, expected=expected, overdue_from=overdue_from, now=now, dag=dags[name]
    )


def _checks(
    run: RunContext,
    ledger: LedgerSummary | None,
    tag_write: LedgerSummary | None,
    now: datetime,
    dags: Mapping[str, str],
) -> Line:
    expected = None if tag_write is None else tag_write.done_until
    ended = None if tag_write is None else tag_write.last_ended
    line = rules.chain(
        rules.CHECKS,
        ledger,
        expected=expected,
        overdue_from=None if ended is None else ended + rules.FOLLOWS_WITHIN,
        now=now,
        dag=dags[rules.CHECKS],
    )
    return _with_findings(run, line)


def _with_findings(run: RunContext, line: Line) -> Line:
    open_findings = findings.open_findings(run, limit=MOST)
    blocking = [finding for finding in open_findings.items if finding.blocks]
    return rules.checks(
        line,
        len(blocking),
        len(open_findings.items) - len(blocking),
        has_more=open_findings.next is not None,
        since=min((finding.since for finding in blocking if finding.since), default=None),
    )


def _is_overdue(ended: datetime | None, now: datetime) -> bool:
    return ended is None or now - ended > rules.FOLLOWS_WITHIN
