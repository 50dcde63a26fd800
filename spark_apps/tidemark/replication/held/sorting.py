"""Which records of a batch are replicated, and which go into quarantine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.kafka_journal.tables import JOURNAL_KEY
from tidemark.replication import quarantine
from tidemark.replication.held import moved
from tidemark.replication.kafka.topics import TopicPartition
from tidemark.replication.quarantine import Quarantined
from tidemark.replication.ranges import Range, Ranges
from tidemark.replication.tables.heads import heads_of


@dataclass(frozen=True)
class SortedOut:
    """The records of a batch.

    Attributes:
        good: what is replicated.
        quarantined: what goes into quarantine, of shape STOPPED; None if nothing does.
        held: the keys that earlier runs keep back; None without any.
    """

    good: DataFrame
    quarantined: DataFrame | None
    held: DataFrame | None


def sorted_out(
    run: RunContext,
    raw: DataFrame,
    found: DataFrame,
    told: Sequence[Row],
    partitions: Sequence[TopicPartition],
) -> SortedOut:
    """Return the records to replicate, and those that go into quarantine.

    Args:
        run: the context of the run.
        raw: the records of a batch as they stand in Kafka.
        found: the same, decoded, as far as they are read.
        told: what each partition holds; `poison` is null where all can be read.
        partitions: theirs.
    """
    known = None
    if quarantine.keeping_back(run, partitions):
        quarantine.release_others(run, raw, partitions)
        known = quarantine.held_keys(run, partitions)
    if known is None and all(one["poison"] is None for one in told):
        return SortedOut(found, None, None)
    quarantined = []
    if run.settings.kafka_journal_poison == "skip":
        skipped = found.where(F.col("cause").isNotNull())
        found = found.where(F.col("cause").isNull())
        quarantined.append(skipped.withColumn("state", F.lit(Quarantined.SKIPPED.value)))
    held = quarantine.held_from(found, known)
    quarantined.append(quarantine.stopped(found, held))
    return SortedOut(
        quarantine.passed(found, held), reduce(DataFrame.unionByName, quarantined), known
    )


@dataclass(frozen=True)
class LowestKeptBack:
    """The lowest offset of a topic partition that is kept back.

    Attributes:
        offset: that one.
        is_new: whether records have begun to wait in this batch.
    """

    offset: int
    is_new: bool


def lowest_kept_back(them: SortedOut) -> Mapping[TopicPartition, LowestKeptBack]:
    """Return what of each partition is kept back after a batch, without those of no such record."""
    place = ("topic", "partition", "offset")
    parts = []
    if them.held is not None:
        known = them.held.withColumnRenamed("held_from", "offset")
        parts.append(known.select(*place, F.lit(False).alias("is_new")))
    if them.quarantined is not None:
        is_waiting = F.col("state") == Quarantined.WAITING.value
        keeps_back = F.col("state").isin([one.value for one in quarantine.KEEPS_BACK])
        new = them.quarantined.where(keeps_back)
        parts.append(new.select(*place, is_waiting.alias("is_new")))
    if not parts:
        return {}
    of_each = (
        reduce(DataFrame.unionByName, parts)
        .groupBy("topic", "partition")
        .agg(F.min("offset").alias("offset"), F.bool_or("is_new").alias("is_new"))
    )
    return {
        TopicPartition(row["topic"], row["partition"]): LowestKeptBack(row["offset"], row["is_new"])
        for row in of_each.collect()
    }


def returns(them: SortedOut) -> bool:
    """Tell whether a key that is kept back in one partition has records in another."""
    if them.held is None:
        return False
    return not them.good.join(them.held, list(JOURNAL_KEY), "left_semi").isEmpty()


def without_waiting(run: RunContext, ranges: Sequence[Range], them: SortedOut) -> SortedOut:
    """Return the records of a batch's ranges, without keys that have come from elsewhere."""
    replicated = {one.partition: Ranges(run).highest_end(one) for one in ranges}
    heads = heads_of(them.good.select(*JOURNAL_KEY).distinct(), run.settings)
    good, waiting = moved.sorted_out(them.good, heads, them.held, replicated)
    both = waiting if them.quarantined is None else them.quarantined.unionByName(waiting)
    return SortedOut(good, both, them.held)
