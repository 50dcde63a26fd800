"""Reads of new messages only: those after a known sequence nr of each persistence id.

`after` requests the messages with sequence_nr > n, and not the key n + 1: lost or expired messages
do not hide later ones. Such a read also finds late events, including the last event of a quiet
persistence id.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import count

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.journals.pekko import frames, shapes
from tidemark.journals.pekko.messages import ranges
from tidemark.partitioning import columns
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped

MAX_WIDTH = 4096
"""The most keys of one persistence id in one round."""
_NO_LIMIT = (1 << 63) - 1
_FEW = 16
"""The most messages that are read instead of searched: a request costs as much as about ten."""
_SPARE = 4
"""A read may get 1/_SPARE as many messages after the end, in vain, as there are before it."""
_MOST_PARTITIONS = 10_000
"""The most partitions of one persistence id that are read at first because of a `named_nr`."""
_ESTIMATES = 8
"""Steps of a search that estimate the position of the end; later steps halve the interval."""


@shaped(known_ids=shapes.KNOWN_IDS, returns=shapes.KNOWN_STARTS)
def start_positions(spark: SparkSession, settings: Settings, known_ids: DataFrame) -> DataFrame:
    """Return where to start for each persistence id, known or listed in all_persistence_ids."""
    listed = connector.read(
        spark, settings.journal_keyspace, settings.all_persistence_ids_table, "persistence_id"
    )
    ids = known_ids.select("persistence_id", "known_to").join(
        listed, on="persistence_id", how="full"
    )
    return starts(ids, frames.deleted(spark, settings))


@shaped(known_ids=shapes.KNOWN_IDS, deleted=shapes.DELETED, returns=shapes.KNOWN_STARTS)
def starts(known_ids: DataFrame, deleted: DataFrame) -> DataFrame:
    """Return where to start for each persistence id; `known_to` may be null."""
    known_to = F.coalesce(F.col("known_to"), F.lit(0))
    first = F.greatest(known_to, F.coalesce(F.col("deleted_to"), F.lit(0))) + 1
    return known_ids.join(deleted, on="persistence_id", how="left").select(
        "persistence_id", known_to.cast("bigint").alias("known_to"), first.alias("first_nr")
    )


@shaped(beginning=shapes.STARTS, returns=shapes.MESSAGES)
def after(
    beginning: DataFrame, settings: Settings, *payload: str, end: int | None = None
) -> DataFrame:
    """Read the messages from `first_nr` on, with columns `payload`, by ranges within partitions.

    A quiet persistence id costs two requests. Nothing is read beyond the messages that existed
    when the read began. The rows are in memory.

    `beginning` is unique in persistence_id. In a further column `named_nr` it may have a sequence
    nr (bigint) that another table records: its partition is read even if the partitions before it
    are empty, and `end` does not stop the read before it.

    The read stops before a message of the time `end` (epoch ms) or later. If clocks disagree,
    earlier messages may follow it; messages after it may be among the rows.
    """
    if "named_nr" not in beginning.columns:
        beginning = beginning.withColumn("named_nr", F.lit(None).cast("bigint"))
    highest = _highest(beginning, settings)
    read_ranges = highest.withColumnRenamed("high_nr", "last_nr")
    if end is not None:

        def first_events(searched: DataFrame) -> DataFrame:
            return _timed(ranges.read(searched, settings, "timestamp", only="first"))

        read_ranges = before_end(highest, end, first_events)
    messages = ranges.messages(read_ranges, settings, *payload).localCheckpoint()
    # A union, since Spark without adaptive execution cannot join frames that come from a single
    # checkpoint if columns were renamed in between, as tag rules do.
    return messages.unionByName(messages.limit(0).localCheckpoint())


@shaped(beginning={**shapes.STARTS, **shapes.NAMED}, returns=shapes.HIGHEST)
def _highest(beginning: DataFrame, settings: Settings) -> DataFrame:
    """Find the last message of each partition; a partition without new messages has no row.

    A message is in the partition of its sequence nr or in the next one (docs/real-systems.md,
    "Partitions"). So the search ends when both partitions of the next sequence nr are read.
    """
    size = settings.target_partition_size
    first = columns.partition_nr(F.col("first_nr"), size)
    named_partition = columns.partition_nr(F.greatest("first_nr", "named_nr"), size)
    # A wrong progress must not name more partitions than a run can read.
    last_read = F.least(named_partition, first + _MOST_PARTITIONS) + 1
    # Checkpoints and not caches: a cached frame carries the plans of all earlier rounds.
    starts = beginning.select("persistence_id", "first_nr", "named_nr").localCheckpoint()
    frontier = starts.select(
        "persistence_id", "first_nr", first.alias("from_partition"), last_read.alias("partition")
    ).localCheckpoint()
    rounds: list[DataFrame] = []
    width = 1
    while True:
        partition_nrs = F.explode(F.sequence("from_partition", "partition"))
        requests = frontier.select(
            "persistence_id",
            partition_nrs.alias("partition_nr"),
            "first_nr",
            F.lit(_NO_LIMIT).alias("last_nr"),
        )
        last = ranges.read(requests, settings, "timestamp", only="last").localCheckpoint()
        rounds.append(last)
        reached = last.groupBy("persistence_id").agg(F.max("sequence_nr").alias("reached_nr"))
        following = columns.partition_nr(F.col("reached_nr") + 1, size) + 1
        frontier = (
            frontier.join(reached, on="persistence_id")
            .where(following > F.col("partition"))
            .select(
                "persistence_id",
                "first_nr",
                (F.col("partition") + 1).alias("from_partition"),
                F.greatest(following, F.col("partition") + width).alias("partition"),
            )
            .localCheckpoint()
        )
        if frontier.isEmpty():
            break
        width *= 2
    last = _timed(reduce(DataFrame.unionByName, rounds))
    return last.join(starts, on="persistence_id").select(
        "persistence_id",
        "partition_nr",
        "first_nr",
        F.col("sequence_nr").alias("high_nr"),
        F.col("epoch_ms").alias("high_ms"),
        "named_nr",
    )


@shaped(highest=shapes.HIGHEST, returns=shapes.RANGES)
def before_end(highest: DataFrame, end: int, ask: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Return the ranges of messages before the first message of `end` (epoch ms) or later.

    `highest` has the last message of each partition; `ask` reads the first event of each range,
    with its `epoch_ms`.
    """
    is_end = F.when(F.col("high_ms") >= end, F.col("partition_nr"))
    of_id = Window.partitionBy("persistence_id")
    placed = highest.withColumn("end_partition", F.min(is_end).over(of_id)).localCheckpoint()
    with_end = placed.where(F.col("partition_nr") == F.col("end_partition")).select(
        "persistence_id",
        "partition_nr",
        "first_nr",
        (F.col("first_nr") - 1).alias("low_nr"),
        F.lit(None).cast("bigint").alias("low_ms"),
        "high_nr",
        "high_ms",
    )
    ends = _search(with_end, end, ask)
    is_before_end = F.coalesce(F.col("partition_nr") < F.col("end_partition"), F.lit(True))
    # `greatest` and `least` skip nulls.
    last_nr = F.greatest(
        F.when(is_before_end, F.col("high_nr")),
        F.col("end_nr") - 1,
        F.when(F.col("named_nr").isNotNull(), F.least("named_nr", "high_nr")),
    )
    return (
        placed.join(ends, on=["persistence_id", "partition_nr"], how="left")
        .select("persistence_id", "partition_nr", "first_nr", last_nr.alias("last_nr"))
        .where(F.col("last_nr") >= F.col("first_nr"))
    )


