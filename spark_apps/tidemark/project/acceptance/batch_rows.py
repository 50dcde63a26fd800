"""Reads the rows of a batch: complete time buckets, or the unread events of persistence ids."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from pyspark.sql import DataFrame

from tidemark.project import shapes
from tidemark.project.planning.batch import Batch
from tidemark.project.sources import read
from tidemark.project.sources.base import EventSource
from tidemark.spark.read_once import kept_once


@dataclass(frozen=True)
class BatchRows:
    """The rows of a batch; they stay in memory until `in_memory` is closed.

    Attributes:
        planned: EVENTS of the time buckets to process.
        unread: EVENTS after the offsets, in all time buckets; None if only their keys are read.
    """

    source: EventSource
    in_memory: ExitStack
    planned: DataFrame
    unread: DataFrame | None

    @classmethod
    def read(
        cls, source: EventSource, batch: Batch, offsets: DataFrame, in_memory: ExitStack
    ) -> Self:
        """Read a batch; `offsets` has STORED of all series."""
        if not source.reads_by_id(batch):
            rows = _cached(source.planned_rows(batch.time_buckets), in_memory)
            return cls(source, in_memory, rows, None)
        unread = source.unread_events(batch, offsets)
        again = batch.processed_again
        rows = read.in_buckets(unread, sorted(batch.planned.difference(again)))
        if again:
            rows = rows.unionByName(_cached(source.rows(again), in_memory))
        return cls(source, in_memory, rows, unread)

    @property
    def planned_keys(self) -> DataFrame:
        """KEYS of the planned rows."""
        return self.planned.select(*shapes.KEYS)

    @property
    def unread_keys(self) -> DataFrame | None:
        """KEYS of the unread rows."""
        return None if self.unread is None else self.unread.select(*shapes.KEYS)

    def late(self, time_buckets: Sequence[int]) -> DataFrame:
        """Return EVENTS of time buckets that are done: all of them, or only the unread ones."""
        if self.unread is None:
            return _cached(self.source.rows(time_buckets), self.in_memory)
        return read.in_buckets(self.unread, time_buckets)


def _cached(frame: DataFrame, in_memory: ExitStack) -> DataFrame:
    cached = kept_once(frame)
    in_memory.callback(cached.unpersist)
    return cached
