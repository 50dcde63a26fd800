"""Converts decoded records to the actions to fold, and to rows of journal."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.journals.kafka.tables import JOURNAL_KEY
from tidemark.journals.kafka.wire.action import ActionType
from tidemark.journals.kafka.wire.shapes import DECODED
from tidemark.partitioning import columns
from tidemark.replicate.shapes import ACTIONS, FOLDED, JOURNAL_ROWS
from tidemark.replicate.tables.row_bytes import row_bytes
from tidemark.spark.shapes import shaped

_OF_RECORD = ("origin", "version", "metadata", "headers", "timestamp", "partition", "offset")


@shaped(decoded=DECODED, returns=ACTIONS)
def actions_of(decoded: DataFrame) -> DataFrame:
    """Return the actions of records on journals, without marks and ignored records.

    A further column `timestamp` is the time of the action.
    """
    is_action = F.col("action").isin(
        *(action.value for action in ActionType if action is not ActionType.MARK),
    )
    ends = {
        "first_nr": F.element_at("events", 1)["seq_nr"],
        "last_nr": F.element_at("events", -1)["seq_nr"],
        "bytes": _bytes(),
    }
    return decoded.where(is_action).withColumns(ends).select(*ACTIONS, "timestamp")


def _bytes() -> Column:
    """Return an upper bound of the bytes of a record's rows in CQL; null without events."""
    of_many = F.aggregate(
        "events", F.lit(0).cast("bigint"), lambda total, event: total + row_bytes(event)
    )
    # Most records have one event, for which Spark needs no loop, which it would not compile.
    of_one = row_bytes(F.col("events")[0]).cast("bigint")
    return F.when(F.size("events") == 1, of_one).otherwise(of_many)


@shaped(decoded=DECODED, folded=FOLDED, returns=JOURNAL_ROWS)
def journal_rows(decoded: DataFrame, folded: DataFrame, *, appends_only: bool = False) -> DataFrame:
    """Return the rows of the appends that heads have not seen, except those deleted again.

    `decoded` are all records that were folded to `folded`; the rows are partitioned as they are.
    `appends_only` is that of `fold.folded`.
    """
    appends = decoded.where(F.col("action") == ActionType.APPEND.value)
    journals = folded.select(*JOURNAL_KEY, "seen", "lives", "deletions")
    life = (
        F.col("lives")[0]
        if appends_only
        else F.element_at(F.filter("lives", lambda life: life["offset"] <= F.col("offset")), -1)
    )
    events = (
        # A hash join, since sorting the payloads would take longer than all else here.
        appends.join(journals.hint("shuffle_hash"), list(JOURNAL_KEY))
        .where(F.col("seen").isNull() | (F.col("offset") > F.col("seen")))
        .withColumn("life", life)
        .select(*JOURNAL_KEY, *_OF_RECORD, "life", "deletions", F.explode("events").alias("event"))
        .select("*", "event.*")
        .withColumn(
            "segment", columns.journal_segment(F.col("seq_nr"), F.col("life")["segment_size"])
        )
    )
    remaining = events if appends_only else events.where(~F.exists("deletions", _deletes))
    rows = remaining.withColumn("meta_record_id", F.col("life")["record_id"])
    return rows.select(*JOURNAL_ROWS)


def _deletes(deletion: Column) -> Column:
    """Return whether a deletion removes the row, which an earlier record has written."""
    segment = F.col("segment")
    return (
        (F.col("offset") <= deletion["offset"])
        & segment.between(deletion["first"], deletion["last"])
        & (
            deletion["up_to"].isNull()
            | (segment < deletion["last"])
            | (F.col("seq_nr") <= deletion["up_to"])
        )
    )
