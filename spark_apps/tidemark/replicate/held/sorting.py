"""Which records of a batch are replicated, and which go into quarantine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.kafka.tables import JOURNAL_KEY
from tidemark.journals.kafka.wire.shapes import PLACE
from tidemark.replicate import quarantine
from tidemark.replicate.held import moved
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.replicate.quarantine import Quarantined
from tidemark.replicate.shapes import STOPPED
from tidemark.replicate.tables.heads import heads_of


@dataclass(frozen=True)
class SortedOut:
    """The records of a batch.

    Attributes:
        good: what is replicated.
        quarantined: what goes into quarantine, of shape STOPPED; None if nothing does.
        held: the keys that are kept back from now on, without those that begin to wait; None
            without any.
    """

    good: DataFrame
    quarantined: DataFrame | None
    held: DataFrame | None


def sorted_out(
    run: RunContext,
    raw: DataFrame,
    found: DataFrame,
    partitions: Sequence[TopicPartition],
    *,
    has_poison: bool,
) -> SortedOut:
    """Return the records to replicate, and those that go into quarantine.

    Args:
        run: the context of the run.
        raw: the records of a batch as they stand in Kafka.
        found: the same, decoded, as far as they are read.
        partitions: all of their topics.
        has_poison: whether some of them cannot be read.
    """
    known = None
    if quarantine.keeping_back(run, partitions):
        quarantine.release_others(run, raw, partitions)
        known = quarantine.held_keys(run, partitions)
    if known is None and not has_poison:
        return SortedOut(found, None, None)
    return _sorted(run, found, known)


def _sorted(
    run: RunContext, found: DataFrame, known: DataFrame | None, *waiting: DataFrame
) -> SortedOut:
    quarantined = [*waiting]
    if run.settings.kafka_journal_poison == "skip":
        skipped = found.where(F.col("cause").isNotNull())
        found = found.where(F.col("cause").isNull())
        quarantined.append(skipped.withColumn("state", F.lit(Quarantined.SKIPPED.value)))
    held = quarantine.held_from(found, known)
    quarantined.append(quarantine.stopped(found, held))
    return SortedOut(
        quarantine.passed(found, held), reduce(DataFrame.unionByName, quarantined), held
    )


def lowest_kept_back(them: SortedOut) -> Mapping[TopicPartition, int]:
    """Return the lowest offset of each partition that is kept back after a batch, if any is."""
    place = ("topic", "partition", "offset")
    parts = []
    if them.held is not None:
        parts.append(them.held.withColumnRenamed("held_from", "offset").select(*place))
    if them.quarantined is not None:
        keeps_back = F.col("state").isin([one.value for one in quarantine.KEEPS_BACK])
        parts.append(them.quarantined.where(keeps_back).select(*place))
    if not parts:
        return {}
    of_each = (
        reduce(DataFrame.unionByName, parts)
        .groupBy("topic", "partition")
        .agg(F.min("offset").alias("offset"))
    )
    return {
        TopicPartition(row["topic"], row["partition"]): row["offset"] for row in of_each.collect()
    }


def returns(them: SortedOut) -> bool:
    """Tell whether a key that is kept back in one partition has records in another."""
    if them.held is None:
        return False
    there = them.held.select(*JOURNAL_KEY, F.col("partition").alias("held_in"))
    both = them.good.join(there, list(JOURNAL_KEY))
    return not both.where(F.col("partition") != F.col("held_in")).isEmpty()


def without_waiting(
    run: RunContext, found: DataFrame, partitions: Sequence[TopicPartition]
) -> SortedOut:
    """Return the same, where all records of keys wait that lie in several partitions.

    Args:
        run: the context of the run.
        found: the decoded records of a batch.
        partitions: all of their topics.
    """
    known = quarantine.held_keys(run, partitions)
    heads = heads_of(moved.matters(found).select(*JOURNAL_KEY).distinct(), run.settings)
    keys = moved.in_several_places(found, heads, known).localCheckpoint()
    waiting = moved.matters(found).join(keys, list(JOURNAL_KEY), "left_semi")
    others = found.join(waiting.select(*PLACE), list(PLACE), "left_anti")
    state = F.lit(Quarantined.WAITING.value)
    return _sorted(run, others, known, waiting.withColumn("state", state).select(*STOPPED))
