"""The reads for event deletes: keys and tags, never a payload."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.pekko import frames
from tidemark.journals.pekko.shapes import DELETED, ID
from tidemark.partitioning import columns
from tidemark.purge.messages import shapes
from tidemark.spark.shapes import shaped

_COLUMNS = ("persistence_id", "partition_nr", "sequence_nr", "tags")


@shaped(returns=shapes.EVENTS)
def all_events(run: RunContext) -> DataFrame:
    """Read the keys and tags of all events, by a scan."""
    return frames.message_index(run.spark, run.settings, "partition_nr").select(*_COLUMNS)


@shaped(ids=ID, deleted=DELETED, returns=shapes.EVENTS)
def events_of_ids(run: RunContext, ids: DataFrame, deleted: DataFrame) -> DataFrame:
    """Read all events of unique persistence ids, also those that a delete should have removed.

    They are read by key. Persistence ids without metadata that have no event there are searched by
    a scan: their first events may be missing without a trace. The rows are in memory.
    """
    first_left = columns.partition_nr(F.col("deleted_to") + 1, run.settings.target_partition_size)
    front = deleted.where(first_left > 0).select(
        "persistence_id", F.explode(F.sequence(F.lit(0), first_left - 1)).alias("partition_nr")
    )
    by_key = (
        frames.messages_of(front, run.settings, "partition_nr")
        .select(*_COLUMNS)
        .unionByName(
            frames.placed_messages_of_ids(ids, run.settings, deleted_to=deleted).select(*_COLUMNS)
        )
        .localCheckpoint()
    )
    unfound = ids.join(by_key.select("persistence_id"), on="persistence_id", how="left_anti").join(
        deleted, on="persistence_id", how="left_anti"
    )
    if unfound.isEmpty():
        return by_key
    scanned = all_events(run).join(F.broadcast(unfound), on="persistence_id", how="left_semi")
    return by_key.unionByName(scanned).localCheckpoint()


@shaped(events=shapes.EVENTS, deleted=DELETED, returns=shapes.LIMITS)
def ends(events: DataFrame, deleted: DataFrame) -> DataFrame:
    """Return the last sequence nr that each persistence id has used, deleted or not."""
    sequence_nrs = events.select("persistence_id", "sequence_nr").unionByName(
        deleted.select("persistence_id", F.col("deleted_to").alias("sequence_nr"))
    )
    return (
        sequence_nrs.groupBy("persistence_id")
        .agg(F.max("sequence_nr").alias("to"))
        .where(F.col("to").isNotNull())
    )
