"""Which persistence ids fit their copies, and what metadata is to be written of them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import DELETED, ID, MESSAGE_KEYS
from tidemark.spark.shapes import Shape, shaped

STANDING: Shape = {**ID, "before": "bigint", "end": "bigint", "now": "bigint"}
"""Of a persistence id in a copy: how far it was deleted before the copy was made, the last of the
saved events (null without any), and how far it is deleted now; 0 for not at all."""
_KEY = [*MESSAGE_KEYS]


@shaped(known=DELETED, saved=MESSAGE_KEYS, deleted=DELETED, returns=STANDING)
def standing(known: DataFrame, saved: DataFrame, deleted: DataFrame) -> DataFrame:
    """Compare persistence ids of copies with the journal.

    Args:
        known: how far each was deleted before the copies were made.
        saved: the events that copies hold of them.
        deleted: how far they are deleted now.
    """
    ends = saved.groupBy("persistence_id").agg(F.max("sequence_nr").alias("end"))
    return (
        known.withColumnRenamed("deleted_to", "before")
        .join(ends, on="persistence_id", how="left")
        .join(deleted.withColumnRenamed("deleted_to", "now"), on="persistence_id", how="left")
        .select("persistence_id", "before", "end", F.coalesce("now", F.lit(0)).alias("now"))
    )


def is_changed() -> Column:
    """Return whether a restore would change what the journal shows of a persistence id's events.

    Without saved events nothing makes up for what an actor has deleted since, so that metadata is
    only ever raised, to what was forgotten.
    """
    return F.col("end").isNotNull() | (F.col("now") < F.col("before"))


@shaped(standing=STANDING, saved=MESSAGE_KEYS, held=MESSAGE_KEYS, returns=ID)
def moved(standing: DataFrame, saved: DataFrame, held: DataFrame) -> DataFrame:
    """Return the persistence ids whose journals do not fit the copies any more.

    They have other events of the sequence nrs that are restored, or that count as deleted again;
    or they have deleted more than was saved.

    Args:
        standing: the persistence ids.
        saved: the events that copies hold of them.
        held: the events that the journal holds of those that `is_changed`.
    """
    hidden = F.when(F.col("now") < F.col("before"), F.col("before"))
    others = (
        held.join(standing, on="persistence_id")
        .where(F.col("sequence_nr") <= F.greatest("end", hidden))
        .join(saved.select(*_KEY), on=_KEY, how="left_anti")
        .select("persistence_id")
    )
    # Of events that were deleted already, some may have been lost before they were saved.
    further = standing.where(F.col("now") > F.when(~F.isnull("end"), F.greatest("end", "before")))
    return others.unionByName(further.select("persistence_id")).distinct()


@shaped(standing=STANDING, returns=DELETED)
def metadata(standing: DataFrame) -> DataFrame:
    """Return the rows of metadata to write of persistence ids that fit their copies."""
    return standing.where(is_changed() & (F.col("now") != F.col("before"))).select(
        "persistence_id", F.col("before").alias("deleted_to")
    )
