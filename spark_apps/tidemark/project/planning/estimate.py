"""How many rows a time bucket has, as far as the ledger knows; nothing is counted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tidemark.context import RunContext
from tidemark.ledger import applications
from tidemark.ledger.pieces import Pieces, State

_SOURCES = (
    (applications.TAG_WRITE, "events_read", "tag_rows_written"),
    (applications.VALIDATE, "messages_checked", "tag_rows_checked"),
)
"""Application, and its counts of messages and of tag rows; later applications take precedence."""


@dataclass(frozen=True)
class Estimate:
    """The rows of some time buckets.

    Attributes:
        rows: the rows of the time buckets that the ledger knows. For a projection by tags it is an
            upper bound, since the rows of all tags are counted.
        unknown: the number of time buckets that the ledger does not know.
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
    """The rows of each time bucket, as tag-write and validate have counted them last."""

    def __init__(self, messages: Mapping[int, int], tag_rows: Mapping[int, int]) -> None:
        """Store the counts by time bucket."""
        self._messages, self._tag_rows = messages, tag_rows

    @classmethod
    def read(cls, run: RunContext, time_buckets: Collection[int] | None = None) -> Estimates:
        """Read the counts from the ledger, of some time buckets or of all that it has rows of."""
        messages: dict[int, int] = {}
        tag_rows: dict[int, int] = {}
        settings = run.settings
        for application, of_messages, of_tags in _SOURCES:
            pieces = Pieces.of(run.control, settings, application)
            entries = pieces.entries() if time_buckets is None else pieces.entries_of(time_buckets)
            for entry in entries:
                if entry.state is State.DONE:
                    for counted, name in ((messages, of_messages), (tag_rows, of_tags)):
                        if name in entry.counts:
                            counted[entry.time_bucket] = entry.counts[name]
        return cls(messages, tag_rows)

    def by_bucket(self, *, is_by_tag: bool) -> Mapping[int, int]:
        """Return the rows of each time bucket that the ledger knows. No I/O."""
        return self._tag_rows if is_by_tag else self._messages

    def of(self, time_buckets: Iterable[int], *, is_by_tag: bool) -> Estimate:
        """Estimate the rows of some time buckets together. No I/O."""
        known = self.by_bucket(is_by_tag=is_by_tag)
        rows_by_bucket = [known.get(bucket) for bucket in time_buckets]
        rows = [number for number in rows_by_bucket if number is not None]
        return Estimate(sum(rows), len(rows_by_bucket) - len(rows), is_by_tag)
