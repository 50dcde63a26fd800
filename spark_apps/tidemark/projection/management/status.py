"""How the projections stand: what is done, what is open and why, and how far they lag.

Without Spark the lag in events is an estimate from the ledger; on request it is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tidemark import clock
from tidemark.context import Outcome, RunContext, RunState
from tidemark.errors import NO_RETRY_HELPS, TidemarkError, all_of
from tidemark.ledger.frontier.standing import Standing
from tidemark.ledger.pieces import PieceRow
from tidemark.partitioning.keys import SliceRange, slice_ranges
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.projection.definition.model import Definition
from tidemark.projection.management import lag, rollup_status
from tidemark.projection.management.lag import Lag
from tidemark.projection.management.selection import select_usable
from tidemark.projection.offset_store import management_state, missing_numbers
from tidemark.projection.offset_store.missing_numbers import Missing
from tidemark.projection.offset_store.offsets import OffsetStore
from tidemark.projection.planning import history, live_release, target_check
from tidemark.projection.planning.estimate import Estimate, Estimates
from tidemark.projection.planning.plan import ledger, ready_buckets, validated_buckets
from tidemark.projection.position.progress import Progress, progress
from tidemark.projection.writing import bucket as mode_bucket
from tidemark.text import counted
from tidemark.window import from_millis, iso, to_millis

_MISSING_SHOWN, _MISSING_DETAILS = 20, 1000


@dataclass
class _Shown:
    """What is reported of the projections, one after the other."""

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
    """Report the status of each projection; write nothing but Tidemark's own tables, if absent.

    A file that cannot be used, and a table that is not as the ledger says, are the outcome's error.

    Args:
        run: the context of the run.
        names: the projections; all if empty.
        exact: count the events that each slice is behind, with Spark.
        verify: count the rows of each time bucket of the read models, with Spark.
        ranges: the ranges of slices to show them by; a power of two up to 1024.

    Raises:
        InvalidInput: a projection is unknown, or the number of ranges is no power of two.
        SchemaMismatch: the journal's tables are missing or of another shape.
    """
    shown_ranges = slice_ranges(ranges)
    selected = select_usable(run, names, with_rollups=True)
    shown = _Shown(TimeBuckets([], run.settings.bucket_size.milliseconds))
    errors: list[TidemarkError] = [*selected.errors]
    for definition in selected.definitions:
        try:
            _show(run, definition, shown, shown_ranges if exact else [])
            target_check.require(run, definition, ledger(run, definition).standing())
            if verify:
                shown.lines.append(f"  {mode_bucket.require_rows(run, definition)}")
        except NO_RETRY_HELPS as error:
            errors.append(error)
    rollups = []
    for rollup in selected.rollups:
        try:
            rollups.append(rollup_status.show(run, rollup, shown.lines))
        except NO_RETRY_HELPS as error:
            errors.append(error)
    counts = {
        "projections": len(selected.definitions),
        "paused": sum(each["paused"] for each in [*shown.details, *rollups]),
        "validated_buckets": len(shown.ready),
        "open_pieces": sum(shown_projection["open"] for shown_projection in shown.details),
    }
    return Outcome(
        RunState.FAILED if errors else RunState.DONE,
        counts=counts,
        lines=shown.lines,
        error=all_of(errors),
        details={"projections": shown.details, "rollups": rollups},
    )


def _show(
    run: RunContext, definition: Definition, shown: _Shown, ranges: Sequence[SliceRange]
) -> None:
    """Add a projection to what is shown; with the lag of each range of slices, if there are any."""
    settings = run.settings
    now_ms = to_millis(clock.now())
    stands = management_state.pause_state(OffsetStore.of(run, definition))
    standing = ledger(run, definition).standing()
    entries, begun = standing.rows, standing.known.first
    oldest = now_ms if begun is None else begun
    begin = history.begin_of(definition, settings.bucket_size)
    passed_by = ready_buckets(run, definition, oldest, now_ms).within(begin, 2**63 - 1)
    shown.ready |= passed_by if definition.source.reads_journal else ()
    now = progress(
        entries,
        definition.fingerprint,
        passed_by,
        settings.bucket_size.milliseconds,
        standing.spans,
    )
    estimates = Estimates.read(run, now.open_buckets)
    behind = estimates.of(now.open_buckets, is_by_tag=definition.source.reads_tag_views)
    lines = [f"{definition.name} version {definition.version}: {_summary(now)}"]
    lines += [f"  {stands}"] if stands.paused else []
    lines += _release_lines(run, definition)
    lines += _begin_lines(definition, standing)
    lines += _lines(now, behind)
    waits = _missing(run, definition, entries)
    lines += _missing_lines(waits)
    details = {**_details(definition, now, behind), "paused": bool(stands.paused)}
    details["from"] = iso(definition.begin) if definition.begin else None
    details["begun"] = iso(from_millis(oldest)) if standing else None
    details["missing"] = [_missing_details(missing) for missing in waits[:_MISSING_DETAILS]]
    details["missing_ranges"] = len(waits)
    if ranges:
        lags = lag.exact(run, definition, begun)
        by_range = lag.by_range(lags, ranges)
        lines += _exact_lines(lags, by_range)
        details["behind"] = sum(slice_lag.behind for slice_lag in lags.values())
        details["slices"] = [
            _range_details(slice_range, range_lag) for slice_range, range_lag in by_range.items()
        ]
    shown.lines += lines
    shown.details.append(details)


def _release_lines(run: RunContext, definition: Definition) -> list[str]:
    if not definition.is_blue_green:
        return []
    now = live_release.live(run.control, run.settings, definition)
    passed = validated_buckets(run, run.settings)
    reason = live_release.why_not_live(run.control, run.settings, definition, now, passed)
    return [f"  {reason}"] if reason else []


def _begin_lines(definition: Definition, standing: Standing) -> list[str]:
    stated = f", from {iso(definition.begin)}" if definition.begin else ""
    if history.has_begun(standing):
        begun = from_millis(standing.known.ranges[0][0])
        return [f"  began with {begun:%Y-%m-%d %H:%M}{stated}"]
    return [f"  not begun{stated or ': it begins with the first time bucket that there is'}"]


def _lines(now: Progress, behind: Estimate) -> list[str]:
    lines = []
    if (oldest_open := now.open_buckets.first) is not None:
        first = from_millis(oldest_open)
        lines.append(f"  oldest open time bucket {first:%Y-%m-%d %H:%M}, lag {now.lag}")
        lines.append(f"  {behind} in open time buckets, by the ledger")
    if now.oldest_gap is not None:
        bucket, error = now.oldest_gap
        lines.append(
            f"  oldest gap {from_millis(bucket):%Y-%m-%d %H:%M}, age {now.gap_age}: {error}"
        )
    if now.last_error not in (None, now.oldest_gap):
        bucket, error = now.last_error or (0, "")
        lines.append(f"  {from_millis(bucket):%Y-%m-%d %H:%M}: {error}")
    return lines


def _missing(run: RunContext, definition: Definition, entries: Sequence[PieceRow]) -> list[Missing]:
    """Return what the held pieces of a projection wait for, each range once."""
    held_buckets = [entry.time_bucket for entry in entries if entry.has_gap]
    missing_by_bucket = missing_numbers.read(OffsetStore.of(run, definition), held_buckets)
    return sorted(
        {missing for missing_ranges in missing_by_bucket.values() for missing in missing_ranges}
    )


def _missing_lines(waits: Sequence[Missing]) -> list[str]:
    if not waits:
        return []
    more = len(waits) - _MISSING_SHOWN
    return [
        f"  {counted(len(waits), 'range')} of missing numbers, in the table projection_gap:",
        *(f"    {missing}" for missing in waits[:_MISSING_SHOWN]),
        *([f"    and {more:,} more"] if more > 0 else []),
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


def _details(definition: Definition, now: Progress, behind: Estimate) -> dict[str, Any]:
    gap, error, oldest_open = now.oldest_gap, now.last_error, now.open_buckets.first
    return {
        "name": definition.name,
        "version": definition.version,
        "pieces": {str(state): number for state, number in now.states.items()},
        "open": len(now.open_buckets),
        "oldest_open": None if oldest_open is None else iso(from_millis(oldest_open)),
        "lag_seconds": int(now.lag.total_seconds()),
        "rows_estimated": behind.rows,
        "pieces_without_estimate": behind.unknown,
        "oldest_gap": iso(from_millis(gap[0])) if gap else None,
        "gap_age_seconds": int(now.gap_age.total_seconds()),
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


def _summary(now: Progress) -> str:
    parts = [f"{number:,} {state}" for state, number in sorted(now.states.items())]
    return ", ".join([*parts, f"{len(now.open_buckets):,} open"])
