"""Counts the exact lag of a projection by slice, with Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.pekko.series import SERIES
from tidemark.partitioning import columns
from tidemark.partitioning.keys import SliceRange
from tidemark.partitioning.slice_ranges import ALL
from tidemark.project.definition.model import Definition
from tidemark.project.offset_store import consumption
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.sources import event_source
from tidemark.window import to_millis


@dataclass(frozen=True)
class Lag:
    """The lag of some slices.

    Attributes:
        behind: count of numbers above the frontiers, up to the highest of each series; an event
            counts for each of its tags.
        time: longest time from the cursor of a slice that is behind to its newest event.
        is_begun: whether all slices that are behind have a cursor; `time` omits those without.
    """

    behind: int = 0
    time: timedelta = timedelta()
    is_begun: bool = True


def exact(run: RunContext, definition: Definition, first_bucket: int | None) -> dict[int, Lag]:
    """Count the lag of each slice that is behind, by the keys of the complete source.

    `first_bucket` is the projection's first time bucket (epoch ms), as it does not process older
    events; None if the projection never ran.
    """
    store = OffsetStore.of(run, definition)
    offsets = consumption.stored_offsets(store, run.spark, ALL)
    offsets = offsets.where(F.col("tag").isin(*definition.source.series_tags))
    numbers = event_source(run, definition).numbers()
    rows = by_slice(numbers, offsets, first_bucket).collect()  # a row for each slice
    cursors = store.cursors()
    return {row.slice: _lag(row.behind, row.newest_ms, cursors.get(row.slice)) for row in rows}


def by_slice(numbers: DataFrame, stored: DataFrame, first_bucket: int | None) -> DataFrame:
    """Count the numbers above the frontiers.

    A series without a frontier begins with its lowest number in the projection's time buckets.

    Args:
        numbers: persistence_id, tag, number (bigint), time_bucket (bigint), epoch_ms (bigint, may
            be null). Rows may repeat.
        stored: persistence_id, tag, stored_number (bigint); unique.
        first_bucket: first time bucket of the projection, epoch ms; None to count all numbers.

    Columns out: slice (int), behind (bigint), newest_ms (bigint); only slices that are behind.
    """
    is_counted = F.lit(True) if first_bucket is None else F.col("time_bucket") >= first_bucket
    series = (
        numbers.where(is_counted)
        .groupBy(*SERIES)
        .agg(
            F.min("number").alias("lowest"),
            F.max("number").alias("highest"),
            F.max("epoch_ms").alias("newest_ms"),
        )
        .join(stored.select(*SERIES, "stored_number"), on=[*SERIES], how="left")
    )
    base = F.coalesce(F.col("stored_number"), F.col("lowest") - 1)
    behind = F.greatest(F.col("highest") - base, F.lit(0)).cast("bigint")
    return (
        series.groupBy(columns.slice_of(F.col("persistence_id")).alias("slice"))
        .agg(F.sum(behind).alias("behind"), F.max("newest_ms").alias("newest_ms"))
        .where(F.col("behind") > 0)
    )


def _lag(behind: int, newest_ms: int | None, cursor: datetime | None) -> Lag:
    if cursor is None:
        return Lag(behind, is_begun=False)
    lag_ms = max((newest_ms or 0) - to_millis(cursor), 0)
    return Lag(behind, timedelta(milliseconds=lag_ms))


def merge(lags: Iterable[Lag]) -> Lag:
    """Merge the lags of several slices; does no I/O."""
    all_lags = list(lags)
    return Lag(
        sum(lag.behind for lag in all_lags),
        max((lag.time for lag in all_lags), default=timedelta()),
        all(lag.is_begun for lag in all_lags),
    )


def by_range(lags: Mapping[int, Lag], ranges: Sequence[SliceRange]) -> dict[SliceRange, Lag]:
    """Merge the lags of the slices of each range; only ranges that are behind; does no I/O."""
    grouped = {
        slice_range: merge(
            lag for number, lag in lags.items() if slice_range.first <= number <= slice_range.last
        )
        for slice_range in ranges
    }
    return {slice_range: lag for slice_range, lag in grouped.items() if lag.behind}
