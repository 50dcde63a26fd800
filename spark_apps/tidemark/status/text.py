"""Answers as tables for a terminal."""

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
from tidemark.status.projections import ProjectionState
from tidemark.status.purges import PurgePlan
from tidemark.status.replication import PartitionState
from tidemark.status.runs import RunProgress
from tidemark.status.time_buckets import LedgerSummary, TimeBucketState
from tidemark.text import harmless

_NOTHING = "-"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return rows under their heads, each column as wide as its widest cell."""
    cells = [list(heads), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(heads) - 1)]
    return [
        "  ".join(
            [*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)), row[-1]]
        ).rstrip()
        for row in cells
    ]


def of_overview(found: Overview) -> list[str]:
    """Return the overview: a line for each part, and below it what to do."""
    lines = table(
        ("part", "state", "since (UTC)", "why"),
        [(line.subject, line.state, line.since, line.what) for line in found.lines],
    )
    shown = [f"{found.state} at {_cell(found.at)} UTC", lines[0]]
    for line, of_part in zip(found.lines, lines[1:], strict=True):
        shown.append(of_part)
        if line.remedy:
            shown.append(f"    -> {harmless(line.remedy)}")
    return shown


def of_ledgers(page: Page[LedgerSummary]) -> list[str]:
    """Return ledgers with their time buckets by state."""
    return _paged(
        page,
        ("application", "subject", "size", "missing", "done up to", "last ended", "states"),
        (
            (
                *(one.application, one.subject, one.bucket_size),
                *("unknown" if one.missing is None else one.missing, one.done_until),
                *(one.last_ended, _states(one.states, is_complete=one.is_complete)),
            )
            for one in page.items
        ),
    )


def of_time_buckets(page: Page[TimeBucketState]) -> list[str]:
    """Return time buckets."""
    return _paged(
        page,
        ("time bucket", "state", "attempt", "ended", "reason", "error"),
        (
            (one.time_bucket, one.state, one.attempt, one.finished_at, one.reason, one.error)
            for one in page.items
        ),
    )


def of_projections(page: Page[ProjectionState]) -> list[str]:
    """Return projections."""
    heads = ("projection", "version", "condition", "open", "lag", "about events", "oldest gap")
    return _paged(
        page,
        (*heads, "age", "held", "quarantined", "why"),
        (
            (
                *(one.name, one.version, one.condition, one.open, duration(one.lag_seconds)),
                *(one.lag_events, one.oldest_gap),
                *(duration(one.gap_age_seconds) if one.oldest_gap else None, one.held),
                *(one.quarantined, _why(one)),
            )
            for one in page.items
        ),
    )


def of_findings(page: Page[FindingRow]) -> list[str]:
    """Return findings."""
    return _paged(
        page,
        ("check", "blocks", "time bucket", "persistence id", "tag", "number", "since", "detail"),
        (
            (
                *(one.check, _blocks(one), one.time_bucket, one.persistence_id, one.tag),
                *(one.number, one.since),
                f"settled by {one.owner}: {one.reason}" if one.reason else one.detail,
            )
            for one in page.items
        ),
    )


def of_policies(page: Page[PolicyState]) -> list[str]:
    """Return the policies of purge."""
    return _paged(
        page,
        ("policy", "state", "started", "ended", "by", "error"),
        (
            (one.name, one.state, one.started_at, one.finished_at, one.owner, one.error)
            for one in page.items
        ),
    )


def of_plans(page: Page[PurgePlan]) -> list[str]:
    """Return plans of purge."""
    return _paged(
        page,
        ("plan of", "state", "deletes", "by", "approval"),
        (
            (
                *(one.at, one.state, "unknown" if one.tombstones is None else one.tombstones),
                *(one.owner, one.approval or "unknown: its report is not stored any more"),
            )
            for one in page.items
        ),
    )


def of_partitions(page: Page[PartitionState]) -> list[str]:
    """Return topic partitions."""
    return _paged(
        page,
        ("topic", "partition", "replicated to", "lag", "events", "next", "held keys", "problem"),
        (
            (
                *(one.topic, str(one.partition), one.replicated_to),
                *(duration(Amount(one.lag_seconds)), one.lag_events, one.next_offset),
                *(one.held_keys, one.problem),
            )
            for one in page.items
        ),
    )


def of_held_keys(page: Page[HeldKey]) -> list[str]:
    """Return held keys."""
    return _paged(
        page,
        ("topic partition", "state", "records", "first offset", "since", "key"),
        (
            (one.partition, one.state, one.records, str(one.first), one.since, one.key)
            for one in page.items
        ),
    )


def of_streams(page: Page[StreamState]) -> list[str]:
    """Return streams of event groups."""
    return _paged(
        page,
        ("stream", "open", "held", "oldest submitted", "oldest", "not rolled back"),
        (
            (
                *(one.stream, one.open, one.held, one.oldest_submitted_at, one.oldest_open),
                ", ".join(one.stuck),
            )
            for one in page.items
        ),
    )


def of_groups(page: Page[GroupOfStream]) -> list[str]:
    """Return event groups that have not ended."""
    return _paged(
        page,
        ("sequence", "group", "state", "submitted", "held by", "reason"),
        (
            (str(one.sequence), one.group, one.state, one.submitted_at, one.held_by, one.reason)
            for one in page.items
        ),
    )


def of_runs(page: Page[RunProgress]) -> list[str]:
    """Return runs."""
    return _paged(
        page,
        ("started", "application", "state", "pieces", "rows/s", "left", "started by", "error"),
        (
            (
                *(one.started_at, one.application, one.state),
                f"{one.pieces_done:,} of {one.pieces_started:,}",
                *(one.rows_per_second, duration(one.seconds_left), one.started_by, one.error),
            )
            for one in page.items
        ),
    )


def duration(seconds: Amount) -> str:
    """Return seconds for people: `1 day, 2:03:04`."""
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
    more = "" if is_complete else "+"
    return ", ".join(f"{number:,}{more} {state}" for state, number in states.items())


def _blocks(one: FindingRow) -> str:
    if one.blocks is None:
        return "settled"
    return "yes" if one.blocks else "no"


def _why(one: ProjectionState) -> str:
    paused = f"paused {_cell(one.paused_at)} by {one.paused_by}" if one.paused_at else ""
    return "; ".join(part for part in (one.problem, paused, one.gap or one.last_error) if part)
