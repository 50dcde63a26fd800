"""Partitions of messages that are too large."""

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

HELD: Shape = {**PARTITIONS, "events": "bigint"}
"""Partitions with the number of their events."""
_PARTITION = [*PARTITIONS]


@shaped(events=PARTITIONED_EVENTS, returns=HELD)
def held(events: DataFrame) -> DataFrame:
    """Count the events of each partition."""
    return events.groupBy(*_PARTITION).agg(F.count(F.lit(1)).alias("events"))


@shaped(new=PARTITIONED_EVENTS, deleted=DELETED, returns=HELD)
def reached(new: DataFrame, deleted: DataFrame, target_partition_size: int) -> DataFrame:
    """Return how many events the partitions of new events hold, by their numbers alone.

    Sequence nrs have no gaps, so all from the first of the partition to the newest are in it,
    unless they are deleted.
    """
    first = F.greatest(
        F.col("partition_nr") * F.lit(target_partition_size), F.coalesce("deleted_to", F.lit(0))
    )
    newest = new.groupBy(*_PARTITION).agg(F.max("sequence_nr").alias("newest"))
    known = newest.join(deleted, on="persistence_id", how="left")
    return known.select(*_PARTITION, (F.col("newest") - first).cast("bigint").alias("events"))


@shaped(partitions=HELD, returns=shapes.FINDINGS)
def large_partitions(partitions: DataFrame, event_bytes: float) -> DataFrame:
    """Return a finding for each partition with more than BYTES_ADVISED; its number is partition_nr.

    Args:
        partitions: unique.
        event_bytes: the mean bytes of payload of an event, sampled (`cassandra.row_sizes`); the
            bytes of a partition are an estimate by it.
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
