"""Routes the records of a batch: which are replicated, and which go into quarantine."""

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
from tidemark.replicate.quarantined import KEEPS_BACK, Quarantined, keeping_back
from tidemark.replicate.shapes import STOPPED
from tidemark.replicate.tables.heads import heads_of


@dataclass(frozen=True)
class RoutedRecords:
    """The records of a batch.

    Attributes:
        good: those to replicate.
        quarantined: those to quarantine, of shape STOPPED; None if there are none.
        held: the keys that are kept back from now on, without those that begin to wait; None
            if there are none.
    """

    good: DataFrame
    quarantined: DataFrame | None
    held: DataFrame | None


def route(
    run: RunContext,
    raw: DataFrame,
    parsed: DataFrame,
    partitions: Sequence[TopicPartition],
    *,
    has_poison: bool,
) -> RoutedRecords:
    """Route the records of a batch to replication or quarantine.

    `raw` are the records as they are in Kafka, `parsed` the same, decoded, as far as they are read;
    `partitions` are all partitions of their topics.
    """
    held = None
    if keeping_back(run, partitions):
        quarantine.release_others(run, raw, partitions)
        held = quarantine.held_keys(run, partitions)
    if held is None and not has_poison:
        return RoutedRecords(parsed, None, None)
    return _route(run, parsed, held)


def _route(
    run: RunContext, parsed: DataFrame, known_held: DataFrame | None, *waiting: DataFrame
) -> RoutedRecords:
    quarantined = [*waiting]
    if run.settings.kafka_journal_poison == "skip":
        skipped = parsed.where(F.col("cause").isNotNull())
        parsed = parsed.where(F.col("cause").isNull())
        quarantined.append(skipped.withColumn("state", F.lit(Quarantined.SKIPPED.value)))
    held = quarantine.held_from(parsed, known_held)
    quarantined.append(quarantine.newly_held(parsed, held))
    return RoutedRecords(
        quarantine.replicable(parsed, held), reduce(DataFrame.unionByName, quarantined), held
    )


def lowest_kept_back(routed: RoutedRecords) -> Mapping[TopicPartition, int]:
    """Return the lowest offset of each partition that is kept back after a batch."""
    columns = ("topic", "partition", "offset")
    parts = []
    if routed.held is not None:
        parts.append(routed.held.withColumnRenamed("held_from", "offset").select(*columns))
    if routed.quarantined is not None:
        keeps_back = F.col("state").isin([state.value for state in KEEPS_BACK])
        parts.append(routed.quarantined.where(keeps_back).select(*columns))
    if not parts:
        return {}
    lowest = (
        reduce(DataFrame.unionByName, parts)
        .groupBy("topic", "partition")
        .agg(F.min("offset").alias("offset"))
    )
    return {
        TopicPartition(row["topic"], row["partition"]): row["offset"] for row in lowest.collect()
    }


def splits_held_keys(routed: RoutedRecords) -> bool:
    """Return whether a key that is kept back in one partition has records in another."""
    if routed.held is None:
        return False
    held_keys = routed.held.select(*JOURNAL_KEY, F.col("partition").alias("held_in"))
    records_of_held = routed.good.join(held_keys, list(JOURNAL_KEY))
    return not records_of_held.where(F.col("partition") != F.col("held_in")).isEmpty()


def route_with_waiting(
    run: RunContext, parsed: DataFrame, partitions: Sequence[TopicPartition]
) -> RoutedRecords:
    """Route the records of a batch, with all records of keys in several partitions waiting.

    `partitions` are all partitions of their topics.
    """
    held = quarantine.held_keys(run, partitions)
    heads = heads_of(moved.matters(parsed).select(*JOURNAL_KEY).distinct(), run.settings)
    keys = moved.in_several_places(parsed, heads, held).localCheckpoint()
    waiting = moved.matters(parsed).join(keys, list(JOURNAL_KEY), "left_semi")
    replicable = parsed.join(waiting.select(*PLACE), list(PLACE), "left_anti")
    state = F.lit(Quarantined.WAITING.value)
    return _route(run, replicable, held, waiting.withColumn("state", state).select(*STOPPED))
