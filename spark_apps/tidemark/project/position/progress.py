"""The progress of a projection, from its ledger and the time buckets that may be processed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidemark.ledger.frontier.spans import Span
from tidemark.ledger.frontier.state import LedgerState
from tidemark.ledger.piece import PieceRow, State
from tidemark.partitioning.time_buckets import TimeBuckets

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class ProjectionProgress:
    """The progress of a projection compared with the time buckets that may be processed.

    Attributes:
        states: number of pieces by state; pieces done by another definition count as `changed`.
        open_buckets: time buckets that may be processed, and that this definition has not done.
        lag: time from the start of the first open time bucket to the end of the last time bucket
            that may be processed.
        last_error: time bucket (epoch ms) and text of the newest error.
        oldest_gap: oldest time bucket (epoch ms) that waits for missing numbers, and the numbers.
        gap_age: time from the start of the oldest gap to the end of the last time bucket that may
            be processed.
    """

    states: Mapping[str, int]
    open_buckets: TimeBuckets
    lag: timedelta
    last_error: tuple[int, str] | None
    oldest_gap: tuple[int, str] | None = None
    gap_age: timedelta = timedelta()


def progress(
    entries: Sequence[PieceRow],
    fingerprint: str,
    validated: Set[int],
    bucket_ms: int,
    spans: Sequence[Span] = (),
) -> ProjectionProgress:
    """Compare the ledger of a projection with the time buckets that may be processed; does no I/O.

    `entries` are the pieces outside of the `spans` of done time buckets. `validated` are the time
    buckets (epoch ms) that may be processed.
    """
    done = LedgerState(spans, entries, bucket_ms).done_by(fingerprint)
    states = Counter(
        "changed" if entry.state is State.DONE and not entry.is_done(fingerprint) else entry.state
        for entry in entries
    )
    for span in spans:
        state = State.DONE if span.version == fingerprint else "changed"
        states[state] += (span.before - span.first) // bucket_ms
    open_buckets = TimeBuckets.of(validated, bucket_ms) - done
    oldest_open = open_buckets.first
    ends = TimeBuckets.ends_of(validated)
    end = (ends[1] if ends else 0) + bucket_ms
    with_errors = [entry for entry in entries if entry.error and entry.state is not State.DONE]
    with_gaps = [entry for entry in with_errors if entry.has_gap]
    last = max(with_errors, key=lambda entry: (_finished(entry), -entry.time_bucket), default=None)
    gap = min(with_gaps, key=lambda entry: entry.time_bucket, default=None)
    return ProjectionProgress(
        states,
        open_buckets,
        timedelta(milliseconds=0 if oldest_open is None else end - oldest_open),
        (last.time_bucket, last.error or "") if last else None,
        (gap.time_bucket, gap.error or "") if gap else None,
        timedelta(milliseconds=max(end - gap.time_bucket, 0) if gap else 0),
    )


def _finished(entry: PieceRow) -> datetime:
    return entry.finished_at.replace(tzinfo=UTC) if entry.finished_at else _NEVER
