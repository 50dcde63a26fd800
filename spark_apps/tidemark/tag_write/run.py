"""The run of tag-write, from plan to report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tidemark import clock
from tidemark.application import preflight
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import JournalDamaged, Remedy, reason_of
from tidemark.journals.pekko import bucket_size, tables
from tidemark.ledger import applications
from tidemark.ledger.claim import Claim, claim
from tidemark.ledger.piece import Piece, Reason, State
from tidemark.ledger.pieces import Pieces, describe
from tidemark.ledger.schedule import left_for_later
from tidemark.partitioning.keys import BucketSize
from tidemark.settings import Settings
from tidemark.tag_write import plan, rules
from tidemark.tag_write.job import TagWriteJob, TagWriteResult
from tidemark.tag_write.plan import Strategy
from tidemark.tag_write.rules import TagRule
from tidemark.window import Window, iso

APPLICATION = applications.TAG_WRITE
_REPAIR = Remedy(applications.RECONCILE, "repair")


def run_window(
    run: RunContext, window: Window, *, force: bool, dry_run: bool, strategy: Strategy | None = None
) -> Outcome:
    """Write the tag views, the progress and the scanning of the window's events.

    The window consists of complete, past time buckets. `force` also processes buckets that are
    done, and those that live readers may still read. `dry_run` only plans.
    """
    settings = run.settings
    preflight.require_in_cassandra(
        settings,
        "tag-write writes the tag views of a journal in Cassandra",
        "leave it out: projections read all events, and select by the column `tags`",
    )
    preflight.check(run, window)
    bucket_size.require_partition_size(run.control, settings)
    tag_rules = rules.load(settings.tagging_dir)
    rules.require_applied(run.control, settings, tag_rules)
    ledger = Pieces.of(run.control, settings, APPLICATION, version=rules.version(tag_rules))
    scheduled = ledger.schedule(window, most=settings.catch_up_buckets, force=force)
    due = scheduled.pieces
    if not due:
        return Outcome(RunState.NOTHING, lines=[f"every {settings.bucket_size} bucket is done"])
    postponed = [] if force else plan.in_reach(due, settings.bucket_size, clock.now())
    pieces = [piece for piece in due if piece not in postponed]
    lines = [*scheduled.lines(), *_left_for_later(postponed, settings.bucket_size)]
    details = scheduled.details(postponed)
    if dry_run:
        plan_lines = [*describe(pieces), *lines]
        return Outcome(
            RunState.PLANNED, PieceCounts(len(pieces)), lines=plan_lines, details=details
        )
    ledger.note([*postponed, *scheduled.postponed])
    if not pieces:
        return Outcome(RunState.NOTHING, lines=lines, details=details)
    run.say(f"{len(pieces)} {settings.bucket_size.value} buckets to do")
    outcome = _write(run, ledger, pieces, tag_rules, strategy)
    outcome.lines.extend(lines)
    outcome.details = {**outcome.details, **details}
    return outcome


def _write(
    run: RunContext,
    ledger: Pieces,
    pieces: Sequence[Piece],
    tag_rules: Sequence[TagRule],
    strategy: Strategy | None,
) -> Outcome:
    settings = run.settings
    with claim(
        run,
        ledger,
        pieces,
        resource=tables.lock_of(settings),
    ) as claimed:
        rules.check(run.spark, tag_rules)
        bucket_size.record_bucket_size(run.control, settings)
        rules.record(run.control, settings, tag_rules)
        result = TagWriteJob(run, claimed, ledger.done(), tag_rules, strategy).do()
        error = _finish(claimed, ledger, result, settings)
    done = {piece.time_bucket for piece in pieces} - result.held_buckets
    held_count = len(result.held_buckets)
    return Outcome(
        RunState.FAILED if error else RunState.DONE,
        PieceCounts(len(done) + held_count, len(done), held_count),
        result.totals(),
        result.lines(),
        error,
        done=Window.hull(done, settings.bucket_size),
        details=result.details() | {"tables": _tables(settings)},
    )


def _tables(settings: Settings) -> dict[str, list[str]]:
    """Return the tables read and written, for lineage."""
    written = (settings.events_by_tag_table, tables.TAG_WRITE_PROGRESS, tables.TAG_SCANNING)
    keyspace = settings.journal_keyspace
    return {
        "read": [f"{keyspace}.{tables.MESSAGES}"],
        "written": [f"{keyspace}.{name}" for name in written],
    }


def _finish(
    claimed: Claim, ledger: Pieces, result: TagWriteResult, settings: Settings
) -> JournalDamaged | None:
    error = None
    if result.contradictions:
        error = JournalDamaged(
            f"{result.contradicted_ids:,} persistence ids were left alone, since"
            f" tag_write_progress and messages contradict each other: {result.contradictions[0]}",
            where=settings.journal_keyspace,
            do=f"run `{_REPAIR} --apply`, then this window again",
            remedy=_REPAIR,
        )
        counts = _reopen(claimed, ledger, result.held_buckets) | dict(result.counts)
        claimed.finish_some(result.held_buckets, State.HELD, counts, reason_of(error))
    claimed.finish(State.DONE, result.counts)
    return error


def _reopen(claimed: Claim, ledger: Pieces, held: Collection[int]) -> dict[int, Mapping[str, int]]:
    """Claim the held pieces that earlier runs had done, and return the counts of those runs.

    Otherwise the next run would have nothing to do and succeed although nothing was repaired.
    """
    own_buckets = {piece.time_bucket for piece in claimed.pieces}
    done_before = ledger.entries_of(set(held) - own_buckets)
    claimed.cover(entry.time_bucket for entry in done_before)
    claimed.extend([Piece(row.time_bucket, Reason.RESTATED, row.attempt) for row in done_before])
    return {entry.time_bucket: entry.counts for entry in done_before}


def _left_for_later(postponed: Sequence[Piece], size: BucketSize) -> list[str]:
    if not postponed:
        return []
    start = iso(plan.out_of_reach_at(postponed[-1].time_bucket, size))
    why = f"live readers may still look back at them; a run from {start} on writes all of them"
    return left_for_later(postponed, why)
