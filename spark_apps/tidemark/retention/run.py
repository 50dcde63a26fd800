"""purge from plan to report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import islice

from tidemark import clock
from tidemark.application import preflight
from tidemark.application.guarded_change import EnsureLocked, Plan, apply_plan, show_plan
from tidemark.context import Outcome, PieceCounts, RunContext
from tidemark.errors import InvalidInput, TidemarkError
from tidemark.journal import tables, tag_views
from tidemark.ledger import applications
from tidemark.ledger.claim import claim
from tidemark.ledger.pieces import Piece, Pieces, State
from tidemark.ledger.schedule import time_buckets
from tidemark.retention.needs import readers
from tidemark.retention.needs.give_up import GivenUp, find_given_up
from tidemark.retention.needs.tag_views import absent_lines, all_needs
from tidemark.retention.plan import Bucket, describe, plan_purge
from tidemark.settings import Settings
from tidemark.window import Window, to_millis

APPLICATION = applications.PURGE
_DELETED_AT_ONCE = 100
"""Partitions that are deleted between two looks at the locks."""


@dataclass(frozen=True)
class PurgeRequest:
    """What somebody wants to be purged.

    Attributes:
        window: whole time buckets that are over; None for all that is past its retention.
        retention_days: buckets that ended less than this ago stay; by default the setting.
        below_retention: the retention may be shorter than the setting.
        give_up: projections without a file, whose pieces are dropped, and other readers, whose rows
            are: they need nothing any more.
        apply: delete; otherwise only the plan is shown. Both leave an audit row.
    """

    window: Window | None = None
    retention_days: int | None = None
    below_retention: bool = False
    give_up: Sequence[str] = ()
    apply: bool = False


def run_purge(run: RunContext, order: PurgeRequest) -> Outcome:
    """Delete the tag-view buckets that are past retention and that nobody needs.

    Raises:
        InvalidInput: the window does not fit the bucket size, or lies in the future; the retention
            is below the setting's and nobody said that it may be; a projection that is given up
            has a file, or never ran.
        SchemaMismatch: the journal's tables are missing or of another shape.
        BucketSizeMismatch: the existing tag views have another bucket size.
        DefinitionError: a projection file cannot be read, so that its needs are unknown.
        LockHeld: another run works on one of the days.
    """
    days = _retention(order, run.settings)
    if order.window is None:
        preflight.check_journal(run)
    else:
        preflight.check(run, order.window)
    kept_since = clock.now() - timedelta(days=days)
    settings = run.settings
    ledger = Pieces.of(run.control, settings, APPLICATION)
    unfinished = {piece.time_bucket for piece in ledger.standing().open_rows}
    given_up = find_given_up(run, order.give_up)

    known_tags: set[str] = set()

    def plan_now() -> list[Bucket]:
        return plan_purge(
            _noted(tag_views.partitions(run.control, settings), known_tags),
            order.window,
            bucket_ms=settings.bucket_size.milliseconds,
            oldest_kept=to_millis(kept_since),
            needs=all_needs(run.control, settings, order.give_up),
            unfinished=unfinished,
        )

    buckets = plan_now()
    doomed, totals = _doomed(buckets), _totals(buckets)
    # A run that died after its last delete left pieces without rows: only their end is missing.
    to_end = set(doomed) | (unfinished - {bucket.time_bucket for bucket in buckets})
    pieces = [p for p in ledger.plan(to_end, force=True) if p.time_bucket in to_end]
    lines = [
        *given_up.lines(),
        *_lines(buckets, order),
        *absent_lines(run, order.give_up),
        *_reader_lines(run, order, known_tags),
    ]
    plan = Plan(
        totals,
        lines or ["no tag-view bucket is past its retention"],
        partial(_purge, run, given_up, doomed, totals) if pieces or given_up else None,
    )
    if not order.apply:
        counts = totals | {"buckets_purged": 0, "partitions_deleted": 0}
        shown = show_plan(run, APPLICATION, settings.journal_keyspace, plan)
        return replace(shown, pieces=PieceCounts(len(doomed)), counts=counts)
    return _apply(run, ledger, pieces, plan, doomed, lambda: plan_now() == buckets)


def _apply(
    run: RunContext,
    ledger: Pieces,
    pieces: Sequence[Piece],
    plan: Plan,
    doomed: Mapping[int, Bucket],
    is_still_planned: Callable[[], bool],
) -> Outcome:
    journal = run.settings.journal_keyspace
    with claim(
        run,
        ledger,
        pieces,
        # The same resource as tag-write's: a bucket is never written and deleted at once.
        resource=tables.lock_of(run.settings),
        # What may be deleted is planned anew each time.
        remember=False,
    ) as claimed:
        if plan.apply is not None and not is_still_planned():
            raise TidemarkError(
                "tag views or projections moved between the plan and the locks",
                where=journal,
                do="nothing was deleted; run again",
            )
        outcome = apply_plan(run, APPLICATION, journal, plan, claimed.check)
        claimed.finish(
            State.DONE,
            {key: {"partitions_deleted": len(bucket.tags)} for key, bucket in doomed.items()},
        )
    return replace(outcome, pieces=PieceCounts(len(pieces), len(pieces)))


def _retention(order: PurgeRequest, settings: Settings) -> int:
    days = order.retention_days or settings.retention_days
    if days < settings.retention_days and not order.below_retention:
        raise InvalidInput(
            f"{days} days are less than the {settings.retention_days} of TIDEMARK_RETENTION_DAYS",
            where="--retention-days",
            do="keep that long; or say with --below-retention that it is meant so",
        )
    return days


def _noted(partitions: Iterable[tuple[str, int]], tags: set[str]) -> Iterator[tuple[str, int]]:
    for tag, time_bucket in partitions:
        tags.add(tag)
        yield tag, time_bucket


def _reader_lines(run: RunContext, order: PurgeRequest, known_tags: Collection[str]) -> list[str]:
    return readers.lines(
        [
            reader
            for reader in readers.readers_of(run.control, run.settings, order.give_up)
            if reader.source in (readers.Source.TAG, None)
        ],
        known_tags,
    )


def _lines(plan: Sequence[Bucket], order: PurgeRequest) -> list[str]:
    """Each time bucket; without a window, what is kept is only counted by reason."""
    if order.window is not None:
        return [describe(bucket) for bucket in plan]
    kept = Counter(bucket.kept_because for bucket in plan if bucket.kept_because)
    lines = [describe(bucket) for bucket in plan if not bucket.kept_because]
    return lines + [
        f"keep {time_buckets(number)}: {reason}" for reason, number in sorted(kept.items())
    ]


def _purge(
    run: RunContext,
    given_up: GivenUp,
    doomed: Mapping[int, Bucket],
    totals: Mapping[str, int],
    ensure_locked: EnsureLocked,
) -> Mapping[str, int]:
    given_up.forget(run)
    places = ((tag, bucket.time_bucket) for bucket in doomed.values() for tag in bucket.tags)
    while part := list(islice(places, _DELETED_AT_ONCE)):
        # What was lost meanwhile may be written by others now.
        ensure_locked()
        tag_views.delete_partitions(run.control, run.settings, part)
    return totals


def _doomed(plan: Sequence[Bucket]) -> dict[int, Bucket]:
    return {bucket.time_bucket: bucket for bucket in plan if not bucket.kept_because}


def _totals(plan: Sequence[Bucket]) -> dict[str, int]:
    doomed = _doomed(plan)
    return {
        "buckets_purged": len(doomed),
        "partitions_deleted": sum(len(bucket.tags) for bucket in doomed.values()),
        "buckets_kept": len(plan) - len(doomed),
    }
