"""Reading only what is new: how far each persistence id is complete, and the events after that.

A sequence nr has no successor that could be missing: Pekko writes them one by one without a gap.
So "is there anything after n" is one look at the key n + 1, and whatever came late is found by it
too, the last event of a quiet persistence id included.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import spark_io
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.journal import frames
from tidemark.partitioning import columns
from tidemark.settings import Settings

TABLE = "tag_write_tail"
MAX_WIDTH = 4096
"""Keys of one persistence id in one round."""


def known(spark: SparkSession, settings: Settings, rules_version: str) -> DataFrame:
    """How far each persistence id is complete.

    A row that was written under other tag rules is void; so is one ahead of tag_scanning, which
    whoever deletes or truncates tag views clears (facts: pekko-cassandra §4, §6).

    Columns: persistence_id, known_to (bigint, above 0), numbers (map<string,bigint>).
    """
    stored = spark_io.read(
        spark,
        settings.keyspace,
        TABLE,
        "journal_keyspace",
        "persistence_id",
        "sequence_nr",
        "numbers",
        "rules_version",
    )
    is_ours = (F.col("journal_keyspace") == settings.journal_keyspace) & (
        F.col("rules_version") == rules_version
    )
    return (
        stored.where(is_ours)
        .join(frames.scanning(spark, settings), on="persistence_id")
        .where(F.col("scanned_to") >= F.col("sequence_nr"))
        .select("persistence_id", F.col("sequence_nr").alias("known_to"), "numbers")
    )


def beginnings(spark: SparkSession, settings: Settings, known_ids: DataFrame) -> DataFrame:
    """Where to look for each persistence id that is known or listed in all_persistence_ids.

    Columns in: those of `known`. Columns out: persistence_id, known_to (0 when unknown),
    first_nr: the first sequence nr that may be new, behind what was deleted.
    """
    listed = spark_io.read(
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


def after(beginning: DataFrame, settings: Settings, *payload: str) -> DataFrame:
    """The messages at and after `first_nr`, by direct joins whose number doubles each round.

    A row may lie one partition beyond the formula (facts: pekko-cassandra §2), so both are asked.

    Args:
        beginning: persistence_id, first_nr; unique.
        settings: where the journal is.
        payload: further columns to read.

    Columns: those of `journal.frames.message_index`, and `payload`. The rows are in memory.

    Raises:
        CassandraUnavailable: the plan would scan the whole table instead.
    """
    rounds: list[DataFrame] = []
    # Checkpoints and not caches: a cached frame drags the plans of all rounds before it along.
    frontier, width = beginning.select("persistence_id", "first_nr").localCheckpoint(), 1
    while True:
        wanted = _wanted(frontier, width, settings)
        found = frames.messages_of(wanted, settings, *payload).localCheckpoint()
        rounds.append(found)
        last = found.groupBy("persistence_id").agg(F.max("sequence_nr").alias("last_nr"))
        frontier = (
            last.join(frontier, on="persistence_id")
            .where(F.col("last_nr") == F.col("first_nr") + width - 1)
            .select("persistence_id", (F.col("last_nr") + 1).alias("first_nr"))
            .localCheckpoint()
        )
        if frontier.isEmpty():
            return reduce(DataFrame.unionByName, rounds)
        width = min(2 * width, MAX_WIDTH)


def _wanted(frontier: DataFrame, width: int, settings: Settings) -> DataFrame:
    numbers = F.sequence(F.col("first_nr"), F.col("first_nr") + (width - 1))
    formula = columns.partition_nr(F.col("sequence_nr"), settings.target_partition_size)
    return (
        frontier.select("persistence_id", F.explode(numbers).alias("sequence_nr"))
        .withColumn("partition_nr", F.explode(F.array(formula, formula + 1)))
        .select("persistence_id", "partition_nr", "sequence_nr")
    )


def forget(control: Control, settings: Settings, persistence_ids: frozenset[str] | None) -> None:
    """Void what is known of those persistence ids, or of all: their tag views are about to change.

    Raises:
        CassandraUnavailable: a statement failed.
    """
    tail = table(settings.keyspace, TABLE)
    if persistence_ids is None:
        # Other journals lose theirs too: they are read whole once more, and nothing else.
        control.execute_ddl(f"TRUNCATE {tail}")
        return
    control.execute_many(
        f"DELETE FROM {tail} WHERE journal_keyspace = ? AND persistence_id = ?",
        [(settings.journal_keyspace, persistence_id) for persistence_id in persistence_ids],
    )
