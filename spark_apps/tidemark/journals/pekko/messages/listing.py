"""Finds new persistence ids by the table all_persistence_ids, without a scan."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.journals.pekko import frames, shapes
from tidemark.journals.pekko.messages import increments
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped


@shaped(known=shapes.KNOWN_IDS)
def names_all(spark: SparkSession, control: Control, settings: Settings, known: DataFrame) -> bool:
    """Return whether all_persistence_ids names every known id that still has messages.

    The table no longer has ids that were permanently cleaned up. The ids are compared, not their
    number: an unlisted old id could be offset by a new one that is not known yet.
    """
    name = settings.all_persistence_ids_table
    if not control.table_columns(settings.journal_keyspace, name):
        return False
    listed = connector.read(spark, settings.journal_keyspace, name, "persistence_id")
    unlisted = known.join(listed, on="persistence_id", how="left_anti").localCheckpoint()
    if unlisted.isEmpty():
        return True
    deleted_to = F.coalesce("deleted_to", F.lit(0))
    candidates = F.array(F.greatest("known_to", F.lit(1)), F.col("known_to") + 1, deleted_to + 1)
    candidate_events = unlisted.join(
        frames.deleted(spark, settings), on="persistence_id", how="left"
    ).select("persistence_id", F.explode(F.array_distinct(candidates)).alias("sequence_nr"))
    keys = increments.keys_of(candidate_events, settings).localCheckpoint()
    return frames.messages_of(keys, settings).isEmpty()
