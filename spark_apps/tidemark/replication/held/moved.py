"""Keys whose records lie in several partitions: what of them is replicated when.

Partitions are added to a topic, and a key's records go to another one from then on. Offsets of two
partitions do not compare, so the records of the new partition wait in quarantine until the one that
the head names is replicated to its end.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.kafka_journal.tables import JOURNAL_KEY
from tidemark.kafka_journal.wire.shapes import DECODED
from tidemark.replication.events import actions_of
from tidemark.replication.kafka.topics import TopicPartition
from tidemark.replication.quarantine import Quarantined
from tidemark.replication.shapes import HEADS, HELD_FROM, STOPPED
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped

_OF_KEY = (*JOURNAL_KEY, "partition")


@shaped(decoded=DECODED, heads=HEADS, held=HELD_FROM)
def sorted_out(
    decoded: DataFrame,
    heads: DataFrame,
    held: DataFrame | None,
    replicated: Mapping[TopicPartition, int],
) -> tuple[DataFrame, DataFrame]:
    """Return the records to replicate, and those that wait; as DECODED and STOPPED.

    What is of another partition than its key waits, unless an earlier range had it: then it was
    replicated before its key moved, and is left out.

    Args:
        decoded: records that can be read.
        heads: those of their keys.
        held: the keys that are kept back.
        replicated: the offset up to which earlier ranges of each partition have come.
    """
    ends = local_rows(
        decoded.sparkSession,
        [(one.topic, one.partition, end) for one, end in replicated.items()],
        "topic string, partition int, replicated_to bigint",
    )
    placed = (
        decoded.join(_homes(decoded, heads, held), list(JOURNAL_KEY), "left")
        .join(F.broadcast(ends), ["topic", "partition"], "left")
        .localCheckpoint()
    )
    is_away = F.coalesce(F.col("partition") != F.col("home"), F.lit(False))
    was_replicated = F.col("has_head") & (F.col("offset") < F.col("replicated_to"))
    waits = is_away & ~F.coalesce(was_replicated, F.lit(False))
    text = F.concat(F.lit("the key has come from partition "), F.col("home"))
    reason = F.when(F.col("is_held"), ", where records of it are held").otherwise(
        ", and waits until all of it there is replicated"
    )
    waiting = placed.where(waits).withColumns(
        {"cause": F.concat(text, reason), "state": F.lit(Quarantined.WAITING.value)}
    )
    return placed.where(~is_away).select(*DECODED), waiting.select(*STOPPED)


def _homes(decoded: DataFrame, heads: DataFrame, held: DataFrame | None) -> DataFrame:
    """Return the partition of each key whose records come first.

    It is that of a held record, or else that of the head, or else that of the oldest record.
    """
    oldest = F.min_by("partition", F.struct("timestamp", "partition", "offset"))
    first = actions_of(decoded).groupBy(*JOURNAL_KEY).agg(oldest.alias("first"))
    of_heads = heads.select(*JOURNAL_KEY, F.col("head")["partition"].alias("of_head"))
    known = first.join(of_heads, list(JOURNAL_KEY), "left")
    of_held: Column = F.lit(None)
    if held is not None:
        is_held = held.where(F.col("state") == Quarantined.HELD.value)
        partitions = is_held.groupBy(*JOURNAL_KEY).agg(F.min("partition").alias("of_held"))
        known = known.join(partitions, list(JOURNAL_KEY), "left")
        of_held = F.col("of_held")
    home = F.coalesce(of_held, "of_head", "first")
    return known.select(
        *JOURNAL_KEY,
        home.alias("home"),
        F.col("of_head").isNotNull().alias("has_head"),
        F.coalesce(of_held == home, F.lit(False)).alias("is_held"),
    )


@shaped(waiting=DECODED, heads=HEADS, held=HELD_FROM)
def ready(
    waiting: DataFrame,
    heads: DataFrame,
    held: DataFrame | None,
    ended: Mapping[TopicPartition, bool],
    run_id: str,
) -> DataFrame:
    """Return the keys, each with one partition, whose waiting records may be replicated.

    Of a key that waits in several partitions, it is that of the oldest record.

    Args:
        waiting: records in quarantine, with `run_id`, that of the run that has found them.
        heads: those of their keys.
        held: the keys that are kept back.
        ended: the partitions that are replicated to where they ended at the start of the run, each
            with whether that is still its end.
        run_id: the id of the run. What it has found itself may be newer than the ends it knows.
    """
    ends = local_rows(
        waiting.sparkSession,
        [(one.topic, one.partition, is_still) for one, is_still in ended.items()],
        "topic string, home int, is_still boolean",
    )
    oldest = F.struct("timestamp", "partition", "offset")
    turn = waiting.groupBy(*JOURNAL_KEY).agg(
        F.min_by("partition", oldest).alias("partition"), F.min_by("run_id", oldest).alias("found")
    )
    of_heads = heads.select(*JOURNAL_KEY, F.col("head")["partition"].alias("home"))
    keys = turn.join(of_heads, list(JOURNAL_KEY), "left").join(
        F.broadcast(ends), ["topic", "home"], "left"
    )
    is_at_home = F.coalesce(F.col("home") == F.col("partition"), F.col("home").isNull())
    is_older = F.col("is_still").isNotNull() & (F.col("found") != run_id)
    keys = keys.where(is_at_home | F.coalesce(F.col("is_still"), F.lit(False)) | is_older)
    if held is not None:
        stops = held.where(F.col("state") == Quarantined.HELD.value)
        keys = keys.join(stops, list(JOURNAL_KEY), "left_anti")
    return keys.select(*_OF_KEY)
