"""Reading only what is new: the messages behind a known sequence nr of each persistence id.

A sequence nr has no successor that could be missing: Pekko writes them one by one without a gap.
So "is there anything after n" is one look at the key n + 1, and whatever came late is found by it
too, the last event of a quiet persistence id included.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.journal import frames
from tidemark.partitioning import columns
from tidemark.settings import Settings

MAX_WIDTH = 4096
"""Keys of one persistence id in one round."""


def start_positions(spark: SparkSession, settings: Settings, known_ids: DataFrame) -> DataFrame:
    """Where to look for each persistence id that is known or listed in all_persistence_ids.

    Columns in: persistence_id, known_to (bigint). Columns out: persistence_id, known_to (0 when
    unknown), first_nr: the first sequence nr that may be new, behind what was deleted.
    """
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


def after(
    beginning: DataFrame, settings: Settings, *payload: str, end_bucket: int | None = None
) -> DataFrame:
    """The messages at and after `first_nr`, by direct joins whose number doubles each round.

    A row may lie one partition beyond the formula (docs/real-systems.md, "Partitions"), so both are
    asked.

    Args:
        beginning: persistence_id, first_nr; unique.
        settings: where the journal is.
        payload: further columns to read.
        end_bucket: stop behind an event of this time bucket or a later one (epoch ms); events
            behind it may come out or not.

    Columns: those of `journal.frames.message_index`, and `payload`. The rows are in memory.

    Raises:
        CassandraUnavailable: the plan would scan the whole table instead.
    """

    def ask(frontier: DataFrame, width: int) -> DataFrame:
        return messages_in(frontier, width, settings, *payload)

    return in_rounds(beginning, ask, end_bucket=end_bucket)


def in_rounds(
    beginning: DataFrame,
    ask: Callable[[DataFrame, int], DataFrame],
    *,
    end_bucket: int | None = None,
) -> DataFrame:
    """The events at and after `first_nr` of each persistence id, up to the first that is missing.

    Args:
        beginning: as for `after`.
        ask: gives the events of `numbers(frontier, width)`: persistence_id, sequence_nr,
            time_bucket, and more.
        end_bucket: as for `after`.

    Columns: those that `ask` gives. The rows are in memory.
    """
    rounds: list[DataFrame] = []
    # Checkpoints and not caches: a cached frame drags the plans of all rounds before it along.
    frontier, width = beginning.select("persistence_id", "first_nr").localCheckpoint(), 1
    while True:
        found = ask(frontier, width).localCheckpoint()
        rounds.append(found)
        last = found.groupBy("persistence_id").agg(
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


def messages_in(frontier: DataFrame, width: int, settings: Settings, *payload: str) -> DataFrame:
    """The messages of one round. Columns in: persistence_id, first_nr; out: those of `after`."""
    return frames.messages_of(keys_of(numbers(frontier, width), settings), settings, *payload)


def numbers(frontier: DataFrame, width: int) -> DataFrame:
    """The sequence nrs of one round. Columns: persistence_id, sequence_nr."""
    wanted = F.sequence(F.col("first_nr"), F.col("first_nr") + (width - 1))
    return frontier.select("persistence_id", F.explode(wanted).alias("sequence_nr"))


def keys_of(events: DataFrame, settings: Settings) -> DataFrame:
    """Make the keys of events, as `frames.messages_of` takes them.

    Columns in: persistence_id, sequence_nr. Columns out: these and partition_nr; two rows for each
    event, which may lie in either partition.
    """
    either = columns.message_partitions(F.col("sequence_nr"), settings.target_partition_size)
    return events.select("persistence_id", F.explode(either).alias("partition_nr"), "sequence_nr")
