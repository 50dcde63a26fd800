"""The state of journals as their records describe it, as pure transformations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.journals.kafka import expired
from tidemark.journals.kafka.tables import JOURNAL_KEY
from tidemark.journals.kafka.wire.action import ActionType
from tidemark.journals.kafka.wire.shapes import DECODED
from tidemark.replicate.shapes import FOLDED
from tidemark.spark.shapes import shaped
from tidemark.validate.layers.kafka_topic.shapes import BOUNDS, JOURNALS, READ

_JOURNAL = tuple(JOURNAL_KEY)
_PLACE = ("topic", "partition")


@shaped(decoded=DECODED, returns=READ)
def read(decoded: DataFrame) -> DataFrame:
    """Return all records without their events."""
    ends = {
        "first_nr": F.element_at("events", 1)["seq_nr"],
        "last_nr": F.element_at("events", -1)["seq_nr"],
        "bytes": F.lit(0).cast("bigint"),
    }
    return decoded.withColumns(ends).select(*READ)


@shaped(read=READ, returns=READ)
def actions(read: DataFrame) -> DataFrame:
    """Return the records that change journals."""
    changing = [action.value for action in ActionType if action is not ActionType.MARK]
    return read.where(F.col("action").isin(changing))


@shaped(folded=FOLDED, actions=READ, bounds=BOUNDS, returns=JOURNALS)
def journals(folded: DataFrame, actions: DataFrame, bounds: DataFrame) -> DataFrame:
    """Return the state of each journal.

    `folded`: the heads that the actions up to the pointer give. `actions`: also those after it.
    """
    bounded = actions.join(F.broadcast(bounds), list(_PLACE))
    is_done = F.col("offset") <= F.col("pointer")
    offset, action = F.col("offset"), F.col("action")
    is_purge = action == ActionType.PURGE.value
    last_purge = F.max(F.when(is_done & is_purge, offset)).over(Window.partitionBy(*_JOURNAL))
    in_life = bounded.withColumn("last_purge", last_purge).withColumn(
        "is_now", is_done & (F.col("last_purge").isNull() | (offset > F.col("last_purge")))
    )
    is_append = F.col("is_now") & (action == ActionType.APPEND.value)
    is_delete = F.col("is_now") & (action == ActionType.DELETE.value)
    is_in_flight = F.max(~is_done & (action != ActionType.APPEND.value))
    has_moved = F.min("partition") != F.max("partition")
    by_journal = in_life.groupBy(*_JOURNAL).agg(
        F.min(F.when(is_append, offset)).alias("first_append"),
        F.max(F.when(is_append, offset)).alias("last_append"),
        F.max(F.when(is_done, offset)).alias("last_offset"),
        F.max_by("timestamp", F.when(is_append, offset)).alias("last_at"),
        F.min_by("first_nr", F.when(is_append, offset)).alias("first_nr"),
        F.max(F.when(is_delete, offset)).alias("last_delete"),
        F.max(F.when(is_delete, F.col("to"))).alias("most_delete_to"),
        (F.max("last_purge").isNotNull() | F.min("is_complete")).alias("is_whole"),
        (is_in_flight | has_moved).alias("is_in_doubt"),
    )
    begins = (F.col("first_nr") == 1) & F.col("last_delete").isNull()
    deleted_since = F.col("last_delete") > F.col("first_append")
    journal_facts = by_journal.withColumns(
        {
            "has_append": F.col("last_append").isNotNull(),
            "begins": F.coalesce(begins, F.lit(False)),
            "deleted_since": F.coalesce(deleted_since, F.lit(False)),
        }
    )
    heads = folded.select(*_JOURNAL, "partition", F.col("head").alias("said"))
    return heads.join(journal_facts, list(_JOURNAL)).select(*JOURNALS)


@dataclass(frozen=True)
class Expiry:
    """The rule by which journals have expired, so that they may be purged.

    Attributes:
        today: the date in the time zone.
        zone: name of the time zone of expiry dates.
    """

    today: date
    zone: str

    def is_over(self) -> Column:
        """Return whether the journal of a row of JOURNALS has expired."""
        on = expired.expire_on(F.col("last_at"), F.col("said")["expire_after"], self.zone)
        return expired.has_expired(on, self.today)
