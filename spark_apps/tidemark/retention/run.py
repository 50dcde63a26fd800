"""purge from plan to report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import islice

from tidemark import clock, preflight
from tidemark.application import DONE, NOTHING, PLANNED, Outcome, Run
from tidemark.errors import TidemarkError
from tidemark.journal import tables
from tidemark.ledger import applications, audit
from tidemark.ledger.claim import claim
from tidemark.ledger.pieces import Piece, Pieces, State
from tidemark.projection.frontier import needs_of_projections
from tidemark.retention import store
from tidemark.retention.plan import Bucket, describe, plan_purge
from tidemark.window import Window, to_millis

APPLICATION = applications.PURGE
_DELETED_AT_ONCE = 100
"""Partitions that are deleted between two looks at the locks."""


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
    preflight.check(run, window)
    kept_since = clock.now() - timedelta(days=retention_days or run.settings.retention_days)
    settings = run.settings
    ledger = Pieces(
        run.control,
        settings.keyspace,
        APPLICATION,
        settings.journal_keyspace,
        settings.bucket_size,
    )
    unfinished = {e.time_bucket for e in ledger.entries() if e.state is not State.DONE}

    def plan_now() -> list[Bucket]:
        return plan_purge(
            store.partitions(run.control, run.settings),
            window,
            bucket_ms=run.settings.bucket_size.milliseconds,
            oldest_kept=to_millis(kept_since),
            needs=needs_of_projections(run.control, run.settings),
            unfinished=unfinished,
        )

    plan = plan_now()
    lines = [describe(bucket) for bucket in plan]
    totals, journal = _totals(plan), run.settings.journal_keyspace
    if not apply:
        planned = totals | {"buckets_purged": 0, "partitions_deleted": 0}
        audit.record(run, "purge", journal, lines, planned, dry_run=True)
        doomed = totals["buckets_purged"]
        return Outcome(PLANNED, {"planned": doomed}, planned, [*lines, _how_to_apply(doomed)])
    # A run that died after its last delete left pieces without rows: only their end is missing.
    to_end = set(_doomed(plan)) | (unfinished - {bucket.time_bucket for bucket in plan})
    pieces = [p for p in ledger.plan(to_end, force=True) if p.time_bucket in to_end]
    if not pieces:
        return Outcome(NOTHING, {}, totals, lines or ["no tag-view bucket has rows in the window"])
    audit.record(run, "purge started", journal, lines, totals)
    _purge(run, ledger, pieces, plan, plan_now)
    audit.record(run, "purge", journal, lines, totals)
    return Outcome(DONE, {"planned": len(pieces), "done": len(pieces)}, totals, lines)


def _purge(
    run: Run,
    ledger: Pieces,
    pieces: Sequence[Piece],
    plan: Sequence[Bucket],
    plan_now: Callable[[], Sequence[Bucket]],
) -> None:
    with claim(
        run.control,
        run.settings,
        ledger,
        pieces,
        # The same resource as tag-write's: a bucket is never written and deleted at once.
        resource=tables.lock_of(run.settings),
        owner=run.owner,
        run_id=run.run_id,
        on_lost=run.stop_jobs,
    ) as claimed:
        if plan_now() != plan:
            raise TidemarkError(
                "tag views or projections moved between the plan and the locks",
                where=run.settings.journal_keyspace,
                do="nothing was deleted; run again",
            )
        doomed = _doomed(plan)
        places = ((tag, one.time_bucket) for one in doomed.values() for tag in one.tags)
        while part := list(islice(places, _DELETED_AT_ONCE)):
            # What was lost meanwhile may be written by others now.
            claimed.check()
            store.delete_partitions(run.control, run.settings, part)
        claimed.finish(
            State.DONE,
            {key: {"partitions_deleted": len(bucket.tags)} for key, bucket in doomed.items()},
        )


def _doomed(plan: Sequence[Bucket]) -> dict[int, Bucket]:
    return {bucket.time_bucket: bucket for bucket in plan if not bucket.kept_because}


def _totals(plan: Sequence[Bucket]) -> dict[str, int]:
    doomed = _doomed(plan)
    return {
        "buckets_purged": len(doomed),
        "partitions_deleted": sum(len(bucket.tags) for bucket in doomed.values()),
        "buckets_kept": len(plan) - len(doomed),
    }


def _how_to_apply(doomed: int) -> str:
    if not doomed:
        return "nothing would be purged"
    return f"dry run: nothing was deleted; --apply would purge these {doomed} buckets"
