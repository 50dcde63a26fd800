"""purge from plan to report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from tidemark import preflight
from tidemark.application import DONE, NOTHING, PLANNED, Outcome, Run
from tidemark.journal import tables
from tidemark.ledger import applications, audit
from tidemark.ledger.claim import claim
from tidemark.ledger.pieces import Piece, Pieces, State
from tidemark.projection.frontier import needs_of_projections
from tidemark.retention import store
from tidemark.retention.plan import Bucket, describe, plan_purge
from tidemark.window import Window, to_millis

APPLICATION = applications.PURGE


def run_window(run: Run, window: Window, *, retention_days: int | None, apply: bool) -> Outcome:
    """Delete the window's tag-view buckets that are past retention and that nobody needs.

    Args:
        run: the application's frame.
        window: whole time buckets that are over.
        retention_days: buckets that ended less than this ago stay; by default the setting.
        apply: delete; otherwise only the plan is shown. Both leave an audit row.

    Raises:
        InvalidInput: the window does not fit the bucket size, or lies in the future.
        SchemaMismatch: the journal's tables are missing or of another shape.
        BucketSizeMismatch: the existing tag views have another bucket size.
        DefinitionError: a projection file cannot be read, so that its needs are unknown.
        LockHeld: another run works on one of the days.
    """
    settings = run.settings
    preflight.check(run, window)
    kept_since = datetime.now(UTC) - timedelta(days=retention_days or settings.retention_days)
    ledger = Pieces(run.control, settings.keyspace, APPLICATION, settings.journal_keyspace)
    plan = plan_purge(
        store.partitions(run.control, settings),
        window,
        bucket_ms=settings.bucket_size.milliseconds,
        oldest_kept=to_millis(kept_since),
        needs=needs_of_projections(run.control, settings),
        unfinished=[e.time_bucket for e in ledger.entries() if e.state is not State.DONE],
    )
    doomed = {bucket.time_bucket: bucket for bucket in plan if not bucket.kept_because}
    lines = [describe(bucket) for bucket in plan]
    totals = {
        "buckets_purged": len(doomed),
        "partitions_deleted": sum(len(bucket.tags) for bucket in doomed.values()),
        "buckets_kept": len(plan) - len(doomed),
    }
    if not apply:
        planned = totals | {"buckets_purged": 0, "partitions_deleted": 0}
        _audit(run, "purge", lines, planned, dry_run=True)
        return Outcome(PLANNED, {"planned": len(doomed)}, planned, [*lines, _how_to_apply(doomed)])
    pieces = ledger.plan(doomed, force=True)
    if not pieces:
        return Outcome(NOTHING, {}, totals, lines or ["no tag-view bucket has rows in the window"])
    _audit(run, "purge started", lines, totals, dry_run=False)
    _purge(run, ledger, pieces, doomed)
    _audit(run, "purge", lines, totals, dry_run=False)
    return Outcome(DONE, {"planned": len(pieces), "done": len(pieces)}, totals, lines)


def _purge(run: Run, ledger: Pieces, pieces: Sequence[Piece], doomed: Mapping[int, Bucket]) -> None:
    with claim(
        run.control,
        run.settings,
        ledger,
        pieces,
        # The same resource as tag-write's: a bucket is never written and deleted at once.
        resource=f"{tables.TAG_VIEWS}/{run.settings.journal_keyspace}",
        owner=run.owner,
        run_id=run.run_id,
    ) as claimed:
        claimed.check()
        store.delete_partitions(
            run.control,
            run.settings,
            [(tag, bucket.time_bucket) for bucket in doomed.values() for tag in bucket.tags],
        )
        claimed.finish(
            State.DONE,
            {key: {"partitions_deleted": len(bucket.tags)} for key, bucket in doomed.items()},
        )


def _audit(
    run: Run, operation: str, lines: Sequence[str], counts: Mapping[str, int], *, dry_run: bool
) -> None:
    audit.record(
        run.control,
        run.settings.keyspace,
        application=APPLICATION,
        operation=operation,
        subject=run.settings.journal_keyspace,
        owner=run.owner,
        run_id=run.run_id,
        dry_run=dry_run,
        plan="\n".join(lines),
        counts=counts,
    )


def _how_to_apply(doomed: Mapping[int, Bucket]) -> str:
    if not doomed:
        return "nothing would be purged"
    return f"dry run: nothing was deleted; --apply would purge these {len(doomed)} buckets"
