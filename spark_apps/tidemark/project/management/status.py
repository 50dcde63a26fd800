"""The command `status`: shows done and open pieces of projections, the reasons, and the lag.

Without Spark the lag in events is an estimate from the ledger; on request Spark counts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tidemark import clock
from tidemark.context import Outcome, RunContext, RunState
from tidemark.errors import NO_RETRY_HELPS, TidemarkError, all_of
from tidemark.ledger.frontier.state import LedgerState
from tidemark.ledger.piece import PieceRow
from tidemark.partitioning.keys import SliceRange, slice_ranges
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.project.definition.model import Definition
from tidemark.project.management import lag, rollup_status
from tidemark.project.management.lag import Lag
from tidemark.project.management.selection import select_usable
from tidemark.project.offset_store import management_state, missing_numbers
from tidemark.project.offset_store.missing_numbers import Missing
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning import history, live_release, target_check
from tidemark.project.planning.estimate import Estimate, Estimates
from tidemark.project.planning.plan import ledger
from tidemark.project.position.progress import ProjectionProgress, progress
from tidemark.project.position.ready import ready_buckets, validated_buckets
from tidemark.project.writing import bucket as mode_bucket
from tidemark.text import counted
from tidemark.window import from_millis, iso, to_millis

_MISSING_SHOWN, _MISSING_DETAILS = 20, 1000


@dataclass
class _StatusReport:
    """The report, to which each projection is added."""

    ready: TimeBuckets
    lines: list[str] = field(default_factory=list)
    details: list[Mapping[str, Any]] = field(default_factory=list)


def run_status(
    run: RunContext,
    names: Sequence[str],
    *,
    exact: bool = False,
    verify: bool = False,
    ranges: int = 16,
) -> Outcome:
    """Report the status of each projection; the only write is creating Tidemark's own tables.

    The outcome has an error for each file that cannot be used, and each table that contradicts the
    ledger. `exact` counts the lag of each slice with Spark, and shows it for a number of `ranges`
    that is a power of two up to 1024. `verify` counts the rows of each time bucket with Spark.

    Raises:
        InvalidInput: a projection is unknown, or the number of ranges is no power of two.
        SchemaMismatch: the journal's tables are missing or of another shape.
    """
    shown_ranges = slice_ranges(ranges)
    selected = select_usable(run, names, with_rollups=True)
    report = _StatusReport(TimeBuckets([], run.settings.bucket_size.milliseconds))
    errors: list[TidemarkError] = [*selected.errors]
    for definition in selected.definitions:
        try:
            _show(run, definition, report, shown_ranges if exact else [])
            target_check.require(run, definition, ledger(run, definition).standing())
            if verify:
                report.lines.append(f"  {mode_bucket.require_rows(run, definition)}")
        except NO_RETRY_HELPS as error:
            errors.append(error)
    rollups = []
    for rollup in selected.rollups:
        try:
            rollups.append(rollup_status.show(run, rollup, report.lines))
        except NO_RETRY_HELPS as error:
            errors.append(error)
    counts = {
        "projections": len(selected.definitions),
        "paused": sum(details["paused"] for details in [*report.details, *rollups]),
        "validated_buckets": len(report.ready),
        "open_pieces": sum(details["open"] for details in report.details),
    }
    return Outcome(
        RunState.FAILED if errors else RunState.DONE,
        counts=counts,
        lines=report.lines,
        error=all_of(errors),
        details={"projections": report.details, "rollups": rollups},
    )


def _show(
    run: RunContext, definition: Definition, report: _StatusReport, ranges: Sequence[SliceRange]
) -> None:
    """Add a projection to the report, with the lag of each range of slices in `ranges`."""
    settings = run.settings
    now_ms = to_millis(clock.now())
    pause = management_state.pause_state(OffsetStore.of(run, definition))
    ledger_state = ledger(run, definition).standing()
    entries, first_bucket = ledger_state.rows, ledger_state.known.first
    oldest = now_ms if first_bucket is None else first_bucket
    begin = history.begin_of(definition, settings.bucket_size)
    ready = ready_buckets(run, definition, oldest, now_ms).within(begin, 2**63 - 1)
    report.ready |= ready if definition.source.reads_journal else ()
    current = progress(
        entries,
        definition.fingerprint,
        ready,
        settings.bucket_size.milliseconds,
        ledger_state.spans,
    )
    estimates = Estimates.read(run, current.open_buckets)
    behind = estimates.of(current.open_buckets, is_by_tag=definition.source.reads_tag_views)
    lines = [f"{definition.name} version {definition.version}: {_summary(current)}"]
    lines += [f"  {pause}"] if pause.paused else []
    lines += _release_lines(run, definition)
    lines += _begin_lines(definition, ledger_state)
    lines += _lines(current, behind)
    missing_ranges = _missing(run, definition, entries)
    lines += _missing_lines(missing_ranges)
    details = {**_details(definition, current, behind), "paused": bool(pause.paused)}
    details["from"] = iso(definition.begin) if definition.begin else None
    details["begun"] = iso(from_millis(oldest)) if ledger_state else None
    details["missing"] = [_missing_details(gap) for gap in missing_ranges[:_MISSING_DETAILS]]
    details["missing_ranges"] = len(missing_ranges)
    if ranges:
        lags = lag.exact(run, definition, first_bucket)
        by_range = lag.by_range(lags, ranges)
        lines += _exact_lines(lags, by_range)
        details["behind"] = sum(slice_lag.behind for slice_lag in lags.values())
        details["slices"] = [
            _range_details(slice_range, range_lag) for slice_range, range_lag in by_range.items()
        ]
    report.lines += lines
    report.details.append(details)


def _release_lines(run: RunContext, definition: Definition) -> list[str]:
    if not definition.is_blue_green:
        return []
    live = live_release.live(run.control, run.settings, definition)
    validated = validated_buckets(run, run.settings)
    reason = live_release.why_not_live(run.control, run.settings, definition, live, validated)
    return [f"  {reason}"] if reason else []


def _begin_lines(definition: Definition, ledger_state: LedgerState) -> list[str]:
    stated = f", from {iso(definition.begin)}" if definition.begin else ""
    if history.has_begun(ledger_state):
        first_bucket = from_millis(ledger_state.known.ranges[0][0])
        return [f"  began with {first_bucket:%Y-%m-%d %H:%M}{stated}"]
    return [f"  not begun{stated or ': it begins with the first time bucket that there is'}"]


def _lines(current: ProjectionProgress, behind: Estimate) -> list[str]:
    lines = []
    if (oldest_open := current.open_buckets.first) is not None:
        first = from_millis(oldest_open)
        lines.append(f"  oldest open time bucket {first:%Y-%m-%d %H:%M}, lag {current.lag}")
        lines.append(f"  {behind} in open time buckets, by the ledger")
    if current.oldest_gap is not None:
        bucket, error = current.oldest_gap
        lines.append(
            f"  oldest gap {from_millis(bucket):%Y-%m-%d %H:%M}, age {current.gap_age}: {error}"
        )
    if current.last_error not in (None, current.oldest_gap):
        bucket, error = current.last_error or (0, "")
        lines.append(f"  {from_millis(bucket):%Y-%m-%d %H:%M}: {error}")
    return lines


def _missing(run: RunContext, definition: Definition, entries: Sequence[PieceRow]) -> list[Missing]:
    """Return the ranges of missing numbers for which pieces of a projection wait."""
    held_buckets = [entry.time_bucket for entry in entries if entry.has_gap]
    missing_by_bucket = missing_numbers.read(OffsetStore.of(run, definition), held_buckets)
    return sorted(
        {missing for missing_ranges in missing_by_bucket.values() for missing in missing_ranges}
    )


def _missing_lines(ranges: Sequence[Missing]) -> list[str]:
    if not ranges:
        return []
    hidden = len(ranges) - _MISSING_SHOWN
    return [
        f"  {counted(len(ranges), 'range')} of missing numbers, in the table projection_gap:",
        *(f"    {missing}" for missing in ranges[:_MISSING_SHOWN]),
        *([f"    and {hidden:,} more"] if hidden > 0 else []),
    ]


def _missing_details(missing: Missing) -> dict[str, Any]:
    return {
        "persistence_id": missing.persistence_id,
        "tag": missing.tag,
        "first": missing.first,
        "last": missing.last,
    }


def _exact_lines(lags: Mapping[int, Lag], by_range: Mapping[SliceRange, Lag]) -> list[str]:
    total = lag.merge(lags.values())
    return [
        f"  {counted(total.behind, 'event')} behind in {counted(len(lags), 'slice')},"
        f" lag {_time(total)}",
        *[
            f"  slices {slice_range.first:>4}..{slice_range.last:<4}"
            f"  {range_lag.behind:>12,} behind  lag {_time(range_lag)}"
            for slice_range, range_lag in by_range.items()
        ],
    ]


def _time(slice_lag: Lag) -> str:
    if slice_lag.is_begun:
        return str(slice_lag.time)
    return f"{slice_lag.time}, and slices not begun" if slice_lag.time else "unknown, not begun"


def _details(
    definition: Definition, current: ProjectionProgress, behind: Estimate
) -> dict[str, Any]:
    gap, error, oldest_open = current.oldest_gap, current.last_error, current.open_buckets.first
    return {
        "name": definition.name,
        "version": definition.version,
        "pieces": {str(state): number for state, number in current.states.items()},
        "open": len(current.open_buckets),
        "oldest_open": None if oldest_open is None else iso(from_millis(oldest_open)),
        "lag_seconds": int(current.lag.total_seconds()),
        "rows_estimated": behind.rows,
        "pieces_without_estimate": behind.unknown,
        "oldest_gap": iso(from_millis(gap[0])) if gap else None,
        "gap_age_seconds": int(current.gap_age.total_seconds()),
        "gap": gap[1] if gap else None,
        "last_error": {"time_bucket": iso(from_millis(error[0])), "error": error[1]}
        if error
        else None,
    }


def _range_details(slice_range: SliceRange, range_lag: Lag) -> dict[str, Any]:
    return {
        "first": slice_range.first,
        "last": slice_range.last,
        "behind": range_lag.behind,
        "lag_ms": range_lag.time // timedelta(milliseconds=1),
        "is_begun": range_lag.is_begun,
    }


def _summary(current: ProjectionProgress) -> str:
    parts = [f"{number:,} {state}" for state, number in sorted(current.states.items())]
    return ", ".join([*parts, f"{len(current.open_buckets):,} open"])
