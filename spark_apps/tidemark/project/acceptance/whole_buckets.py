"""Checks that all events of a time bucket still exist before its result is replaced."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.errors import HistoryPurged
from tidemark.project.acceptance.rule import RESULT, Validation
from tidemark.project.definition.model import Definition
from tidemark.project.offset_store import bucket_origin
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.text import counted
from tidemark.window import from_millis


class BucketsLost(HistoryPurged):
    """Events that the results of time buckets were made from no longer exist.

    Attributes:
        buckets: the error of each time bucket.
    """

    def __init__(self, buckets: Mapping[int, HistoryPurged], where: str) -> None:
        self.buckets = buckets
        first, error = min(buckets.items())
        more = f", and {len(buckets) - 1:,} more" if len(buckets) > 1 else ""
        what = f"{from_millis(first):%Y-%m-%d %H:%M}{more}: {error.what}"
        super().__init__(what, where=where, do=error.do)


def require_complete(
    store: OffsetStore,
    validated: DataFrame,
    time_buckets: Sequence[int],
    to_change: Collection[int],
) -> frozenset[int]:
    """Require that all events that the results of time buckets were made from still exist.

    `validated` is the result of `rule.validate_events`, in memory; `to_change` are the time buckets
    that have new events or are forced. The projection's mode replaces time buckets.

    Returns:
        The time buckets that have lost events but need no change: their result stays, since this
        definition has made it.

    Raises:
        BucketsLost: a time bucket that must change, or whose result another version of the
            definition has made, has lost events.
    """
    definition = store.definition
    origins = bucket_origin.read(store, time_buckets)
    if not any(origin.events for origin in origins.values()):
        return frozenset()
    is_consumed = F.max(F.col(RESULT) == str(Validation.DUPLICATE))
    by_event = validated.groupBy("time_bucket", "persistence_id", "sequence_nr").agg(
        F.coalesce(is_consumed, F.lit(False)).alias("is_consumed")
    )
    by_bucket = by_event.groupBy("time_bucket").agg(
        F.count_if("is_consumed").alias("consumed"), F.count_if(~F.col("is_consumed")).alias("new")
    )
    present = {row.time_bucket: (row.consumed, row.new) for row in by_bucket.collect()}
    missing = {}
    for bucket, origin in origins.items():
        consumed, new = present.get(bucket, (0, 0))
        missing[bucket] = origin.events - consumed - min(origin.unsure, new)
    incomplete = {bucket for bucket, number in missing.items() if number > 0}
    outdated = {
        bucket for bucket in incomplete if origins[bucket].version != definition.fingerprint
    }
    if buckets_lost := outdated | incomplete.intersection(to_change):
        errors = {
            bucket: _lost(definition, missing[bucket], origins[bucket].events)
            for bucket in buckets_lost
        }
        raise BucketsLost(errors, definition.name)
    return frozenset(incomplete)


def _lost(definition: Definition, missing: int, events: int) -> HistoryPurged:
    return HistoryPurged(
        f"{missing:,} of the {counted(events, 'event')} that its result was made from"
        f" {'is' if missing == 1 else 'are'} no longer there",
        where=definition.name,
        do="bring them back, or make it from what is left with --accept-purged",
    )
