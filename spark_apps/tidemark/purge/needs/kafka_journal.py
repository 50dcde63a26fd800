"""The seq_nr from which readers of topics still need the events of kafka-journal's journals."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.kafka import frames
from tidemark.partitioning.slice_ranges import ALL as ALL_SLICES
from tidemark.project.definition.source import KafkaJournal
from tidemark.project.offset_store.consumption import stored_offsets
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning import history
from tidemark.purge.needs import shapes
from tidemark.purge.needs.consumers import Consumer, consumers_of
from tidemark.purge.needs.numbered import (
    again_from_of,
    first_numbers,
    needs_of,
    none,
    of_ids,
    restarted,
)
from tidemark.purge.needs.readers import Reader, ReaderSource, lines, readers_of
from tidemark.purge.needs.tag_views import absent_lines
from tidemark.spark.shapes import shaped


@dataclass(frozen=True)
class TopicNeeds:
    """The needs of the readers of topics.

    Attributes:
        per_id: by topic and id, the lowest seq_nr that a reader still needs, of TOPIC_NEEDS; no
            reader needs an id without a row.
        everything: a line for each reader that may need all existing events, and why.
        notices: lines on readers that hold back some events and may no longer exist.
    """

    per_id: DataFrame
    everything: tuple[str, ...]
    notices: tuple[str, ...]


@shaped(events=shapes.TOPIC_EVENTS)
def needed_of_topics(
    run: RunContext, events: DataFrame, given_up: Collection[str] = ()
) -> TopicNeeds:
    """Find which events of some journals readers need.

    Readers are the projections of source `kafka-journal` and the registered readers of topics.
    `given_up` are the names of projections without a file, and of other readers, that need nothing.
    """
    readers = [
        reader
        for reader in readers_of(run.control, run.settings, given_up)
        if reader.source in (ReaderSource.TOPIC, None)
    ]
    unknown = [reader for reader in readers if reader.source is None or not reader.of]
    of_topics = [reader for reader in readers if reader not in unknown]
    consumers = consumers_of(run, lambda definition: isinstance(definition.source, KafkaJournal))
    needs = [_of_consumer(run, consumer, events) for consumer in consumers]
    needs += [of_reader(reader, events) for reader in of_topics]
    return TopicNeeds(
        _lowest(needs, events),
        everything=(*absent_lines(run, given_up), *lines(unknown)),
        notices=tuple(lines(of_topics)),
    )


def _of_consumer(run: RunContext, consumer: Consumer, events: DataFrame) -> DataFrame:
    source, settings = consumer.definition.source, run.settings
    topic = source.topic if isinstance(source, KafkaJournal) else ""
    topic_events = events.where(F.col("topic") == topic)
    offsets = stored_offsets(OffsetStore.of(run, consumer.definition), run.spark, ALL_SLICES)
    # Another journal's late event may need what shares its time bucket.
    heads = frames.heads(run.spark, settings, topic)
    again_from = again_from_of(consumer, frames.events(heads, settings, topic), offsets)
    starts = {m for m in (again_from, consumer.begin) if m is not None and m != history.ALL}
    ids = topic_events.select("persistence_id").distinct()
    needs = needs_of(consumer, ids, offsets, first_numbers(topic_events, starts), again_from)
    if consumer.definition.reset_after is not None:
        needs = needs.unionByName(restarted(consumer, ids, offsets, topic_events))
    return needs.withColumn("topic", F.lit(topic))


@shaped(events=shapes.TOPIC_EVENTS, returns=shapes.TOPIC_NEEDS)
def of_reader(reader: Reader, events: DataFrame) -> DataFrame:
    """Find the needs of a reader of source `topic` in each journal of its topic."""
    topic_events = events.where(F.col("topic") == reader.of)
    ids = topic_events.select("persistence_id").distinct()
    if reader.persistence_id:
        needs = of_ids([reader], ids)
    else:
        is_open = F.lit(True)
        for partition, offset in sorted(reader.kafka_offsets.items()):
            is_consumed = (F.col("partition") == partition) & (F.col("offset") <= offset)
            is_open = is_open & ~F.coalesce(is_consumed, F.lit(False))
        first = F.min(F.when(is_open, F.col("sequence_nr")))
        next_number = F.max("sequence_nr") + 1
        needs = topic_events.groupBy("persistence_id").agg(
            F.coalesce(first, next_number).alias("needed_from"), F.lit(reader.name).alias("reader")
        )
    return needs.withColumn("topic", F.lit(reader.of))


def _lowest(needs: Sequence[DataFrame], events: DataFrame) -> DataFrame:
    if not needs:
        return none(events).withColumn("topic", F.lit(""))
    first = F.min(F.struct("needed_from", "reader")).alias("first")
    by_id = reduce(DataFrame.unionByName, needs).groupBy("topic", "persistence_id").agg(first)
    return by_id.select("topic", "persistence_id", "first.needed_from", "first.reader")
