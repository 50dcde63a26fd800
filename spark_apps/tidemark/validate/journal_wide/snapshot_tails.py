"""The check of snapshots of events that neither messages nor metadata record."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import DELETED, EVENT, SNAPSHOTS
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.findings import checks
from tidemark.validate.findings.finding import FindingRule, findings_of
from tidemark.validate.no_time_bucket import no_time_bucket


@shaped(snapshots=SNAPSHOTS, events=EVENT, deleted=DELETED, returns=shapes.FINDINGS)
def snapshots_beyond(snapshots: DataFrame, events: DataFrame, deleted: DataFrame) -> DataFrame:
    """Return a finding for each persistence id with a snapshot after its last event.

    In a finding, number is the last sequence nr of messages or deleted_to, 0 without either, and
    expected that of the snapshot. Snapshots were read before the events, since an actor writes the
    event first, and `deleted` after the events.
    """
    newest = snapshots.groupBy("persistence_id").agg(F.max("snapshot_nr").alias("snapshot_nr"))
    last = events.groupBy("persistence_id").agg(F.max("sequence_nr").alias("last_nr"))
    joined = newest.join(last, on="persistence_id", how="left").join(
        deleted, on="persistence_id", how="left"
    )
    last_known, number = F.greatest("last_nr", "deleted_to"), F.col("snapshot_nr")
    detail = F.when(
        last_known.isNull(),
        F.format_string("a snapshot of sequence nr %d, but neither events nor metadata", number),
    ).otherwise(
        F.format_string("a snapshot of sequence nr %d, the events end at %d", number, last_known)
    )
    end = F.coalesce(last_known, F.lit(0))
    rule = FindingRule(checks.SNAPSHOT_BEYOND_EVENTS, number > end, end, number, detail)
    return findings_of(joined.withColumn("time_bucket", no_time_bucket()), [rule])
