"""A long backlog in batches of time buckets, so that neither memory nor disk must hold all of it.

Each batch is read, accepted and written to the end before the next one is read: after a crash only
the one under way is done again. Oldest first, as the events came.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.project.planning.batch import Batch
from tidemark.project.planning.estimate import Estimates
from tidemark.project.running.outcome import BatchSize
from tidemark.project.sources.base import EventSource
from tidemark.text import counted
from tidemark.window import from_millis

_FEW_SCANS = 4
"""Batches that each scan their source; more of them rather look up the keys of all at once."""
_SAMPLE = 200
"""Rows whose payloads are measured before the first batch is read."""


@dataclass
class BatchBounds:
    """What one batch may hold, and what the time buckets are expected to.

    Attributes:
        rows: the most rows of the source.
        size: the most bytes of payload.
        expected: the rows of each time bucket; one that is not known counts as empty.
        row_size: bytes of payload in a row, the most that was measured.
    """

    rows: int
    size: int
    expected: Mapping[int, int]
    row_size: float = 0.0

    def measured(self, rows: int, size: int) -> None:
        """Learn from a batch: larger events make the next batches smaller."""
        if rows:
            self.row_size = max(self.row_size, size / rows)

    def first(self, time_buckets: Sequence[int]) -> list[int]:
        """Return the first buckets that fit together; a bucket that is too large is alone."""
        limit = min(self.rows, self.size / self.row_size) if self.row_size else self.rows
        taken, rows = [time_buckets[0]], self.expected.get(time_buckets[0], 0)
        for bucket in time_buckets[1:]:
            rows += self.expected.get(bucket, 0)
            if rows > limit:
                break
            taken.append(bucket)
        return taken

    def batches(self, time_buckets: Sequence[int]) -> int:
        """Estimate the number of batches."""
        rest, number = time_buckets, 0
        while rest:
            rest, number = rest[len(self.first(rest)) :], number + 1
        return number


class Batches:
    """The batches of one projection, one after the other."""

    def __init__(self, source: EventSource, whole: Batch, *, is_one: bool = False) -> None:
        """Estimate the batches; with `is_one`, or for a single time bucket, nothing is read."""
        self._source, self._whole = source, whole
        self._bounds = None if is_one or len(whole.pieces) == 1 else _bounds(source, whole)

    def measured(self, size: BatchSize) -> None:
        """Learn the size of events from the last batch."""
        if self._bounds is not None:
            self._bounds.measured(size.rows, size.payload_bytes)

    def each(self, unsettled: Collection[int]) -> Iterator[Batch]:
        """Yield batches of some of the time buckets.

        Args:
            unsettled: the time buckets so far that hold events back; asked again for each batch.
        """
        size = self._source.run.settings.bucket_size.milliseconds
        rest, number = list(self._whole.time_buckets), 0
        with self._keys():
            while rest:
                taken = rest if self._bounds is None else self._bounds.first(rest)
                rest, number = rest[len(taken) :], number + 1
                if rest or number > 1:
                    self._say(number, taken, len(rest))
                end = taken[-1] + size if rest else None
                yield self._whole.part(taken, rest, unsettled, end)

    def _keys(self) -> AbstractContextManager[None]:
        buckets = self._whole.time_buckets
        is_by_id = self._source.reads_by_id(self._whole)
        if is_by_id or self._bounds is None or self._bounds.batches(buckets) <= _FEW_SCANS:
            return nullcontext()
        return self._source.keep_keys(buckets)

    def _say(self, number: int, taken: Sequence[int], left: int) -> None:
        expected = self._bounds.expected if self._bounds else {}
        rows = sum(expected.get(bucket, 0) for bucket in taken)
        self._source.run.say(
            f"{self._whole.definition.name}: batch {number}, {counted(len(taken), 'bucket')} from"
            f" {from_millis(taken[0]):%Y-%m-%d %H:%M}, about {counted(rows, 'row')};"
            f" {counted(left, 'bucket')} left"
        )


def _bounds(source: EventSource, whole: Batch) -> BatchBounds:
    settings = source.run.settings
    expected = _expected(source, whole)
    bounds = BatchBounds(settings.project_max_rows, settings.project_max_bytes, expected)
    sample = _payload_sizes(source.sample(whole.time_buckets)).take(_SAMPLE)
    bounds.measured(len(sample), sum(row.size for row in sample))
    return bounds


def _payload_sizes(rows: DataFrame) -> DataFrame:
    """Measure the payloads of the source's rows. Columns: size (int)."""
    return rows.select(F.coalesce(F.length("event"), F.lit(0)).alias("size"))


def _expected(source: EventSource, whole: Batch) -> dict[int, int]:
    """Return rows by time bucket as validate counted them, or counted by key where it has not."""
    known: dict[int, int] = {}
    spec = source.definition.source
    if spec.reads_journal:
        estimates = Estimates.read(source.run, whole.time_buckets)
        known = dict(estimates.by_bucket(is_by_tag=spec.reads_tag_views))
    unknown = [bucket for bucket in whole.time_buckets if bucket not in known]
    if unknown:
        by_bucket = source.rows(unknown).groupBy("time_bucket")
        rows = by_bucket.agg(F.count(F.lit(1)).alias("rows")).collect()
        known |= {row.time_bucket: row.rows for row in rows}
    return known
