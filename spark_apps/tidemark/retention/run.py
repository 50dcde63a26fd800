"""The run of purge, from plan to report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from tidemark import clock
from tidemark.application import preflight
from tidemark.context import DONE, NOTHING, PLANNED, Outcome, RunContext
from tidemark.errors import InvalidInput, TidemarkError
from tidemark.journal import tables, tag_views
from tidemark.ledger import applications, audit
from tidemark.ledger.claim import claim
from tidemark.ledger.pieces import Piece, Pieces, State
from tidemark.ledger.schedule import time_buckets
from tidemark.retention.needs import absent_projections, needs_of_projections
from tidemark.retention.plan import Bucket, describe, plan_purge
from tidemark.settings import Settings
from tidemark.window import Window, to_millis

APPLICATION = applications.PURGE
_DELETED_AT_ONCE = 100
"""Number of partitions that are deleted between two checks of the locks."""


@dataclass(frozen=True)
class Order:
    """The request for a purge.

    Attributes:
        window: whole time buckets that are over; None for all those past their retention.
        retention_days: buckets that ended less than this ago stay; by default the setting.
        below_retention: the retention may be shorter than the setting.
        give_up: projections without a file that no longer need anything; their pieces are dropped.
        apply: delete; otherwise only show the plan. Both write an audit row.
    """

    window: Window | None = None
    retention_days: int | None = None
    below_retention: bool = False
    give_up: Sequence[str] = ()
    apply: bool = False


def run_purge(run: RunContext, order: Order) -> Outcome:
    """Delete the tag-view buckets that are past retention and that no projection needs.

    Raises:
        InvalidInput: the window does not fit the bucket size, or lies in the future; the retention
            is shorter than the setting and `below_retention` is not set; a projection that is
            given up has a file, or never ran.
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
    unfinished = {row.time_bucket for row in ledger.entries() if row.state is not State.DONE}
    given_up = _given_up(run, order.give_up)

    def plan_now() -> list[Bucket]:
        absent = absent_projections(run.control, settings)
        return plan_purge(
            tag_views.partitions(run.control, settings),
            order.window,
            bucket_ms=settings.bucket_size.milliseconds,
            oldest_kept=to_millis(kept_since),
            needs=[
                *needs_of_projections(run.control, settings),
                *(need for need in absent if need.subject not in given_up),
            ],
            unfinished=unfinished,
        )

    plan = plan_now()
    lines = [*_give_up_lines(order.give_up), *_lines(plan, order)]
    lines += _absent_lines(run, given_up)
    totals, journal = _totals(plan), run.settings.journal_keyspace
    if not order.apply:
        planned = totals | {"buckets_purged": 0, "partitions_deleted": 0}
        audit.record(run, "purge", journal, lines, planned, dry_run=True)
        to_purge = totals["buckets_purged"]
        return Outcome(PLANNED, {"planned": to_purge}, planned, [*lines, _how_to_apply(to_purge)])
    # A run that died after its last delete left pieces without rows, which only have to be ended.
    to_end = set(_to_purge(plan)) | (unfinished - {bucket.time_bucket for bucket in plan})
    pieces = [piece for piece in ledger.plan(to_end, force=True) if piece.time_bucket in to_end]
    if not pieces and not given_up:
        return Outcome(NOTHING, {}, totals, lines or ["no tag-view bucket is past its retention"])
    audit.record(run, "purge started", journal, lines, totals)
    for subject in sorted(given_up):
        Pieces.of(run.control, settings, applications.PROJECT, subject).forget()
    if pieces:
        _purge(run, ledger, pieces, plan, plan_now)
    audit.record(run, "purge", journal, lines, totals)
    return Outcome(DONE, {"planned": len(pieces), "done": len(pieces)}, totals, lines)


def _retention(order: Order, settings: Settings) -> int:
    days = order.retention_days or settings.retention_days
    if days < settings.retention_days and not order.below_retention:
        raise InvalidInput(
            f"{days} days are less than the {settings.retention_days} of TIDEMARK_RETENTION_DAYS",
            where="--retention-days",
            do="keep that long; or say with --below-retention that it is meant so",
        )
    return days


def _given_up(run: RunContext, names: Sequence[str]) -> set[str]:
    absent = absent_projections(run.control, run.settings) if names else []
    unknown = sorted(set(names) - {need.projection for need in absent})
    if unknown:
        raise InvalidInput(
            f"{', '.join(unknown)}: only a projection that ran and has no file can be given up",
            where="--give-up",
            do="pause or drop a projection that has a file with `project`",
        )
    return {need.subject for need in absent if need.projection in names}


def _give_up_lines(names: Sequence[str]) -> list[str]:
    return [f"gives up the projection {name}: its pieces are dropped" for name in names]


def _absent_lines(run: RunContext, given_up: set[str]) -> list[str]:
    return [
        f"{need.projection} holds back what it is not done with: it has run, but has no file in"
        f" {run.settings.projections_dir}; if it is gone for good, `purge.py --give-up"
        f" {need.projection} --apply`"
        for need in absent_projections(run.control, run.settings)
        if need.subject not in given_up
    ]


def _lines(plan: Sequence[Bucket], order: Order) -> list[str]:
    """Describe each time bucket; without a window, kept buckets are only counted by reason."""
    if order.window is not None:
        return [describe(bucket) for bucket in plan]
    kept = Counter(bucket.kept_because for bucket in plan if bucket.kept_because)
    lines = [describe(bucket) for bucket in plan if not bucket.kept_because]
    return lines + [
        f"keep {time_buckets(number)}: {reason}" for reason, number in sorted(kept.items())
    ]


def _purge(
    run: RunContext,
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
        # What may be deleted is planned anew each time.
        remember=False,
    ) as claimed:
        if plan_now() != plan:
            raise TidemarkError(
                "tag views or projections moved between the plan and the locks",
                where=run.settings.journal_keyspace,
                do="nothing was deleted; run again",
            )
        to_purge = _to_purge(plan)
        partitions = (
            (tag, bucket.time_bucket) for bucket in to_purge.values() for tag in bucket.tags
        )
        while some_partitions := list(islice(partitions, _DELETED_AT_ONCE)):
            # Without the lock, another run may write to these partitions.
            claimed.check()
            tag_views.delete_partitions(run.control, run.settings, some_partitions)
        claimed.finish(
            State.DONE,
            {
                time_bucket: {"partitions_deleted": len(bucket.tags)}
                for time_bucket, bucket in to_purge.items()
            },
        )


def _to_purge(plan: Sequence[Bucket]) -> dict[int, Bucket]:
    return {bucket.time_bucket: bucket for bucket in plan if not bucket.kept_because}


def _totals(plan: Sequence[Bucket]) -> dict[str, int]:
    to_purge = _to_purge(plan)
    return {
        "buckets_purged": len(to_purge),
        "partitions_deleted": sum(len(bucket.tags) for bucket in to_purge.values()),
        "buckets_kept": len(plan) - len(to_purge),
    }


def _how_to_apply(buckets: int) -> str:
    if not buckets:
        return "nothing would be purged"
    return f"dry run: nothing was deleted; --apply would purge {time_buckets(buckets)}"
