"""A long backlog in batches of time buckets, so that neither memory nor disk must hold all of it.

Each batch is read, accepted and written to the end before the next one is read: after a crash only
the one under way is done again. Oldest first, as the events came.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from tidemark.context import RunContext
from tidemark.projection.planning.estimate import Estimates
from tidemark.projection.planning.plan import Work
from tidemark.projection.sources import registry, scope
from tidemark.text import counted
from tidemark.window import from_millis

_FEW_SCANS = 4
"""Batches that each scan their source; more of them rather look up the keys of all at once."""
_SAMPLE = 200
"""Rows whose payloads are measured before the first batch is read."""


@dataclass
class Bounds:
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
        """Learn from a batch: events that are larger than those before make the next ones less."""
        if rows:
            self.row_size = max(self.row_size, size / rows)

    def first(self, time_buckets: Sequence[int]) -> list[int]:
        """The first of them that fit together; a bucket that alone does not is one by itself."""
        limit = min(self.rows, self.size / self.row_size) if self.row_size else self.rows
        taken, rows = [time_buckets[0]], self.expected.get(time_buckets[0], 0)
        for bucket in time_buckets[1:]:
            rows += self.expected.get(bucket, 0)
            if rows > limit:
                break
            taken.append(bucket)
        return taken

    def batches(self, time_buckets: Sequence[int]) -> int:
        """How many batches there are as far as is known."""
        rest, number = time_buckets, 0
        while rest:
            rest, number = rest[len(self.first(rest)) :], number + 1
        return number


class Batches:
    """The batches of one projection, one after the other."""

    def __init__(self, run: RunContext, work: Work, *, whole: bool = False) -> None:
        """Estimate; with `whole`, or for a single time bucket, nothing is asked."""
        self._run, self._work = run, work
        self._bounds = None if whole or len(work.time_buckets) == 1 else _bounds(run, work)

    def measured(self, rows: int, size: int) -> None:
        """What the last batch held: rows of the source, and bytes of their payloads."""
        if self._bounds is not None:
            self._bounds.measured(rows, size)

    def each(self, unsettled: Collection[int]) -> Iterator[Work]:
        """Plans of some of the time buckets each.

        Args:
            unsettled: the time buckets so far that hold events back; asked again for each batch.
        """
        size = self._run.settings.bucket_size.milliseconds
        rest, number = list(self._work.time_buckets), 0
        keys = self._keys()
        work = replace(self._work, keys=keys)
        try:
            while rest:
                taken = rest if self._bounds is None else self._bounds.first(rest)
                rest, number = rest[len(taken) :], number + 1
                if rest or number > 1:
                    self._say(number, taken, len(rest))
                end = taken[-1] + size if rest else None
                yield part(work, taken, rest, unsettled, end)
        finally:
            # A projection that fails must not keep them while the next one runs.
            if keys is not None:
                keys.unpersist()

    def _keys(self) -> DataFrame | None:
        work = self._work
        if self._bounds is None or self._bounds.batches(work.time_buckets) <= _FEW_SCANS:
            return None
        keys = registry.reader(work.definition.source).keys(self._run, work.time_buckets)
        if keys is None:
            return None
        return scope.of_work(keys, work).persist(StorageLevel.MEMORY_AND_DISK)

    def _say(self, number: int, taken: Sequence[int], left: int) -> None:
        expected = self._bounds.expected if self._bounds else {}
        rows = sum(expected.get(bucket, 0) for bucket in taken)
        self._run.say(
            f"{self._work.definition.name}: batch {number}, {counted(len(taken), 'bucket')} from"
            f" {from_millis(taken[0]):%Y-%m-%d %H:%M}, about {counted(rows, 'row')};"
            f" {counted(left, 'bucket')} left"
        )


def part(
    work: Work,
    taken: Sequence[int],
    rest: Collection[int],
    unsettled: Collection[int],
    end: int | None,
) -> Work:
    """The plan of one batch.

    To it the time buckets of earlier batches are done: an event that one of them held back, and
    whose predecessor is in this batch, is late there. Those of later batches are not there yet,
    even if they were done before; nothing of them can be accepted before it is processed.
    """
    now, later = frozenset(taken), frozenset(rest)
    return replace(
        work,
        pieces=[piece for piece in work.pieces if piece.time_bucket in now],
        held=frozenset(),
        done=(work.done | work.planned) - now - later | (work.done & now),
        unsettled=frozenset(unsettled),
        batch_end=end,
    )


def _bounds(run: RunContext, work: Work) -> Bounds:
    settings = run.settings
    bounds = Bounds(settings.project_max_rows, settings.project_max_bytes, _expected(run, work))
    sample = _payloads(run, work).take(_SAMPLE)
    bounds.measured(len(sample), sum(row.size for row in sample))
    return bounds


def _payloads(run: RunContext, work: Work) -> DataFrame:
    """The payload sizes of the source's rows. Columns: size (int)."""
    rows = scope.planned_rows(run, work, registry.reader(work.definition.source))
    return rows.select(F.coalesce(F.length("event"), F.lit(0)).alias("size"))


def _expected(run: RunContext, work: Work) -> dict[int, int]:
    """Rows by time bucket as validate counted them, or counted by key where it has not."""
    known: dict[int, int] = {}
    if work.definition.source.is_pekko:
        is_by_tag = work.definition.tags is not None
        known = dict(Estimates.read(run).by_bucket(is_by_tag=is_by_tag))
    unknown = [bucket for bucket in work.time_buckets if bucket not in known]
    if unknown:
        reader = registry.reader(work.definition.source)
        rows = scope.source_rows(run, work, reader, unknown)
        found = rows.groupBy("time_bucket").agg(F.count(F.lit(1)).alias("rows")).collect()
        known |= {row.time_bucket: row.rows for row in found}
    return known
