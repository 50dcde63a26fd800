"""Persistence ids that began again at number 1: where their new life is looked for."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journal.series import SERIES
from tidemark.partitioning import columns, keys
from tidemark.projection.sources import read

_TICKS_PER_SECOND = 1000 * keys.TICKS_PER_MS


def restarted_ids(seen: DataFrame, stored: DataFrame, deleted: DataFrame, after: int) -> DataFrame:
    """The series that began anew; usually none.

    Args:
        seen: persistence_id, tag, number, timestamp (timeuuid text).
        stored: persistence_id, tag, stored_number, stored_timestamp (timeuuid text, may be null).
        deleted: persistence_id, deleted_to.
        after: seconds.

    Columns: persistence_id, tag, former_ticks (bigint, 100 ns since 1582: what is not newer belongs
    to the former life).
    """
    former = columns.timeuuid_ticks(F.col("stored_timestamp")) + after * _TICKS_PER_SECOND
    limits = stored.join(deleted, on="persistence_id", how="left").select(
        *SERIES,
        "stored_number",
        former.alias("former_ticks"),
        F.coalesce("deleted_to", F.lit(0)).alias("deleted_to"),
    )
    lower = seen.join(limits, on=[*SERIES]).where(
        (F.col("number") > F.col("deleted_to")) & (F.col("number") <= F.col("stored_number"))
    )
    anew = lower.where(columns.timeuuid_ticks(F.col("timestamp")) > F.col("former_ticks"))
    return anew.select(*SERIES, "former_ticks").distinct()


def rewound_to_restart(
    beginnings: DataFrame,
    stored: DataFrame,
    deleted: DataFrame,
    after: int,
    ask: Callable[[DataFrame, int], DataFrame],
) -> DataFrame:
    """Where to look for each persistence id: at its first event, if that is one of a new life.

    Args:
        beginnings: persistence_id, first_nr, and more.
        stored: as for `restarted_ids`.
        deleted: persistence_id, deleted_to.
        after: seconds.
        ask: as `journal.tails.in_rounds` takes it.

    Columns: those of `beginnings`.
    """
    lowest = beginnings.select("persistence_id").join(deleted, on="persistence_id", how="left")
    lowest = lowest.select(
        "persistence_id", (F.coalesce("deleted_to", F.lit(0)) + 1).alias("first_nr")
    ).localCheckpoint()
    found = read.numbered(ask(lowest, 1))
    anew = restarted_ids(found, stored, deleted, after).select("persistence_id")
    firsts = lowest.join(anew, on="persistence_id", how="left_semi").withColumnRenamed(
        "first_nr", "lowest_nr"
    )
    first = F.coalesce("lowest_nr", "first_nr")
    return (
        beginnings.join(firsts, on="persistence_id", how="left")
        .withColumn("first_nr", first)
        .drop("lowest_nr")
    )
