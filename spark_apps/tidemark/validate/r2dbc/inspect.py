"""The inspection of a journal in PostgreSQL: reads its rows once, and writes nothing.

A check of some time buckets is conclusive without the rows of other times, since the row before
each of theirs is read by the primary key.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.context import RunContext
from tidemark.journals.pekko.shapes import TAG_ROWS
from tidemark.journals.r2dbc import frames, neighbours, snapshots
from tidemark.journals.r2dbc.shapes import RANGES, ROWS
from tidemark.journals.r2dbc.tables import has_snapshots, require_snapshots
from tidemark.ledger.piece import GAP_ERROR
from tidemark.partitioning.keys import time_bucket
from tidemark.partitioning.slice_ranges import ALL
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import ddl, shaped
from tidemark.text import counted
from tidemark.validate import shapes
from tidemark.validate.findings import finding
from tidemark.validate.journal_wide.snapshot_tails import snapshots_beyond
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET
from tidemark.validate.plan import PendingTagWrites, ValidationScope
from tidemark.validate.r2dbc import checks, rules
from tidemark.validate.reading.inspection import (
    Examined,
    Inspection,
    InspectionRequest,
    Keep,
    of_nothing,
    rows_by_bucket,
    with_user_checks,
)
from tidemark.validate.reading.source import ids_of, of_ids
from tidemark.validate.scope import Scope
from tidemark.validate.user_checks.definition import UserCheck
from tidemark.validate.user_checks.evaluate import require_usable
from tidemark.window import to_millis

_MOST_RANGES = 16
"""Ranges of time buckets that are read one by one; more are read as one range."""
_ALL_NUMBERS = (0, 2**63 - 1)
_SAME = ("time_bucket", "check_name", "persistence_id", "number")


def inspect(
    run: RunContext, buckets: Examined, user_checks: Sequence[UserCheck], keep: Keep
) -> Inspection:
    """Inspect time buckets, and passed time buckets within TIDEMARK_R2DBC_LOOK_BACK before them.

    Events of the latter may have been committed after their time bucket passed. `keep` is the
    function that `kept_frames` yields.
    """
    require_usable(run.spark, user_checks)
    planned = [piece.time_bucket for piece in buckets.pieces]
    size = run.settings.bucket_size.milliseconds
    named = TimeBuckets.of(planned, size) | buckets.again
    is_full = buckets.scope is ValidationScope.ALL
    newest_snapshots = None
    outside = keep(neighbours.outside_slices(run.spark, run.settings))
    if is_full:
        run.say("a full check: it was asked for")
        newest_snapshots = _snapshots(run, keep)
        judged = named
        rows = _rows_of_all(run, outside)
    else:
        run.say("reading the rows of the time buckets")
        look_back = run.settings.r2dbc_look_back * 1000
        ranges = TimeBuckets(((first - look_back, end) for first, end in named.ranges), size).ranges
        before = ((time_bucket(first, run.settings.bucket_size), end) for first, end in ranges)
        judged = named | (buckets.passed & TimeBuckets(before, size))
        rows = _rows_between(run, ranges, outside)
    rows = keep(rows)
    # Read before the rows that are compared with it.
    rows.count()
    found = [
        finding.within(_found(run, rows, keep), judged),
        finding.within(rules.crowded_times(rows), judged),
        finding.within(rules.misplaced(outside), judged),
        rules.in_future(_in_future(run)),
    ]
    if newest_snapshots is not None:
        found.append(_beyond(run, newest_snapshots, rows))
    events = frames.events(rows)
    no_tag_rows = local_rows(run.spark, [], ddl(TAG_ROWS))
    inspection = replace(
        of_nothing(run),
        scope=ValidationScope.ALL if is_full else ValidationScope.NEW,
        why="it was asked for" if is_full else "",
        checks=(*checks.CHECKS, *(check.check for check in user_checks)),
        read_counts=rows_by_bucket(events, no_tag_rows, named),
        complete_checks=_complete_checks(is_full=is_full),
    ).plus(run, _all_of(found, keep), [*planned, NO_TIME_BUCKET])
    since_ms = to_millis(clock.now()) - run.settings.r2dbc_look_back * 1000
    inspection = _with_held(inspection, since_ms, keep)
    # There are no tag views, so that nothing waits for tag-write.
    request = InspectionRequest(run, planned, PendingTagWrites(), user_checks, keep)
    return with_user_checks(request, named, events, no_tag_rows, inspection)


def _with_held(inspection: Inspection, since_ms: int, keep: Keep) -> Inspection:
    """Turn findings of numbers that may be committed yet into time buckets that wait for them.

    At most those of TIDEMARK_R2DBC_LOOK_BACK wait, so that the driver has a row for each.
    """
    findings = keep(inspection.findings)
    may_come = rules.may_be_committed(since_ms) & F.col("reason").isNull()
    held = {
        row["time_bucket"]: (
            f"{GAP_ERROR} {counted(row['findings'], 'place')} with missing events, which may be"
            f" committed yet; first: {finding.line(row['first'].asDict())}"
        )
        for row in rules.held_buckets(findings.where(may_come)).collect()
    }
    return replace(inspection, findings=findings.where(~may_come), held=held)


def inspect_scope(run: RunContext, scope: Scope, keep: Keep) -> Inspection:
    """Inspect all rows of a scope's persistence ids or slices in the time buckets that are past."""
    newest = newest_bucket(run)
    newest_snapshots = _snapshots(run, keep, scope)
    outside = keep(neighbours.outside_slices(run.spark, run.settings))
    rows = keep(_rows_of_scope(run, scope, outside))
    rows.count()
    is_past = F.col("time_bucket") <= newest
    found = [
        _found(run, rows, keep).where(is_past),
        of_ids(run, rules.misplaced(outside), scope).where(is_past),
        rules.in_future(of_ids(run, _in_future(run), scope)),
    ]
    if newest_snapshots is not None:
        found.append(_beyond(run, newest_snapshots, rows))
    events = frames.events(rows)
    times = events.where(is_past).select("time_bucket").distinct().collect()
    buckets = sorted(row["time_bucket"] for row in times)
    return replace(
        of_nothing(run),
        checks=checks.CHECKS,
        read_counts=rows_by_bucket(events, local_rows(run.spark, [], ddl(TAG_ROWS)), buckets),
    ).plus(run, _all_of(found, keep), [*buckets, NO_TIME_BUCKET])


