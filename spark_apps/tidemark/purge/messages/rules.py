"""Which events to delete, and by which deletes, as pure transformations."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import PROGRESS, SCANNING
from tidemark.purge.messages import shapes
from tidemark.purge.needs.events import TAG_WRITE
from tidemark.purge.shapes import DELETES
from tidemark.spark.shapes import shaped


@shaped(limits=shapes.LIMITS, held=shapes.HELD, returns=shapes.BOUNDED)
def bounded(limits: DataFrame, held: DataFrame) -> DataFrame:
    """Lower each limit below the first event that a reader still needs.

    Only the first events of a persistence id may be deleted: all events after a kept one are kept.
    """
    first = held.groupBy("persistence_id").agg(F.min(F.struct("held_from", "reader")).alias("need"))
    is_held = F.col("need.held_from") <= F.col("to")
    return limits.join(first, on="persistence_id", how="left").select(
        "persistence_id",
        F.when(is_held, F.greatest(F.col("need.held_from") - 1, F.lit(0)))
        .otherwise(F.col("to"))
        .cast("bigint")
        .alias("to"),
        F.when(is_held, F.col("need.held_from")).alias("held_from"),
        F.when(is_held, F.col("need.reader")).alias("reader"),
    )


@shaped(held=shapes.HELD, limits=shapes.LIMITS, returns=shapes.HELD)
def wholly(held: DataFrame, limits: DataFrame) -> DataFrame:
    """Extend each need of an event to all events of its persistence id, except tag-write's needs.

    For persistence ids that are deleted with their tag views.
    """
    needs = held.where(F.col("reader") != TAG_WRITE).join(limits, on="persistence_id")
    return needs.where(F.col("held_from") <= F.col("to")).select(
        "persistence_id", F.lit(1).cast("bigint").alias("held_from"), "reader"
    )


@shaped(events=shapes.EVENTS, progress=PROGRESS, scanning=SCANNING, returns=shapes.HELD)
def without_rows(
    events: DataFrame, progress: DataFrame, scanning: DataFrame, *, has_rules: bool
) -> DataFrame:
    """Return the first event of each persistence id whose tag rows are not written.

    An event's rows are written if the progress of each of its tags has reached it. With tag rules,
    an event may have further tags: then tag_scanning must have passed it, too.
    """
    tagged = events.select("persistence_id", "sequence_nr", F.explode("tags").alias("tag"))
    reached = F.coalesce(F.col("progress_sequence_nr"), F.lit(0))
    unwritten = (
        tagged.join(progress, on=["persistence_id", "tag"], how="left")
        .where(F.col("sequence_nr") > reached)
        .select("persistence_id", "sequence_nr")
    )
    if has_rules:
        unscanned = events.join(scanning, on="persistence_id", how="left").where(
            F.col("sequence_nr") > F.coalesce(F.col("scanned_to"), F.lit(0))
        )
        unwritten = unwritten.unionByName(unscanned.select("persistence_id", "sequence_nr"))
    return unwritten.groupBy("persistence_id").agg(
        F.min("sequence_nr").alias("held_from"), F.lit(TAG_WRITE).alias("reader")
    )


@shaped(events=shapes.EVENTS, limits=shapes.LIMITS, returns=DELETES)
def deletes(events: DataFrame, limits: DataFrame) -> DataFrame:
    """Return the delete of each partition that has an event up to its persistence id's limit.

    `events` are all events of these persistence ids; `limits` are unique in persistence_id.

    A whole partition is deleted if all its events are and a later partition has events: no event
    can be added to it any more (docs/real-systems.md, "Partitions"), so the delete hits no event
    written since. A write group may be one partition after that of its sequence nrs; the rule holds
    nevertheless, since it uses the partitions in which events are.
    """
    is_deleted = F.col("sequence_nr") <= F.col("to")
    parts = (
        events.join(limits.select("persistence_id", "to"), on="persistence_id")
        .groupBy("persistence_id", "partition_nr", "to")
        .agg(
            F.sum(is_deleted.cast("bigint")).alias("events"),
            F.max("sequence_nr").alias("last_sequence_nr"),
        )
    )
    last_partition = F.max("partition_nr").over(Window.partitionBy("persistence_id"))
    is_whole = (F.col("last_sequence_nr") <= F.col("to")) & (
        F.col("partition_nr") < F.col("last_partition")
    )
    return (
        parts.withColumn("last_partition", last_partition)
        .where(F.col("events") > 0)
        .select("persistence_id", "partition_nr", "to", is_whole.alias("is_whole"), "events")
    )