def _search(intervals: DataFrame, end: int, ask: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Return a sequence nr `end_nr` near the first event of `end` or later in each partition.

    That event is at `end_nr` or before it, with at most a quarter of the earlier events between
    them. The event at `low_nr` is before the end, the first from `high_nr` on is not. The search
    assumes that time passes evenly between them; if that does not soon help, it halves.
    """
    before_low = F.col("low_nr") - F.col("first_nr") + 1
    unknown = F.col("high_nr") - F.col("low_nr") - 1
    is_close = unknown <= F.greatest(F.lit(_FEW), before_low / _SPARE)
    key = ["persistence_id", "partition_nr"]
    results: list[DataFrame] = []
    for step in count():
        results.append(intervals.where(is_close).select(*key, F.col("high_nr").alias("end_nr")))
        searching = intervals.where(~is_close).withColumn("asked_nr", _guess(step, end))
        if searching.isEmpty():
            break
        requests = searching.select(
            *key, F.col("asked_nr").alias("first_nr"), F.lit(_NO_LIMIT).alias("last_nr")
        )
        answers = ask(requests).select(*key, "sequence_nr", "epoch_ms")
        # An event that was deleted meanwhile has no row.
        is_before = F.coalesce(F.col("epoch_ms") < end, F.lit(False))
        intervals = (
            searching.join(answers, on=key, how="left")
            .select(
                *key,
                "first_nr",
                F.when(is_before, F.col("sequence_nr")).otherwise(F.col("low_nr")).alias("low_nr"),
                F.when(is_before, F.col("epoch_ms")).otherwise(F.col("low_ms")).alias("low_ms"),
                F.when(is_before, F.col("high_nr")).otherwise(F.col("asked_nr")).alias("high_nr"),
                F.when(is_before, F.col("high_ms"))
                .otherwise(F.coalesce("epoch_ms", "high_ms"))
                .alias("high_ms"),
            )
            .localCheckpoint()
        )
    return reduce(DataFrame.unionByName, results)


def _guess(step: int, end: int) -> Column:
    """Return the next sequence nr to read, between low_nr and high_nr.

    Estimates are alternately a little above and below the expected position, to approach it from
    both sides.
    """
    low, high, first = F.col("low_nr"), F.col("high_nr"), F.col("first_nr")
    if step == 0:
        return first
    share: Column = F.lit(0.5)
    margin: Column = F.lit(0)
    if step <= _ESTIMATES:
        share = (end - F.col("low_ms")) / (F.col("high_ms") - F.col("low_ms"))
        margin = (low + (high - low) * share - first) / 16 + 1
    position = low + (high - low) * share + (margin if step % 2 else -margin)
    return F.greatest(low + 1, F.least(high - 1, position.cast("bigint")))


def _timed(events: DataFrame) -> DataFrame:
    return events.withColumn("epoch_ms", columns.timeuuid_epoch_ms(F.col("timestamp")))


@shaped(beginning=shapes.STARTS, returns=shapes.PLACED_EVENTS)
def in_rounds(
    beginning: DataFrame,
    ask: Callable[[DataFrame, int], DataFrame],
    *,
    end_bucket: int | None = None,
) -> DataFrame:
    """Read the events of each persistence id from `first_nr` on, in rounds of exact sequence nrs.

    The number of sequence nrs doubles with each round. If the last one of a round is missing, the
    read of that persistence id ends: the caller must find the events after it in another way. It
    also stops after an event of the time bucket `end_bucket` (epoch ms) or a later one; later
    events may or may not be among the rows.

    `beginning` is unique in persistence_id; `ask` reads the events of `numbers(frontier, width)`.
    The rows have the columns of `ask` and are in memory.
    """
    rounds: list[DataFrame] = []
    # Checkpoints and not caches: a cached frame carries the plans of all earlier rounds.
    frontier, width = beginning.select("persistence_id", "first_nr").localCheckpoint(), 1
    while True:
        events = ask(frontier, width).localCheckpoint()
        rounds.append(events)
        last = events.groupBy("persistence_id").agg(
            F.max("sequence_nr").alias("last_nr"), F.max("time_bucket").alias("last_bucket")
        )
        is_before_end = F.lit(True) if end_bucket is None else F.col("last_bucket") < end_bucket
        frontier = (
            last.join(frontier, on="persistence_id")
            .where((F.col("last_nr") == F.col("first_nr") + width - 1) & is_before_end)
            .select("persistence_id", (F.col("last_nr") + 1).alias("first_nr"))
            .localCheckpoint()
        )
        if frontier.isEmpty():
            return reduce(DataFrame.unionByName, rounds)
        width = min(2 * width, MAX_WIDTH)


@shaped(frontier=shapes.STARTS, returns=shapes.MESSAGES)
def messages_in(frontier: DataFrame, width: int, settings: Settings, *payload: str) -> DataFrame:
    """Read the messages of a round."""
    return frames.messages_of(keys_of(numbers(frontier, width), settings), settings, *payload)


@shaped(frontier=shapes.STARTS, returns=shapes.EVENT)
def numbers(frontier: DataFrame, width: int) -> DataFrame:
    """Return the sequence nrs of one round."""
    sequence_nrs = F.sequence(F.col("first_nr"), F.col("first_nr") + (width - 1))
    return frontier.select("persistence_id", F.explode(sequence_nrs).alias("sequence_nr"))


@shaped(events=shapes.EVENT, returns=shapes.PARTITIONED_EVENTS)
def keys_of(events: DataFrame, settings: Settings) -> DataFrame:
    """Return the keys of events in the form that `frames.messages_of` takes.

    There are two rows for each event, because the event may be in either of two partitions.
    """
    both = columns.message_partitions(F.col("sequence_nr"), settings.target_partition_size)
    return events.select("persistence_id", F.explode(both).alias("partition_nr"), "sequence_nr")