def newest_bucket(run: RunContext) -> int:
    """Return the newest time bucket (epoch ms) that is past by TIDEMARK_R2DBC_DELAY."""
    settings = run.settings
    end = to_millis(clock.now()) - round(settings.r2dbc_delay * 1000)
    return time_bucket(end, settings.bucket_size) - settings.bucket_size.milliseconds


def _complete_checks(*, is_full: bool) -> list[str]:
    """Return the checks without a time bucket that a run has made on the complete journal."""
    full = [checks.SNAPSHOT_BEYOND_EVENTS.name] if is_full else []
    return [checks.EVENTS_IN_FUTURE.name, *full]


@shaped(returns=shapes.FINDINGS)
def _all_of(parts: Sequence[DataFrame], keep: Keep) -> DataFrame:
    return keep(finding.one_of_each(reduce(DataFrame.unionByName, parts)))


@shaped(rows=ROWS, returns=shapes.FINDINGS)
def _found(run: RunContext, rows: DataFrame, keep: Keep) -> DataFrame:
    """Return the findings of rows and their predecessors that a second read confirms.

    Actors write and delete between the read of the rows and that of their predecessors.
    """
    findings = keep(_row_findings(run, rows))
    is_of_row = F.col("check_name").isin(checks.WRONG_SLICE.name, checks.WRONG_ENTITY_TYPE.name)
    suspects = findings.where(~is_of_row).select("persistence_id", "sequence_nr").distinct()
    suspects = suspects.localCheckpoint()
    if suspects.isEmpty():
        return findings
    number = F.col("sequence_nr")
    ranges = suspects.select("persistence_id", number.alias("first_nr"), number.alias("last_nr"))
    again = frames.rows_of(ranges, run.settings).localCheckpoint()
    confirmed = _row_findings(run, again).select(*_SAME).localCheckpoint()
    return findings.where(is_of_row).unionByName(
        findings.where(~is_of_row).join(confirmed, on=[*_SAME], how="left_semi")
    )


