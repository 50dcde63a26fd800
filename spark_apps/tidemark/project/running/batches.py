"""Splits a long backlog into batches of time buckets that fit into memory and on disk.

Each batch, oldest first, is read, accepted and written completely before the next is read: after a
crash only the last batch is processed again.
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
"""At most this many batches scan their source each; for more, one scan reads all keys first."""
_SAMPLE = 200
"""Rows whose payloads are measured before the first batch is read."""


@dataclass
class BatchBounds:
    """The limits of a batch, and the expected rows of time buckets.

    Attributes:
        rows: maximum rows of the source.
        size: maximum bytes of payload.
        expected: rows by time bucket; absent buckets count as empty.
        row_size: bytes of payload in a row; the maximum of all measurements.
    """

    rows: int
    size: int
    expected: Mapping[int, int]
    row_size: float = 0.0

    def measured(self, rows: int, size: int) -> None:
        """Record the size of a batch: larger events make the next batches smaller."""
        if rows:
            self.row_size = max(self.row_size, size / rows)

    def first(self, time_buckets: Sequence[int]) -> list[int]:
        """Return the first buckets that fit into a batch; a bucket over the limit gets its own."""
        limit = min(self.rows, self.size / self.row_size) if self.row_size else self.rows
        batch, rows = [time_buckets[0]], self.expected.get(time_buckets[0], 0)
        for bucket in time_buckets[1:]:
            rows += self.expected.get(bucket, 0)
            if rows > limit:
                break
            batch.append(bucket)
        return batch

    def batches(self, time_buckets: Sequence[int]) -> int:
        """Estimate the number of batches."""
        remaining, number = time_buckets, 0
        while remaining:
            remaining, number = remaining[len(self.first(remaining)) :], number + 1
        return number


class Batches:
    """The batches of one projection, in order."""

    def __init__(self, source: EventSource, full: Batch, *, is_single: bool = False) -> None:
        """Estimate the batches; with `is_single`, or for a single time bucket, read nothing."""
        self._source, self._full = source, full
        self._bounds = None if is_single or len(full.pieces) == 1 else _bounds(source, full)

    def measured(self, size: BatchSize) -> None:
        """Record the size of the last batch."""
        if self._bounds is not None:
            self._bounds.measured(size.rows, size.payload_bytes)

    def each(self, unsettled: Collection[int]) -> Iterator[Batch]:
        """Yield batches; `unsettled` (buckets with events held back so far) is read before each."""
        size = self._source.run.settings.bucket_size.milliseconds
        remaining, number = list(self._full.time_buckets), 0
        with self._keys():
            while remaining:
                buckets = remaining if self._bounds is None else self._bounds.first(remaining)
                remaining, number = remaining[len(buckets) :], number + 1
                if remaining or number > 1:
                    self._say(number, buckets, len(remaining))
                end = buckets[-1] + size if remaining else None
                yield self._full.part(buckets, remaining, unsettled, end)

    def _keys(self) -> AbstractContextManager[None]:
        buckets = self._full.time_buckets
        is_by_id = self._source.reads_by_id(self._full)
        if is_by_id or self._bounds is None or self._bounds.batches(buckets) <= _FEW_SCANS:
            return nullcontext()
        return self._source.keep_keys(buckets)

    def _say(self, number: int, buckets: Sequence[int], remaining: int) -> None:
        expected = self._bounds.expected if self._bounds else {}
        rows = sum(expected.get(bucket, 0) for bucket in buckets)
        self._source.run.say(
            f"{self._full.definition.name}: batch {number}, {counted(len(buckets), 'bucket')} from"
            f" {from_millis(buckets[0]):%Y-%m-%d %H:%M}, about {counted(rows, 'row')};"
            f" {counted(remaining, 'bucket')} left"
        )


def _bounds(source: EventSource, batch: Batch) -> BatchBounds:
    settings = source.run.settings
    expected = _expected(source, batch)
    bounds = BatchBounds(settings.project_max_rows, settings.project_max_bytes, expected)
    sample = _payload_sizes(source.sample(batch.time_buckets)).take(_SAMPLE)
    bounds.measured(len(sample), sum(row.size for row in sample))
    return bounds


def _payload_sizes(rows: DataFrame) -> DataFrame:
    """Return the sizes of the payloads. Columns: size (int)."""
    return rows.select(F.coalesce(F.length("event"), F.lit(0)).alias("size"))


def _expected(source: EventSource, batch: Batch) -> dict[int, int]:
    """Return rows by time bucket from the ledger, or counted here where the ledger has none."""
    expected: dict[int, int] = {}
    spec = source.definition.source
    if spec.reads_journal:
        estimates = Estimates.read(source.run, batch.time_buckets)
        expected = dict(estimates.by_bucket(is_by_tag=spec.reads_tag_views))
    uncounted = [bucket for bucket in batch.time_buckets if bucket not in expected]
    if uncounted:
        by_bucket = source.rows(uncounted).groupBy("time_bucket")
        rows = by_bucket.agg(F.count(F.lit(1)).alias("rows")).collect()
        expected |= {row.time_bucket: row.rows for row in rows}
    return expected
