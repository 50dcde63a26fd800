"""Formats the answers of status as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from tidemark.purge.policies.states import PolicyState
from tidemark.replicate.progress.partition_pages import HeldKey
from tidemark.status.event_groups import GroupOfStream, StreamState
from tidemark.status.findings import FindingRow
from tidemark.status.overview import Overview
from tidemark.status.page import Amount, Page
from tidemark.status.projections import LagAt, ProjectionState
from tidemark.status.purges import PurgePlan
from tidemark.status.replication import PartitionState
from tidemark.status.runs import RunProgress
from tidemark.status.time_buckets import LedgerSummary, TimeBucketState
from tidemark.text import harmless

_NOTHING = "-"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return a header and rows as lines, each column as wide as its widest cell."""
    cells = [list(heads), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads) - 1)]
    return [
        "  ".join(
            [*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)), row[-1]]
        ).rstrip()
        for row in cells
    ]


def of_overview(overview: Overview) -> list[str]:
    """Format the overview: a line for each part, with its remedy below."""
    rows = table(
        ("part", "state", "since (UTC)", "why"),
        [(line.subject, line.state, line.since, line.what) for line in overview.lines],
    )
    output = [f"{overview.state} at {_cell(overview.at)} UTC", rows[0]]
    for line, row in zip(overview.lines, rows[1:], strict=True):
        output.append(row)
        if line.remedy:
            output.append(f"    -> {harmless(line.remedy)}")
    return output


def of_ledgers(page: Page[LedgerSummary]) -> list[str]:
    """Format ledgers, with the number of time buckets by state."""
    return _paged(
        page,
        ("application", "subject", "size", "missing", "done up to", "last ended", "states"),
        (
            (
                *(ledger.application, ledger.subject, ledger.bucket_size),
                *("unknown" if ledger.missing is None else ledger.missing, ledger.done_until),
                *(ledger.last_ended, _states(ledger.states, is_complete=ledger.is_complete)),
            )
            for ledger in page.items
        ),
    )


def of_time_buckets(page: Page[TimeBucketState]) -> list[str]:
    """Format time buckets."""
    return _paged(
        page,
        ("time bucket", "state", "attempt", "ended", "reason", "error"),
        (
            (
                *(bucket.time_bucket, bucket.state, bucket.attempt, bucket.finished_at),
                *(bucket.reason, bucket.error),
            )
            for bucket in page.items
        ),
    )


def of_projections(page: Page[ProjectionState]) -> list[str]:
    """Format projections."""
    heads = ("projection", "version", "condition", "open", "lag", "about events", "oldest gap")
    return _paged(
        page,
        (*heads, "age", "held", "quarantined", "why"),
        (
            (
                *(projection.name, projection.version, projection.condition, projection.open),
                *(duration(projection.lag_seconds), projection.lag_events, projection.oldest_gap),
                duration(projection.gap_age_seconds) if projection.oldest_gap else None,
                *(projection.held, projection.quarantined, _why(projection)),
            )
            for projection in page.items
        ),
    )


def of_lag_history(values: Sequence[LagAt]) -> list[str]:
    """Format the observed lag of a projection."""
    if not values:
        return ["nothing was observed"]
    return table(
        ("observed (UTC)", "about events", "lag"),
        (
            (
                value.at,
                None if value.events is None else int(value.events),
                None if value.seconds is None else duration(Amount(int(value.seconds))),
            )
            for value in values
        ),
    )


def of_findings(page: Page[FindingRow]) -> list[str]:
    """Format findings."""
    return _paged(
        page,
        ("check", "blocks", "time bucket", "persistence id", "tag", "number", "since", "detail"),
        (
            (
                *(finding.check, _blocks(finding), finding.time_bucket, finding.persistence_id),
                *(finding.tag, finding.number, finding.since),
                f"settled by {finding.owner}: {finding.reason}"
                if finding.reason
                else finding.detail,
            )
            for finding in page.items
        ),
    )