@shaped(rows=ROWS, returns=shapes.FINDINGS)
def _row_findings(run: RunContext, rows: DataFrame) -> DataFrame:
    followed = rules.followed(rows)
    unknown = rules.without_predecessor(followed).localCheckpoint()
    read = neighbours.predecessors(unknown, run.settings).localCheckpoint()
    return rules.row_findings(rules.with_read(followed, read))


@shaped(outside=ROWS, returns=ROWS)
def _rows_between(
    run: RunContext, ranges: Sequence[tuple[int, int]], outside: DataFrame
) -> DataFrame:
    """Read the rows of time ranges (epoch ms), and add those of slices without readers."""
    if len(ranges) > _MOST_RANGES:
        ranges = [(ranges[0][0], ranges[-1][1])]
    parts = [frames.rows_between(run.spark, run.settings, *times) for times in ranges]
    return reduce(DataFrame.unionByName, [*parts, outside])


@shaped(outside=ROWS, returns=ROWS)
def _rows_of_all(run: RunContext, outside: DataFrame) -> DataFrame:
    times = frames.read_times(run.settings)
    return _rows_between(run, [] if times is None else [(times[0], times[1] + 1)], outside)


@shaped(outside=ROWS, returns=ROWS)
def _rows_of_scope(run: RunContext, scope: Scope, outside: DataFrame) -> DataFrame:
    if scope.persistence_ids is not None:
        first, last = (F.lit(number).cast("bigint") for number in _ALL_NUMBERS)
        ids = ids_of(run, scope.persistence_ids)
        ranges = ids.select("persistence_id", first.alias("first_nr"), last.alias("last_nr"))
        return frames.rows_of(ranges.select(*RANGES), run.settings)
    first_ms, last_ms = frames.read_times(run.settings) or (0, -1)
    rows = frames.rows_between(
        run.spark, run.settings, first_ms, last_ms + 1, slices=scope.slices or ALL
    )
    return of_ids(run, rows.unionByName(outside), scope)


@shaped(returns=ROWS)
def _in_future(run: RunContext) -> DataFrame:
    tolerance_ms = round(run.settings.r2dbc_delay * 1000)
    return neighbours.rows_in_future(run.spark, run.settings, tolerance_ms)


def _snapshots(run: RunContext, keep: Keep, scope: Scope | None = None) -> DataFrame | None:
    """Read the numbers of the snapshots, all or of a scope, before the events.

    Raises:
        InvalidInput: the user of the connection may not read a table of snapshots.
        SchemaMismatch: the table of a data partition is absent, or lacks a column.
    """
    settings = run.settings
    if not has_snapshots(settings):
        return None
    require_snapshots(settings)
    names: Collection[str] | None = None if scope is None else scope.persistence_ids
    ids = None if names is None else ids_of(run, names)
    slices = (scope.slices if scope is not None else None) or ALL
    newest = keep(snapshots.index(run.spark, settings, ids, slices))
    newest.count()
    return newest


@shaped(rows=ROWS, returns=shapes.FINDINGS)
def _beyond(run: RunContext, newest: DataFrame, rows: DataFrame) -> DataFrame:
    """Find snapshots after the last of all rows; a marker is a row as well."""
    return snapshots_beyond(newest, frames.events(rows), frames.deletions(rows))
