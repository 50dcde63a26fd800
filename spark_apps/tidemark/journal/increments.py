"""Reads of new messages only: those after a known sequence nr of each persistence id.

Pekko writes the sequence nrs of a persistence id one by one without a gap. One read of the key
n + 1 therefore answers whether any event follows n. Such a read also finds late events, including
the last event of a quiet persistence id.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.journal import frames, shapes
from tidemark.partitioning import columns
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped

MAX_WIDTH = 4096
"""The most keys of one persistence id in one round."""


@shaped(known_ids=shapes.KNOWN_IDS, returns=shapes.KNOWN_STARTS)
def start_positions(spark: SparkSession, settings: Settings, known_ids: DataFrame) -> DataFrame:
    """Return where to start for each persistence id, known or listed in all_persistence_ids."""
    listed = connector.read(
        spark, settings.journal_keyspace, settings.all_persistence_ids_table, "persistence_id"
    )
    ids = known_ids.select("persistence_id", "known_to").join(
        listed, on="persistence_id", how="full"
    )
    known_to = F.coalesce(F.col("known_to"), F.lit(0))
    first = F.greatest(known_to, F.coalesce(F.col("deleted_to"), F.lit(0))) + 1
    return ids.join(frames.deleted(spark, settings), on="persistence_id", how="left").select(
        "persistence_id", known_to.cast("bigint").alias("known_to"), first.alias("first_nr")
    )


@shaped(beginning=shapes.STARTS, returns=shapes.MESSAGES)
def after(
    beginning: DataFrame, settings: Settings, *payload: str, end_bucket: int | None = None
) -> DataFrame:
    """Read the messages from `first_nr` on, by direct joins; the keys per id double each round.

    A row may lie one partition beyond the one that the formula gives (docs/real-systems.md,
    "Partitions"), so each round reads both partitions.

    Args:
        beginning: where to start; unique in persistence_id.
        settings: where the journal is.
        payload: further columns to read.
        end_bucket: stop after an event of this time bucket or a later one (epoch ms); later events
            may or may not be among the rows.

    The rows are in memory.

    Raises:
        CassandraUnavailable: the plan would scan the whole table instead.
    """

    def ask(frontier: DataFrame, width: int) -> DataFrame:
        return messages_in(frontier, width, settings, *payload)

    return in_rounds(beginning, ask, end_bucket=end_bucket)


@shaped(beginning=shapes.STARTS, returns=shapes.PLACED_EVENTS)
def in_rounds(
    beginning: DataFrame,
    ask: Callable[[DataFrame, int], DataFrame],
    *,
    end_bucket: int | None = None,
) -> DataFrame:
    """Read the events of each persistence id from `first_nr` on, up to the first missing event.

    Args:
        beginning: as for `after`.
        ask: the function that reads the events of `numbers(frontier, width)`.
        end_bucket: as for `after`.

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

    There are two rows for each event, because the event may lie in either of two partitions.
    """
    either = columns.message_partitions(F.col("sequence_nr"), settings.target_partition_size)
    return events.select("persistence_id", F.explode(either).alias("partition_nr"), "sequence_nr")
