"""Which persistence ids fit their copies, and which metadata to write for them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import DELETED, ID, MESSAGE_KEYS
from tidemark.spark.shapes import Shape, shaped

COMPARED: Shape = {**ID, "before": "bigint", "end": "bigint", "now": "bigint"}
"""Of a persistence id in a copy: up to where it was deleted before the copy was made, the last of
the saved events (null without any), and up to where it is deleted now; 0 for not at all."""
_KEY = [*MESSAGE_KEYS]


@shaped(before=DELETED, saved=MESSAGE_KEYS, now=DELETED, returns=COMPARED)
def compared(before: DataFrame, saved: DataFrame, now: DataFrame) -> DataFrame:
    """Compare up to where persistence ids were deleted before their copies were made, and now."""
    ends = saved.groupBy("persistence_id").agg(F.max("sequence_nr").alias("end"))
    return (
        before.withColumnRenamed("deleted_to", "before")
        .join(ends, on="persistence_id", how="left")
        .join(now.withColumnRenamed("deleted_to", "now"), on="persistence_id", how="left")
        .select("persistence_id", "before", "end", F.coalesce("now", F.lit(0)).alias("now"))
    )


def is_changed() -> Column:
    """Return whether a restore would change which events of a persistence id the journal shows.

    Without saved events a restore cannot undo what an actor has deleted since, so it only raises
    metadata that was forgotten.
    """
    return F.col("end").isNotNull() | (F.col("now") < F.col("before"))


@shaped(states=COMPARED, saved=MESSAGE_KEYS, held=MESSAGE_KEYS, returns=ID)
def not_fitting(states: DataFrame, saved: DataFrame, held: DataFrame) -> DataFrame:
    """Return the persistence ids whose journals no longer fit the copies.

    They have other events with sequence nrs that are restored or that count as deleted again; or
    more events were deleted than were saved. `held` are the journal's events of the persistence ids
    that are `is_changed`.
    """
    hidden = F.when(F.col("now") < F.col("before"), F.col("before"))
    others = (
        held.join(states, on="persistence_id")
        .where(F.col("sequence_nr") <= F.greatest("end", hidden))
        .join(saved.select(*_KEY), on=_KEY, how="left_anti")
        .select("persistence_id")
    )
    # Of events that had been deleted already, some may have vanished before the save.
    further = states.where(F.col("now") > F.when(~F.isnull("end"), F.greatest("end", "before")))
    return others.unionByName(further.select("persistence_id")).distinct()


@shaped(states=COMPARED, returns=DELETED)
def metadata(states: DataFrame) -> DataFrame:
    """Return the metadata rows to write for persistence ids that fit their copies."""
    return states.where(is_changed() & (F.col("now") != F.col("before"))).select(
        "persistence_id", F.col("before").alias("deleted_to")
    )
