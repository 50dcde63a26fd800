"""The changes to write: rows, heads and deletions, each with its write time.

A write time follows from the offset of the record that causes the write, so the writes of a batch
may arrive in any order and more than once.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.journals.kafka.wire.shapes import DECODED
from tidemark.replicate.events import journal_rows
from tidemark.replicate.shapes import (
    BASES,
    CHANGED_HEADS,
    DELETIONS,
    FOLDED,
    WRITE_TIME,
    WRITTEN_ROWS,
)
from tidemark.spark.shapes import shaped


@shaped(decoded=DECODED, folded=FOLDED, bases=BASES, returns=WRITTEN_ROWS)
def written_rows(
    decoded: DataFrame, folded: DataFrame, bases: DataFrame, *, appends_only: bool
) -> DataFrame:
    """Return the rows of journal."""
    rows = _with_base(journal_rows(decoded, folded, appends_only=appends_only), bases)
    return rows.withColumn(WRITE_TIME, _at(F.col("offset"))).select(*WRITTEN_ROWS)


@shaped(folded=FOLDED, bases=BASES, returns=CHANGED_HEADS)
def changed_heads(folded: DataFrame, bases: DataFrame) -> DataFrame:
    """Return the heads that exist after the actions."""
    remaining = _with_base(folded.where(F.col("head").isNotNull()), bases)
    return remaining.withColumn(WRITE_TIME, _at(F.col("head")["offset"])).select(*CHANGED_HEADS)


@shaped(folded=FOLDED, bases=BASES, returns=DELETIONS)
def deletions(folded: DataFrame, bases: DataFrame) -> DataFrame:
    """Return the deletions. The first purge of a journal deletes its stored head, if any."""
    purges = F.transform("deletions", lambda deletion: deletion["is_purge"])
    exploded = _with_base(folded, bases).select(
        "*",
        F.array_position(purges, True).alias("first_purge"),
        F.posexplode("deletions").alias("place", "deletion"),
    )
    before, deletion = F.col("before"), F.col("deletion")
    takes_head = before.isNotNull() & (F.col("place") + 1 == F.col("first_purge"))
    fields = {
        "offset": deletion["offset"],
        "first_segment": deletion["first"],
        "last_segment": deletion["last"],
        "up_to": deletion["up_to"],
        "is_purge": deletion["is_purge"],
        "head_segment": F.when(takes_head, before["segment"]),
        "deleted_to": F.when(takes_head, F.greatest(before["seq_nr"], before["delete_to"])),
        WRITE_TIME: _at(deletion["offset"]),
    }
    return exploded.withColumns(fields).select(*DELETIONS)


def _with_base(frame: DataFrame, bases: DataFrame) -> DataFrame:
    return frame.join(F.broadcast(bases), ["topic", "partition"])


def _at(offset: Column) -> Column:
    return F.col("write_time_base") + offset
