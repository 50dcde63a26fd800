"""The run of validate over some persistence ids; it marks no time bucket as passed."""

from __future__ import annotations

from pyspark.sql import functions as F

from tidemark.application import preflight
from tidemark.context import Outcome, RunContext, RunState
from tidemark.validate import run_findings, store
from tidemark.validate.findings.checks import CHECKS, SEQUENCE_NR_LOST_TAIL
from tidemark.validate.plan import JudgedBuckets
from tidemark.validate.reading.inspection import inspect_scope
from tidemark.validate.reading.source import of_ids
from tidemark.validate.scope import Scope, require_known


def run_ids(run: RunContext, scope: Scope, *, dry_run: bool) -> Outcome:
    """Check all events and rows of some persistence ids, in the time buckets that can be judged.

    The findings replace earlier findings of these persistence ids. The ledger is not changed, and
    no lock is taken. If a check fails, the outcome is FAILED with a `ValidationFailed`.
    """
    preflight.check_journal(run)
    require_known(run, scope)
    lines = [f"looks at {scope}, in every time bucket; none is marked as passed"]
    if dry_run:
        return Outcome(RunState.PLANNED, lines=lines, details=scope.details())
    judged = JudgedBuckets.until_now(run)
    inspection = inspect_scope(run, scope, judged)
    check_names = [check.name for check in CHECKS]
    store.replace(
        run,
        inspection.all_findings,
        CHECKS,
        lambda stored: of_ids(run, stored.where(F.col("check_name").isin(*check_names)), scope),
        # Each run reports a lost tail without a time in another time bucket.
        is_judged=lambda row: (
            row["time_bucket"] in judged or row["check_name"] == SEQUENCE_NR_LOST_TAIL.name
        ),
    )
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
