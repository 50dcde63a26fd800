"""The state of a ledger: spans of done pieces, and the rows of all other pieces. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemark.ledger.frontier.spans import Span, buckets_of
from tidemark.ledger.piece import PieceRow, State
from tidemark.partitioning.time_buckets import TimeBuckets


@dataclass(frozen=True)
class LedgerState:
    """The pieces of one application on one subject.

    Attributes:
        spans: done time buckets, ascending.
        rows: the pieces outside of the spans, done or not, ascending.
        bucket_ms: the bucket size in milliseconds.
    """

    spans: Sequence[Span]
    rows: Sequence[PieceRow]
    bucket_ms: int

    def __bool__(self) -> bool:
        """Return whether the ledger has a piece."""
        return bool(self.spans or self.rows)

    @property
    def open_rows(self) -> list[PieceRow]:
        """The pieces that are not done, ascending."""
        return [row for row in self.rows if row.state is not State.DONE]

    @property
    def known(self) -> TimeBuckets:
        """The time buckets of all pieces."""
        known = buckets_of(self.spans, self.bucket_ms)
        return known | (row.time_bucket for row in self.rows)

    @property
    def done(self) -> TimeBuckets:
        """The time buckets that are done, by any version of the definition."""
        done = buckets_of(self.spans, self.bucket_ms)
        return done | (row.time_bucket for row in self.rows if row.state is State.DONE)

    @property
    def versions(self) -> set[str]:
        """The versions of the definition that have done pieces."""
        rows = {row.definition_version for row in self.rows if row.state is State.DONE}
        return {version for version in {*rows, *(span.version for span in self.spans)} if version}

    def done_by(self, version: str) -> TimeBuckets:
        """Return the time buckets that a version of the definition has done."""
        spans = [span for span in self.spans if span.version == version]
        done = buckets_of(spans, self.bucket_ms)
        return done | (row.time_bucket for row in self.rows if row.is_done(version))
