"""The needs of readers of numbered persistence ids, of a Pekko journal or of a topic."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import PLACED_EVENTS
from tidemark.partitioning import columns
from tidemark.partitioning.keys import BucketSize
from tidemark.project import shapes as projection_shapes
from tidemark.project.definition.model import Mode
from tidemark.project.definition.source import KafkaJournal, PersistenceIds
from tidemark.project.definition.source import Source as EventSource
from tidemark.project.planning import history
from tidemark.purge.needs import shapes
from tidemark.purge.needs.consumers import Consumer
from tidemark.purge.needs.readers import Reader
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import ddl, shaped


@shaped(index=PLACED_EVENTS, returns=shapes.FIRSTS)
def first_numbers(index: DataFrame, moments: Collection[int]) -> DataFrame:
    """Find the lowest sequence nr of each persistence id from each moment (epoch ms) on."""
    by_moment = [
        F.min(F.when(F.col("time_bucket") >= moment, F.col("sequence_nr"))).alias(_first(moment))
        for moment in sorted(moments)
    ]
    last = (F.max("sequence_nr") + 1).alias("next_number")
    return index.groupBy("persistence_id").agg(last, *by_moment)


@shaped(
    ids=shapes.ID,
    stored=projection_shapes.OFFSETS,
    firsts=shapes.FIRSTS,
    returns=shapes.EVENT_NEEDS,
)
def needs_of(
    consumer: Consumer, ids: DataFrame, stored: DataFrame, firsts: DataFrame, again_from: int | None
) -> DataFrame:
    """Find the needs of a projection for each unique persistence id that its source has.

    `stored` are its offsets; `firsts` are from `first_numbers`, with the consumer's `begin` and
    `again_from`, the first time bucket of which it reads consumed events again.
    """
    offsets = stored.select("persistence_id", "stored_number")
    rows = (
        ids.where(has(consumer.definition.source))
        .join(offsets, on="persistence_id", how="left")
        .join(firsts, on="persistence_id", how="left")
    )
    # While no event is in the projection's time buckets, the next one may be.
    next_number = F.coalesce(F.col("next_number"), F.lit(1))
    from_begin: Column = F.lit(1)
    if consumer.begin != history.ALL and consumer.definition.mode is not Mode.FOLD:
        from_begin = F.coalesce(F.col(_first(consumer.begin)), next_number)
    if consumer.progress.is_anew:
        needed_from: Column = F.lit(1)
    else:
        needed_from = F.coalesce(F.col("stored_number") + 1, from_begin)
        if again_from is not None:
            needed_from = F.least(needed_from, F.col(_first(again_from)))
    return rows.select(
        "persistence_id",
        needed_from.cast("bigint").alias("needed_from"),
        F.lit(consumer.name).alias("reader"),
    )


@shaped(ids=shapes.ID, firsts=shapes.FIRSTS, returns=shapes.EVENT_NEEDS)
def from_time(reader: Reader, ids: DataFrame, firsts: DataFrame, size: BucketSize) -> DataFrame:
    """Find the needs of a reader of all events with a time offset: from its time bucket on."""
    first = F.col(_first(reader.begin(size)))
    needed_from = F.coalesce(first, F.col("next_number"), F.lit(1)).cast("bigint")
    return ids.join(firsts, on="persistence_id", how="left").select(
        "persistence_id", needed_from.alias("needed_from"), F.lit(reader.name).alias("reader")
    )


def of_ids(readers: Sequence[Reader], ids: DataFrame) -> DataFrame:
    """Return the needs of readers that have registered single persistence ids."""
    rows = [
        (
            reader.persistence_id,
            1 if reader.problem or reader.sequence_nr is None else reader.sequence_nr + 1,
            reader.name,
        )
        for reader in readers
    ]
    return local_rows(ids.sparkSession, rows, ddl(shapes.EVENT_NEEDS)).join(
        ids, on="persistence_id", how="left_semi"
    )


def lowest(needs: Sequence[DataFrame]) -> DataFrame:
    """Find the lowest need of each persistence id, and its reader; frames of EVENT_NEEDS."""
    first = F.min(F.struct("needed_from", "reader")).alias("first")
    return (
        reduce(DataFrame.unionByName, needs)
        .groupBy("persistence_id")
        .agg(first)
        .select("persistence_id", "first.needed_from", "first.reader")
    )


def again_from_of(consumer: Consumer, index: DataFrame, stored: DataFrame) -> int | None:
    """Return `ConsumerProgress.again_from`, or an earlier time bucket with an unconsumed event.

    A mode that replaces time buckets reads all events of such a bucket when it consumes that event.
    """
    again_from = consumer.progress.again_from
    if not consumer.definition.mode.replaces_buckets:
        return again_from
    offsets = stored.select("persistence_id", "stored_number")
    is_open = F.col("sequence_nr") > F.coalesce(F.col("stored_number"), F.lit(0))
    unconsumed = (
        index.where(has(consumer.definition.source) & (F.col("time_bucket") >= consumer.begin))
        .join(offsets, on="persistence_id", how="left")
        .where(is_open)
        .agg(F.min("time_bucket").alias("first"))
        .collect()[0]
        .first
    )
    return min((bucket for bucket in (again_from, unconsumed) if bucket is not None), default=None)


def restarted(consumer: Consumer, ids: DataFrame, stored: DataFrame, index: DataFrame) -> DataFrame:
    """Find the events later than the offset: an id that began anew has low sequence nrs."""
    offsets = stored.where("stored_timeuuid IS NOT NULL").select(
        "persistence_id", columns.timeuuid_ticks(F.col("stored_timeuuid")).alias("stored_ticks")
    )
    return (
        index.where(has(consumer.definition.source))
        .join(ids, on="persistence_id", how="left_semi")
        .join(offsets, on="persistence_id")
        .where(F.col("ticks") > F.col("stored_ticks"))
        .groupBy("persistence_id")
        .agg(F.min("sequence_nr").alias("needed_from"))
        .withColumn("reader", F.lit(consumer.name))
    )


def none(ids: DataFrame) -> DataFrame:
    """Return no needs: an empty frame of EVENT_NEEDS."""
    no_rows = ids.limit(0)
    return no_rows.select(
        "persistence_id", F.lit(0).cast("bigint").alias("needed_from"), F.lit("").alias("reader")
    )


def _first(moment: int) -> str:
    return f"first_{moment}".replace("-", "minus_")


def has(source: EventSource) -> Column:
    """Return whether the source has the events of a persistence id."""
    if isinstance(source, PersistenceIds):
        return F.col("persistence_id").isin(*source.ids)
    if isinstance(source, KafkaJournal) or source.entity_types is None:
        return F.lit(True)
    return columns.entity_type(F.col("persistence_id")).isin(*source.entity_types)
