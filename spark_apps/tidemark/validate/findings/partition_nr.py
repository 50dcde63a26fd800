"""The check of events in a partition of messages in which no reader searches for them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import DELETED
from tidemark.partitioning import columns
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.findings import checks
from tidemark.validate.findings.finding import FindingRule, findings_of


@shaped(events=shapes.PARTITIONED, deleted=DELETED, returns=shapes.FINDINGS)
def misplaced_events(
    events: DataFrame, deleted: DataFrame, target_partition_size: int
) -> DataFrame:
    """Return a finding for each event that is in neither of its two partitions.

    The number of a finding is the sequence nr. Deleted events that still exist are ignored, since
    nobody reads them. `partitioning.keys.message_partitions` has the rule.
    """
    expected = columns.message_partitions(F.col("sequence_nr"), target_partition_size)
    misplaced = events.where(~F.array_contains(expected, F.col("partition_nr"))).join(
        deleted, on="persistence_id", how="left"
    )
    detail = F.format_string(
        "in partition %d, not %d or %d", "partition_nr", expected[0], expected[1]
    )
    rule = FindingRule(
        checks.WRONG_PARTITION_NR,
        F.col("sequence_nr") > F.coalesce("deleted_to", F.lit(0)),
        F.col("sequence_nr"),
        F.lit(None),
        detail,
    )
    return findings_of(misplaced, [rule])
