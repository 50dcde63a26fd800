"""Whether a time bucket can still be made again: all its events must be there."""

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
    """Events of time buckets are gone that their results were made from.

    Attributes:
        buckets: the error of each.
    """

    def __init__(self, buckets: Mapping[int, HistoryPurged], where: str) -> None:
        self.buckets = buckets
        first, error = min(buckets.items())
        more = f", and {len(buckets) - 1:,} more" if len(buckets) > 1 else ""
        what = f"{from_millis(first):%Y-%m-%d %H:%M}{more}: {error.what}"
        super().__init__(what, where=where, do=error.do)


def require_whole(
    store: OffsetStore,
    validated: DataFrame,
    time_buckets: Sequence[int],
    to_change: Collection[int],
) -> frozenset[int]:
    """Refuse to replace time buckets by what deletions have left of them.

    Args:
        store: of a projection whose mode replaces time buckets.
        validated: as `rule.validate_events` makes it, in memory.
        time_buckets: to process.
        to_change: those among them that take something in, or that somebody wants made again.

    Returns:
        The time buckets that have lost events and are not to change: the result that this
        definition has made of them stands.

    Raises:
        BucketsLost: events that the result of one of them was made from are not in `validated`.
    """
    definition = store.definition
    before = bucket_origin.read(store, time_buckets)
    if not any(made.events for made in before.values()):
        return frozenset()
    is_consumed = F.max(F.col(RESULT) == str(Validation.DUPLICATE))
    by_event = validated.groupBy("time_bucket", "persistence_id", "sequence_nr").agg(
        F.coalesce(is_consumed, F.lit(False)).alias("is_consumed")
    )
    by_bucket = by_event.groupBy("time_bucket").agg(
        F.count_if("is_consumed").alias("consumed"), F.count_if(~F.col("is_consumed")).alias("new")
    )
    now = {row.time_bucket: (row.consumed, row.new) for row in by_bucket.collect()}
    missing = {}
    for bucket, made in before.items():
        consumed, new = now.get(bucket, (0, 0))
        missing[bucket] = made.events - consumed - min(made.unsure, new)
    cut = {bucket for bucket, number in missing.items() if number > 0}
    outdated = {
        cut_bucket for cut_bucket in cut if before[cut_bucket].version != definition.fingerprint
    }
    if lost := outdated | cut.intersection(to_change):
        errors = {
            cut_bucket: _lost(definition, missing[cut_bucket], before[cut_bucket].events)
            for cut_bucket in lost
        }
        raise BucketsLost(errors, definition.name)
    return frozenset(cut)


def _lost(definition: Definition, missing: int, events: int) -> HistoryPurged:
    return HistoryPurged(
        f"{missing:,} of the {counted(events, 'event')} that its result was made from"
        f" {'is' if missing == 1 else 'are'} no longer there",
        where=definition.name,
        do="bring them back, or make it from what is left with --accept-purged",
    )
