"""Messages that count as deleted, as pure transformations.

An actor writes to metadata up to where it deletes before it deletes, and replays only what lies
above (docs/real-systems.md, "Deletes and tools"). So every message at or below deleted_to counts as
deleted: a delete is under way or was cut short, or deleted_to is wrong (`deleted_to_ahead`).
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journal.shapes import DELETED, EVENT
from tidemark.spark.shapes import shaped


@shaped(messages=EVENT, deleted=DELETED, returns=DELETED)
def with_deleted_messages(messages: DataFrame, deleted: DataFrame) -> DataFrame:
    """Return the persistence ids that have a message at or below deleted_to, with deleted_to.

    `deleted` must be read after the messages: it then also covers what a concurrent delete has left
    in that read.
    """
    return (
        messages.groupBy("persistence_id")
        .agg(F.min("sequence_nr").alias("lowest"))
        .join(deleted, on="persistence_id")
        .where(F.col("lowest") <= F.col("deleted_to"))
        .select("persistence_id", "deleted_to")
    )


@shaped(messages=EVENT, ids=DELETED, returns=EVENT)
def without_deleted_messages(messages: DataFrame, ids: DataFrame) -> DataFrame:
    """Return the messages above deleted_to.

    `ids` are those of `with_deleted_messages`. All columns of the messages are kept.
    """
    return (
        messages.join(ids, on="persistence_id", how="left")
        .where(F.col("deleted_to").isNull() | (F.col("sequence_nr") > F.col("deleted_to")))
        .select(*messages.columns)
    )
