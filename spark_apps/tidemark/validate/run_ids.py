"""The run of validate over some persistence ids; it marks no time bucket as passed."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import functions as F

from tidemark.application import preflight
from tidemark.context import Outcome, RunContext, RunState
from tidemark.journals.r2dbc.series import unknown_ids
from tidemark.validate import run_findings, store
from tidemark.validate.findings.checks import SEQUENCE_NR_LOST_TAIL
from tidemark.validate.plan import JudgedBuckets
from tidemark.validate.r2dbc import inspect as r2dbc
from tidemark.validate.reading.inspection import Inspection, inspect_scope, kept_frames
from tidemark.validate.reading.source import of_ids
from tidemark.validate.scope import Scope, reject_unknown, require_known


def run_ids(run: RunContext, scope: Scope, *, dry_run: bool) -> Outcome:
    """Check all events and rows of some persistence ids, in the time buckets that can be judged.

    The findings replace earlier findings of these persistence ids. The ledger is not changed, and
    no lock is taken. If a check fails, the outcome is FAILED with a `ValidationFailed`.
    """
    preflight.check_journal(run)
    if run.settings.is_r2dbc:
        _require_known_rows(run, scope)
    else:
        require_known(run, scope)
    lines = [f"looks at {scope}, in every time bucket; none is marked as passed"]
    if dry_run:
        return Outcome(RunState.PLANNED, lines=lines, details=scope.details())
    with kept_frames() as keep:
        if run.settings.is_r2dbc:
            newest = r2dbc.newest_bucket(run)
            inspection = r2dbc.inspect_scope(run, scope, keep)
            _replace(run, scope, inspection, lambda bucket: bucket <= newest)
        else:
            judged = JudgedBuckets.until_now(run)
            inspection = inspect_scope(run, scope, judged)
            _replace(run, scope, inspection, lambda bucket: bucket in judged)
        findings = run_findings.read(run_findings.counted_of(inspection))
    checked = {bucket for counts in inspection.read_counts.values() for bucket in counts}
    bucket_count = len(checked | findings.bad_buckets())
    error = run_findings.failure(run, findings, bucket_count, None) if findings.by_check else None
    return Outcome(
        RunState.DONE if error is None else RunState.FAILED,
        counts=findings.totals(),
        lines=[*lines, *findings.lines()],
        error=error,
        details=scope.details(),
    )


def _replace(
    run: RunContext, scope: Scope, inspection: Inspection, is_past: Callable[[int], bool]
) -> None:
    """Replace the findings of the scope in the time buckets (epoch ms) that are judged."""
    check_names = [check.name for check in inspection.checks]
    store.replace(
        run,
        inspection.all_findings,
        inspection.checks,
        lambda stored: of_ids(run, stored.where(F.col("check_name").isin(*check_names)), scope),
        # Each run reports a lost tail without a time in another time bucket.
        is_judged=lambda row: (
            is_past(row["time_bucket"]) or row["check_name"] == SEQUENCE_NR_LOST_TAIL.name
        ),
    )


def _require_known_rows(run: RunContext, scope: Scope) -> None:
    """Reject persistence ids without any row in a journal in PostgreSQL.

    Raises:
        InvalidInput: some are unknown; the message names them.
    """
    reject_unknown(
        run, "persistence id", unknown_ids(run.settings, sorted(scope.persistence_ids or ()))
    )
