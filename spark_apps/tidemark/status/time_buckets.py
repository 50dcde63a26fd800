"""Time buckets by application and state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemark.context import RunContext
from tidemark.ledger.piece import PieceRow, State
from tidemark.ledger.reading import pieces
from tidemark.ledger.reading.pieces import BoundedStanding, LedgerName
from tidemark.partitioning.keys import BucketSize
from tidemark.status.page import Page, token, values_of
from tidemark.window import from_millis

LEDGERS, BUCKETS = "ledgers", "time-buckets"


@dataclass(frozen=True)
class FailedSpan:
    """Time buckets from `start` to `end`, exclusive."""

    start: datetime
    end: datetime


@dataclass(frozen=True)
class LedgerSummary:
    """The time buckets of one application on one subject.

    Attributes:
        application: the application.
        subject: a journal keyspace, or `keyspace/projection`.
        bucket_size: the size of the time buckets.
        states: number of time buckets by state.
        is_complete: whether the ledger was read to its end; if not, all numbers except that of
            done time buckets in the frontier are lower bounds.
        missing: number of time buckets between the first and the last that no run has begun; None
            if the ledger was not read to its end.
        first: the first time bucket.
        done_until: the end of done time buckets up to the first gap; None if the first is not done.
        newest_done: the end of the newest done time bucket.
        last_ended: when the ledger was last written.
        failed: from the first to the last failed time bucket; None if none has failed.
        failed_since: when the first of them failed.
        error: error of the oldest failed or held time bucket.
        last_done: when a time bucket was last done.
    """

    application: str
    subject: str
    bucket_size: str
    states: Mapping[str, int]
    is_complete: bool
    missing: int | None
    first: datetime
    done_until: datetime | None
    newest_done: datetime | None
    last_ended: datetime | None
    failed: FailedSpan | None = None
    failed_since: datetime | None = None
    error: str = ""
    last_done: datetime | None = None

    def number(self, *states: State) -> int:
        """Return the number of time buckets in these states."""
        return sum(self.states.get(state, 0) for state in states)


@dataclass(frozen=True)
class TimeBucketState:
    """One time bucket of an application.

    Attributes:
        time_bucket: the start of the time bucket.
        state: its state.
        reason: why the last plan contained it.
        attempt: how many runs have started it.
        counts: numbers that the last run has counted; empty if they are no longer stored.
        error: why it is failed or held.
        version: the version of the definition, for a projection.
        finished_at: when the last run has finished it.
        run_id: id of the last run; empty if it is no longer stored.
    """

    time_bucket: datetime
    state: State
    reason: str
    attempt: int
    counts: Mapping[str, int]
    error: str
    version: str
    finished_at: datetime | None
    run_id: str


def ledgers(run: RunContext, *, limit: int, after: str | None = None) -> Page[LedgerSummary]:
    """Return the ledgers of the journals, by application, subject and bucket size.

    Raises:
        InvalidInput: `after` is not a token of these pages.
    """
    begin = values_of(LEDGERS, after, str, str, str)
    names = [
        name
        for name in pieces.names(run.control, run.settings)
        if begin is None or tuple(name) > tuple(begin)
    ]
    states = [
        state
        for name in names[:limit]
        if (state := summary(name, pieces.of_ledger(run.control, run.settings, name))) is not None
    ]
    return Page(states, token(LEDGERS, *names[limit - 1]) if len(names) > limit else None)


def time_buckets(
    run: RunContext,
    application: str,
    *,
    subject: str = "",
    size: BucketSize | None = None,
    state: State | None = None,
    limit: int,
    after: str | None = None,
) -> Page[TimeBucketState]:
    """Return the newest time buckets of an application, the newest first.

    The default subject is the journal keyspace, the default size is that of the settings.

    Raises:
        InvalidInput: `after` is not a token of these pages.
    """
    begin = values_of(BUCKETS, after, int)
    name = LedgerName(
        application, subject or run.settings.journal_keyspace, size or run.settings.bucket_size
    )
    rows, next_bucket = pieces.page(
        run.control,
        run.settings,
        name,
        limit=limit,
        before=None if begin is None else begin[0],
        state=state,
    )
    return Page(
        [bucket_state(row) for row in rows],
        None if next_bucket is None else token(BUCKETS, next_bucket),
    )


def of_application(run: RunContext, application: str) -> LedgerSummary | None:
    """Return the ledger of an application on the journal; None if it is empty."""
    settings = run.settings
    name = LedgerName(application, settings.journal_keyspace, settings.bucket_size)
    return summary(name, pieces.of_ledger(run.control, settings, name))


def summary(name: LedgerName, bounded: BoundedStanding) -> LedgerSummary | None:
    """Return the summary of a ledger; None if it is empty. No I/O."""
    standing, size = bounded.standing, name.size.milliseconds
    begun, done = standing.known, standing.done
    if begun.first is None or begun.last is None:
        return None
    states = Counter[str](row.state for row in standing.rows)
    states[State.DONE] += sum((span.before - span.first) // size for span in standing.spans)
    with_errors = [
        row for row in standing.rows if row.state in (State.FAILED, State.HELD) and row.error
    ]
    failed = [row for row in standing.rows if row.state is State.FAILED]
    return LedgerSummary(
        name.application,
        name.subject,
        name.size.value,
        {state: number for state, number in sorted(states.items()) if number},
        bounded.is_complete,
        (begun.last + size - begun.first) // size - len(begun) if bounded.is_complete else None,
        from_millis(begun.first),
        from_millis(done.ranges[0][1]) if done.first == begun.first else None,
        None if done.last is None else from_millis(done.last + size),
        max(
            [
                *(from_millis(span.ended_last) for span in standing.spans),
                *(row.touched_at.replace(tzinfo=UTC) for row in standing.rows if row.touched_at),
            ],
            default=None,
        ),
        FailedSpan(from_millis(failed[0].time_bucket), from_millis(failed[-1].time_bucket + size))
        if failed
        else None,
        min(
            (row.finished_at.replace(tzinfo=UTC) for row in failed if row.finished_at),
            default=None,
        ),
        with_errors[0].error or "" if with_errors else "",
        max(
            [
                *(from_millis(span.ended_last) for span in standing.spans),
                *(
                    row.finished_at.replace(tzinfo=UTC)
                    for row in standing.rows
                    if row.state is State.DONE and row.finished_at
                ),
            ],
            default=None,
        ),
    )


def bucket_state(row: PieceRow) -> TimeBucketState:
    """Return the state of a time bucket by its row. No I/O."""
    return TimeBucketState(
        from_millis(row.time_bucket),
        row.state,
        row.reason or "",
        row.attempt,
        row.counts,
        row.error or "",
        row.definition_version or "",
        None if row.finished_at is None else row.finished_at.replace(tzinfo=UTC),
        row.run_id or "",
    )
