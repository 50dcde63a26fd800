"""Estimates the rows of time buckets from counts in the ledger, without counting rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tidemark.context import RunContext
from tidemark.ledger import applications
from tidemark.ledger.piece import State
from tidemark.ledger.pieces import Pieces

_SOURCES = (
    (applications.TAG_WRITE, "events_read", "tag_rows_written"),
    (applications.VALIDATE, "messages_checked", "tag_rows_checked"),
)
"""Applications with their counts of messages and tag rows; later ones take precedence."""


@dataclass(frozen=True)
class Estimate:
    """The rows of some time buckets.

    Attributes:
        rows: the rows of the time buckets with counts in the ledger.
        unknown: number of time buckets without counts in the ledger.
        is_bound: whether `rows` is an upper bound, as for tags: the rows of all tags are counted.
    """

    rows: int
    unknown: int
    is_bound: bool

    def __str__(self) -> str:
        """Return the text for reports: `about 12 rows`, `at most 12 rows`, `? rows`."""
        word = "at most" if self.is_bound else "about"
        if not self.unknown:
            return f"{word} {self.rows:,} rows"
        return f"{word} {self.rows:,} rows and ? in {self.unknown:,}" if self.rows else "? rows"


class Estimates:
    """The rows of each time bucket, as tag-write and validate last counted them."""

    def __init__(self, messages: Mapping[int, int], tag_rows: Mapping[int, int]) -> None:
        """Store the counts by time bucket."""
        self._messages, self._tag_rows = messages, tag_rows

    @classmethod
    def read(cls, run: RunContext, time_buckets: Collection[int] | None = None) -> Estimates:
        """Read the counts of some or all time buckets from the ledger."""
        messages: dict[int, int] = {}
        tag_rows: dict[int, int] = {}
        settings = run.settings
        for application, messages_name, tag_rows_name in _SOURCES:
            pieces = Pieces.of(run.control, settings, application)
            entries = pieces.entries() if time_buckets is None else pieces.entries_of(time_buckets)
            for entry in entries:
                if entry.state is State.DONE:
                    for rows, name in ((messages, messages_name), (tag_rows, tag_rows_name)):
                        if name in entry.counts:
                            rows[entry.time_bucket] = entry.counts[name]
        return cls(messages, tag_rows)

    def by_bucket(self, *, is_by_tag: bool) -> Mapping[int, int]:
        """Return the rows of each time bucket with counts in the ledger. No I/O."""
        return self._tag_rows if is_by_tag else self._messages

    def of(self, time_buckets: Iterable[int], *, is_by_tag: bool) -> Estimate:
        """Estimate the total rows of some time buckets. No I/O."""
        counts = self.by_bucket(is_by_tag=is_by_tag)
        rows_by_bucket = [counts.get(bucket) for bucket in time_buckets]
        known_rows = [rows for rows in rows_by_bucket if rows is not None]
        return Estimate(sum(known_rows), len(rows_by_bucket) - len(known_rows), is_by_tag)
