"""From which sequence nr on the readers of `messages` still need each persistence id's events."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journal import frames
from tidemark.journal.shapes import MESSAGES, SCANNING
from tidemark.ledger import applications
from tidemark.ledger.pieces import Pieces
from tidemark.partitioning import columns
from tidemark.partitioning.keys import BucketSize
from tidemark.partitioning.slice_ranges import ALL as ALL_SLICES
from tidemark.projection import shapes as projection_shapes
from tidemark.projection.definition.model import Mode
from tidemark.projection.definition.source import KafkaJournal, PersistenceIds
from tidemark.projection.definition.source import Source as EventSource
from tidemark.projection.offset_store.consumption import stored_offsets
from tidemark.projection.offset_store.offsets import OffsetStore
from tidemark.projection.planning import history
from tidemark.retention.needs import shapes
from tidemark.retention.needs.consumers import Consumer, consumers_of
from tidemark.retention.needs.readers import Reader, Source, lines, readers_of
from tidemark.retention.needs.tag_views import absent_lines
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped

TAG_WRITE = "tag-write"
"""The reader that tag-write is where Tidemark has built tag views of the journal."""


@dataclass(frozen=True)
class EventNeeds:
    """What the readers of `messages` still need.

    Attributes:
        per_id: by persistence id, the lowest sequence nr that a reader still needs; in memory.
        everything: a line for each reader that needs all events there are, and why.
        told: lines on readers that hold back some of them, and may be gone.
    """

    per_id: DataFrame
    everything: tuple[str, ...]
    told: tuple[str, ...] = ()


@shaped(ids=shapes.ID)
def needed(run: RunContext, ids: DataFrame, given_up: Collection[str] = ()) -> EventNeeds:
    """Find what must stay of some persistence ids' events.

    Readers are the projections of sources `messages` and `persistence-ids`, paused and lagging
    ones included, tag-write, and the registered readers of source `messages`. A reader that has not
    met a persistence id needs it from 1, or from its first event in the time buckets that the
    reader has. A deletion may go up to, and not including, `needed_from`, whatever is appended
    meanwhile.

    Args:
        run: the context of the run.
        ids: persistence ids; rows may repeat.
        given_up: the names of projections without a file, and of other readers, that need nothing.

    Raises:
        InvalidInput: there is no directory of projection files.
        DefinitionError: a projection file cannot be used, so that its needs are unknown.
    """
    wanted = ids.select("persistence_id").distinct().localCheckpoint()
    consumers = consumers_of(run, lambda definition: definition.source.reads_journal)
    others = [
        reader
        for reader in readers_of(run.control, run.settings, given_up)
        if reader.source in (Source.MESSAGES, None)
    ]
    of_all = [reader for reader in others if not reader.persistence_id or reader.source is None]
    index = frames.message_index(run.spark, run.settings)
    stored = {
        consumer.name: stored_offsets(
            OffsetStore.of(run, consumer.definition), run.spark, ALL_SLICES
        )
        for consumer in consumers
    }
    moments = {
        consumer.name: _again_from(consumer, index, stored[consumer.name]) for consumer in consumers
    }
    asked = {moment for moment in moments.values() if moment is not None}
    asked |= {consumer.begin for consumer in consumers if consumer.begin != history.ALL}
    asked |= {reader.begin(run.settings.bucket_size) for reader in of_all if not reader.problem}
    # The journal is read once for all readers, and not at all where offsets say everything.
    read = index if asked else index.limit(0)
    firsts = first_numbers(
        read.join(wanted, on="persistence_id", how="left_semi"), asked
    ).localCheckpoint()
    needs = [
        needs_of(consumer, wanted, stored[consumer.name], firsts, moments[consumer.name])
        for consumer in consumers
    ]
    needs += [
        _restarted(consumer, wanted, stored[consumer.name], index)
        for consumer in consumers
        if consumer.definition.reset_after is not None
    ]
    needs += [
        behind(reader, wanted, firsts, run.settings.bucket_size)
        for reader in of_all
        if not reader.problem
    ]
    if len(of_all) < len(others):
        needs.append(_of_ids([reader for reader in others if reader not in of_all], wanted))
    if Pieces.of(run.control, run.settings, applications.TAG_WRITE).entries():
        needs.append(untagged(wanted, frames.scanning(run.spark, run.settings)))
    lost = [reader for reader in of_all if reader.problem]
    return EventNeeds(
        lowest(needs or [_none(wanted)]).localCheckpoint(),
        everything=(*absent_lines(run, given_up), *lines(lost)),
        told=tuple(lines([reader for reader in others if reader not in lost])),
    )


@shaped(index=MESSAGES, returns=shapes.FIRSTS)
def first_numbers(index: DataFrame, moments: Collection[int]) -> DataFrame:
    """Find the lowest sequence nr of each persistence id from some moments (epoch ms) on."""
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
    """Find what a projection needs of each persistence id that its source has.

    Args:
        consumer: the projection.
        ids: unique persistence ids.
        stored: its offsets.
        firsts: as `first_numbers` makes it, with the consumer's `begin` and `again_from`.
        again_from: the first time bucket of which it reads consumed events again; None for none.
    """
    known = stored.select("persistence_id", "stored_number")
    rows = (
        ids.where(_has(consumer.definition.source))
        .join(known, on="persistence_id", how="left")
        .join(firsts, on="persistence_id", how="left")
    )
    # No event yet is in the projection's time buckets: the next one may be.
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


@shaped(ids=shapes.ID, scanning=SCANNING, returns=shapes.EVENT_NEEDS)
def untagged(ids: DataFrame, scanning: DataFrame) -> DataFrame:
    """Find what tag-write needs: the events behind those that tag_scanning says are written."""
    written = F.coalesce(F.col("scanned_to"), F.lit(0))
    return ids.join(scanning, on="persistence_id", how="left").select(
        "persistence_id",
        (written + 1).cast("bigint").alias("needed_from"),
        F.lit(TAG_WRITE).alias("reader"),
    )


@shaped(ids=shapes.ID, firsts=shapes.FIRSTS, returns=shapes.EVENT_NEEDS)
def behind(reader: Reader, ids: DataFrame, firsts: DataFrame, size: BucketSize) -> DataFrame:
    """Find what a reader of all events needs that has come to a time: all from its bucket on."""
    first = F.col(_first(reader.begin(size)))
    needed_from = F.coalesce(first, F.col("next_number"), F.lit(1)).cast("bigint")
    return ids.join(firsts, on="persistence_id", how="left").select(
        "persistence_id", needed_from.alias("needed_from"), F.lit(reader.name).alias("reader")
    )


def _of_ids(readers: Sequence[Reader], ids: DataFrame) -> DataFrame:
    """Return the needs of readers of single persistence ids, which somebody has listed."""
    rows = [
        (
            reader.persistence_id,
            1 if reader.problem or reader.sequence_nr is None else reader.sequence_nr + 1,
            reader.name,
        )
        for reader in readers
    ]
    schema = ", ".join(f"{name} {kind}" for name, kind in shapes.EVENT_NEEDS.items())
    return local_rows(ids.sparkSession, rows, schema).join(
        ids, on="persistence_id", how="left_semi"
    )


def lowest(needs: Sequence[DataFrame]) -> DataFrame:
    """Find the lowest need of each persistence id, and whose it is; frames of EVENT_NEEDS."""
    first = F.min(F.struct("needed_from", "reader")).alias("first")
    return (
        reduce(DataFrame.unionByName, needs)
        .groupBy("persistence_id")
        .agg(first)
        .select("persistence_id", "first.needed_from", "first.reader")
    )


def _first(moment: int) -> str:
    return f"first_{moment}".replace("-", "minus_")


def _has(source: EventSource) -> Column:
    """Return whether the source has the events of a persistence id."""
    if isinstance(source, PersistenceIds):
        return F.col("persistence_id").isin(*source.ids)
    if isinstance(source, KafkaJournal) or source.entity_types is None:
        return F.lit(True)
    return columns.entity_type(F.col("persistence_id")).isin(*source.entity_types)


def _again_from(consumer: Consumer, index: DataFrame, stored: DataFrame) -> int | None:
    """Return the time bucket of `Progress.again_from`, or an earlier one of an unconsumed event.

    A mode that replaces time buckets needs all events of those that have such an event, as soon as
    it takes that in.
    """
    again_from = consumer.progress.again_from
    if not consumer.definition.mode.replaces_buckets:
        return again_from
    known = stored.select("persistence_id", "stored_number")
    is_open = F.col("sequence_nr") > F.coalesce(F.col("stored_number"), F.lit(0))
    unconsumed = (
        index.where(_has(consumer.definition.source) & (F.col("time_bucket") >= consumer.begin))
        .join(known, on="persistence_id", how="left")
        .where(is_open)
        .agg(F.min("time_bucket").alias("first"))
        .collect()[0]
        .first
    )
    return min((b for b in (again_from, unconsumed) if b is not None), default=None)


def _restarted(
    consumer: Consumer, ids: DataFrame, stored: DataFrame, index: DataFrame
) -> DataFrame:
    """Find the events after the stored one in time: an id that began anew has low numbers."""
    known = stored.where("stored_timeuuid IS NOT NULL").select(
        "persistence_id", columns.timeuuid_ticks(F.col("stored_timeuuid")).alias("stored_ticks")
    )
    return (
        index.where(_has(consumer.definition.source))
        .join(ids, on="persistence_id", how="left_semi")
        .join(known, on="persistence_id")
        .where(F.col("ticks") > F.col("stored_ticks"))
        .groupBy("persistence_id")
        .agg(F.min("sequence_nr").alias("needed_from"))
        .withColumn("reader", F.lit(consumer.name))
    )


def _none(ids: DataFrame) -> DataFrame:
    nothing = ids.limit(0)
    return nothing.select(
        "persistence_id", F.lit(0).cast("bigint").alias("needed_from"), F.lit("").alias("reader")
    )