def of_policies(page: Page[PolicyState]) -> list[str]:
    """Format the policies of purge."""
    return _paged(
        page,
        ("policy", "state", "started", "ended", "by", "error"),
        (
            (
                *(policy.name, policy.state, policy.started_at, policy.finished_at),
                *(policy.owner, policy.error),
            )
            for policy in page.items
        ),
    )


def of_plans(page: Page[PurgePlan]) -> list[str]:
    """Format plans of purge."""
    return _paged(
        page,
        ("plan of", "state", "deletes", "by", "approval"),
        (
            (
                *(plan.at, plan.state, "unknown" if plan.tombstones is None else plan.tombstones),
                *(plan.owner, plan.approval or "unknown: its report is not stored any more"),
            )
            for plan in page.items
        ),
    )


def of_partitions(page: Page[PartitionState]) -> list[str]:
    """Format topic partitions."""
    return _paged(
        page,
        ("topic", "partition", "replicated to", "lag", "events", "next", "held keys", "problem"),
        (
            (
                *(partition.topic, str(partition.partition), partition.replicated_to),
                *(duration(Amount(partition.lag_seconds)), partition.lag_events),
                *(partition.next_offset, partition.held_keys, partition.problem),
            )
            for partition in page.items
        ),
    )


def of_held_keys(page: Page[HeldKey]) -> list[str]:
    """Format held keys."""
    return _paged(
        page,
        ("topic partition", "state", "records", "first offset", "since", "key"),
        (
            (key.partition, key.state, key.records, str(key.first), key.since, key.key)
            for key in page.items
        ),
    )


def of_streams(page: Page[StreamState]) -> list[str]:
    """Format streams of event groups."""
    return _paged(
        page,
        ("stream", "open", "held", "oldest submitted", "oldest", "not rolled back"),
        (
            (
                *(stream.stream, stream.open, stream.held, stream.oldest_submitted_at),
                *(stream.oldest_open, ", ".join(stream.stuck)),
            )
            for stream in page.items
        ),
    )


def of_groups(page: Page[GroupOfStream]) -> list[str]:
    """Format event groups that have not ended."""
    return _paged(
        page,
        ("sequence", "group", "state", "submitted", "held by", "reason"),
        (
            (
                *(str(group.sequence), group.group, group.state, group.submitted_at),
                *(group.held_by, group.reason),
            )
            for group in page.items
        ),
    )


def of_runs(page: Page[RunProgress]) -> list[str]:
    """Format runs."""
    return _paged(
        page,
        ("started", "application", "state", "pieces", "rows/s", "left", "started by", "error"),
        (
            (
                *(run.started_at, run.application, run.state),
                f"{run.pieces_done:,} of {run.pieces_started:,}",
                *(run.rows_per_second, duration(run.seconds_left), run.started_by, run.error),
            )
            for run in page.items
        ),
    )


def duration(seconds: Amount) -> str:
    """Format seconds for people: `1 day, 2:03:04`."""
    if seconds.number is None:
        return str(seconds)
    return f"{timedelta(seconds=seconds.number)}{'+' if seconds.is_at_least else ''}"


def _paged(page: Page[Any], heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = table(heads, rows) if page.items else ["nothing"]
    return [*lines, *([f"next page: --after {page.next}"] if page.next else [])]


def _cell(value: object) -> str:
    if value is None or value == "":
        return _NOTHING
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return harmless(f"{value:,}" if isinstance(value, int) else str(value))


def _states(states: Mapping[str, int], *, is_complete: bool) -> str:
    plus = "" if is_complete else "+"
    return ", ".join(f"{number:,}{plus} {state}" for state, number in states.items())


def _blocks(finding: FindingRow) -> str:
    if finding.blocks is None:
        return "settled"
    return "yes" if finding.blocks else "no"


def _why(projection: ProjectionState) -> str:
    at = projection.paused_at
    paused = f"paused {_cell(at)} by {projection.paused_by}" if at else ""
    parts = (projection.problem, paused, projection.gap or projection.last_error)
    return "; ".join(part for part in parts if part)
