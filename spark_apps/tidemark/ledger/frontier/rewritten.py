"""The purged time buckets that tag-write has written again, by the times when pieces ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC

from tidemark.ledger.frontier.spans import Span, buckets_of
from tidemark.ledger.frontier.state import LedgerState
from tidemark.ledger.piece import PieceRow, State
from tidemark.partitioning.time_buckets import Range, TimeBuckets
from tidemark.window import to_millis

_ENDED = (State.DONE, State.FAILED)
"""In other states the recorded end is that of an earlier attempt."""
_BEGUN = (State.RUNNING, *_ENDED)


@dataclass(frozen=True)
class Again:
    """The time buckets that were written again, and those for which only the rows can tell."""

    again: TimeBuckets
    unsure: TimeBuckets


def begun(purged: LedgerState) -> TimeBuckets:
    """Return the time buckets that purge has begun to delete, finished or not."""
    rows = [row.time_bucket for row in purged.rows if row.state in _BEGUN]
    return buckets_of(purged.spans, purged.bucket_ms) | rows


def since(purged: LedgerState, written: LedgerState) -> Again:
    """Compare the times when purge and tag-write ended their pieces, as far as spans show them."""
    again: list[Range] = []
    unsure: list[Range] = []
    deleted = _ended(purged, _ENDED)
    wrote = _ended(written, (State.DONE,))
    index = 0
    for span in wrote:
        while index < len(deleted) and deleted[index].before <= span.first:
            index += 1
        for other in deleted[index:]:
            if other.first >= span.before:
                break
            common = max(span.first, other.first), min(span.before, other.before)
            if span.ended_first > other.ended_last:
                again.append(common)
            elif span.ended_last > other.ended_first:
                unsure.append(common)
    size = purged.bucket_ms
    return Again(TimeBuckets(again, size), TimeBuckets(unsure, size))


def is_again(purged: PieceRow, written: PieceRow | None) -> bool:
    """Return whether tag-write has written a time bucket since purge deleted it."""
    return (
        purged.state in _ENDED
        and written is not None
        and written.state is State.DONE
        and written.finished_at is not None
        and purged.finished_at is not None
        and written.finished_at > purged.finished_at
    )


def _ended(ledger: LedgerState, states: Iterable[State]) -> list[Span]:
    """Return the spans, and a span for each row that has ended, ascending."""
    rows = [
        Span(
            row.time_bucket,
            row.time_bucket + ledger.bucket_ms,
            "",
            row.attempt,
            (ended := to_millis(row.finished_at.replace(tzinfo=UTC))),
            ended,
        )
        for row in ledger.rows
        if row.state in states and row.finished_at is not None
    ]
    return sorted([*ledger.spans, *rows])
