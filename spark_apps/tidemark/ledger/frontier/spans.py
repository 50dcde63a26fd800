"""Spans of done pieces, a summary of the rows of the pieces. No I/O."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import UTC
from typing import NamedTuple

from tidemark.ledger.piece import PieceRow, State
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.window import from_millis, to_millis

MOST_SPANS = 4000
"""Beyond this number of spans, pieces are added only if that needs no further span."""
ENDED_WITHIN_MS = 7 * 86_400_000
"""The most time between the ends of two pieces of a span; ten years without delay are 520 spans."""


class Span(NamedTuple):
    """Adjacent time buckets whose pieces are done by one version of the definition.

    Attributes:
        first: the first time bucket, epoch ms.
        before: the end, exclusive, epoch ms.
        version: the version of the definition that has done the pieces.
        attempt: the highest attempt of the pieces. A piece whose row was deleted starts again with
            the next attempt, so that no run with an older attempt can end it.
        ended_first: when the first of the pieces ended, epoch ms.
        ended_last: when the last of the pieces ended, epoch ms.
        is_sealed: whether rows of the pieces may have been deleted. Such a span does not grow any
            more: it would lose the times when its pieces ended.
    """

    first: int
    before: int
    version: str
    attempt: int
    ended_first: int
    ended_last: int
    is_sealed: bool = False

    def row(self, time_bucket: int) -> PieceRow:
        """Return a row for a piece without one: with the latest end, and without counts."""
        ended = from_millis(self.ended_last).replace(tzinfo=None)
        return PieceRow(
            time_bucket,
            State.DONE,
            self.attempt,
            definition_version=self.version,
            finished_at=ended,
            touched_at=ended,
        )


def buckets_of(spans: Iterable[Span], bucket_ms: int) -> TimeBuckets:
    """Return the time buckets of spans."""
    return TimeBuckets(((span.first, span.before) for span in spans), bucket_ms)


def covering(spans: Sequence[Span], time_bucket: int) -> Span | None:
    """Return the span that contains a time bucket; None if there is none."""
    index = bisect_right(spans, time_bucket, key=lambda span: span.first)
    span = spans[index - 1] if index else None
    return span if span is not None and time_bucket < span.before else None


def within(spans: Iterable[Span], first: int, before: int) -> list[Span]:
    """Return the parts of the spans between two time buckets, the second exclusive."""
    cut = (
        span._replace(first=max(span.first, first), before=min(span.before, before))
        for span in spans
    )
    return [span for span in cut if span.first < span.before]


def without(spans: Iterable[Span], time_buckets: Iterable[int], bucket_ms: int) -> list[Span]:
    """Return the spans without some time buckets."""
    removed = TimeBuckets.of(time_buckets, bucket_ms)
    return [
        span._replace(first=first, before=before)
        for span in spans
        for first, before in removed.holes(span.first, span.before)
    ]


def sealed(spans: Iterable[Span], ranges: TimeBuckets) -> list[Span]:
    """Return the spans, cut so that the parts in `ranges` are sealed."""
    parts = [
        span._replace(first=first, before=before, is_sealed=is_sealed or span.is_sealed)
        for span in spans
        for is_sealed, cut in (
            (True, ranges.within(span.first, span.before).ranges),
            (False, ranges.holes(span.first, span.before)),
        )
        for first, before in cut
    ]
    return sorted(parts)


def extended(spans: Sequence[Span], rows: Iterable[PieceRow], bucket_ms: int) -> list[Span]:
    """Return the spans extended by the done rows, ascending and without overlaps.

    `rows` are outside of the spans; those that are not done are left out.
    """
    single = [
        Span(
            row.time_bucket,
            row.time_bucket + bucket_ms,
            row.definition_version,
            row.attempt,
            (ended := to_millis(row.finished_at.replace(tzinfo=UTC))),
            ended,
        )
        for row in rows
        if row.state is State.DONE
        and row.finished_at is not None
        and row.definition_version is not None
    ]
    joined: list[Span] = []
    for span in sorted([*spans, *single]):
        both = _joined(joined[-1], span) if joined else None
        if both is None:
            joined.append(span)
        else:
            joined[-1] = both
    is_too_many = len(joined) > max(MOST_SPANS, len(spans))
    return list(spans) if is_too_many else joined


def _joined(left: Span, right: Span) -> Span | None:
    ended_first = min(left.ended_first, right.ended_first)
    ended_last = max(left.ended_last, right.ended_last)
    if (
        left.is_sealed
        or right.is_sealed
        or left.before != right.first
        or left.version != right.version
        or ended_last - ended_first > ENDED_WITHIN_MS
    ):
        return None
    attempt = max(left.attempt, right.attempt)
    return Span(left.first, right.before, left.version, attempt, ended_first, ended_last)
