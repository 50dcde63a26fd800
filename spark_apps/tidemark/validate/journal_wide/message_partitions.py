"""The check of partitions of messages that are too large."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import DELETED, PARTITIONED_EVENTS, PARTITIONS
from tidemark.spark.shapes import Shape, shaped
from tidemark.validate import shapes
from tidemark.validate.findings import checks
from tidemark.validate.findings.finding import FindingRule, findings_of
from tidemark.validate.findings.partition_size import BYTES_ADVISED
from tidemark.validate.no_time_bucket import no_time_bucket

EVENT_COUNTS: Shape = {**PARTITIONS, "events": "bigint"}
"""Partitions with the number of their events."""
_PARTITION = [*PARTITIONS]


@shaped(events=PARTITIONED_EVENTS, returns=EVENT_COUNTS)
def event_counts(events: DataFrame) -> DataFrame:
    """Count the events of each partition."""
    return events.groupBy(*_PARTITION).agg(F.count(F.lit(1)).alias("events"))


@shaped(new=PARTITIONED_EVENTS, deleted=DELETED, returns=EVENT_COUNTS)
def event_counts_by_number(
    new: DataFrame, deleted: DataFrame, target_partition_size: int
) -> DataFrame:
    """Count the events in partitions of new events, by sequence nrs only.

    Sequence nrs have no gaps, so a partition has all events from its first number to the newest,
    unless they are deleted.
    """
    first = F.greatest(
        F.col("partition_nr") * F.lit(target_partition_size), F.coalesce("deleted_to", F.lit(0))
    )
    newest = new.groupBy(*_PARTITION).agg(F.max("sequence_nr").alias("newest"))
    with_deleted_to = newest.join(deleted, on="persistence_id", how="left")
    return with_deleted_to.select(
        *_PARTITION, (F.col("newest") - first).cast("bigint").alias("events")
    )


@shaped(partitions=EVENT_COUNTS, returns=shapes.FINDINGS)
def large_partitions(partitions: DataFrame, event_bytes: float) -> DataFrame:
    """Return a finding for each partition with more than BYTES_ADVISED; its number is partition_nr.

    `event_bytes`: the mean size of an event's payload, sampled (`cassandra.row_sizes`), by which
    the size of a partition is estimated.
    """
    number, most = F.col("events"), int(BYTES_ADVISED / max(event_bytes, 1))
    detail = F.format_string(
        f"%,d events (%.1f MB of payload, estimated) in partition %d, at most {most:,} of their"
        " size are advised",
        number,
        number * F.lit(event_bytes / (1 << 20)),
        "partition_nr",
    )
    rule = FindingRule(
        checks.PARTITION_TOO_LARGE, number > most, F.col("partition_nr"), F.lit(None), detail
    )
    return findings_of(partitions.withColumn("time_bucket", no_time_bucket()), [rule])
