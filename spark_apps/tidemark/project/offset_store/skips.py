"""Numbers that were skipped by hand: they count as consumed, and are in no result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.journals.pekko.series import SERIES, Series
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.spark.local_rows import local_rows

TABLE = "projection_skipped"


@dataclass(frozen=True)
class Skip:
    """A range of numbers of a series, both ends inclusive."""

    series: Series
    first_number: int
    last_number: int


def stored(store: OffsetStore) -> list[Skip]:
    """Read all skips of a projection."""
    rows = store.control.execute(
        "SELECT persistence_id, tag, first_number, last_number"
        f" FROM {store.table(TABLE)} WHERE projection = ?",
        (store.subject,),
    )
    return [
        Skip(Series(row["persistence_id"], row["tag"]), row["first_number"], row["last_number"])
        for row in rows
    ]


def add(store: OffsetStore, skip: Skip, owner: str) -> None:
    """Skip a range."""
    store.control.execute(
        f"INSERT INTO {store.table(TABLE)} (projection, persistence_id, tag,"
        " first_number, last_number, owner, skipped_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            store.subject,
            skip.series.persistence_id,
            skip.series.tag,
            skip.first_number,
            skip.last_number,
            owner,
            clock.now(),
        ),
    )


def cut(store: OffsetStore, series: Series, above: int, owner: str) -> None:
    """Delete the skips of a series above a number."""
    for skip in stored(store):
        if skip.series != series or skip.last_number <= above:
            continue
        if skip.first_number <= above:
            add(store, Skip(series, skip.first_number, above), owner)
        else:
            store.control.execute(
                f"DELETE FROM {store.table(TABLE)} WHERE projection = ?"
                " AND persistence_id = ? AND tag = ? AND first_number = ?",
                (store.subject, series.persistence_id, series.tag, skip.first_number),
            )


def forget(store: OffsetStore) -> None:
    """Delete all skips of a projection."""
    name = store.table(TABLE)
    store.control.execute(f"DELETE FROM {name} WHERE projection = ?", (store.subject,))


def without(rows: DataFrame, skipped: Sequence[Skip]) -> DataFrame:
    """Drop the events that have a skipped number under any tag.

    Columns in and out: at least persistence_id, tag, number, sequence_nr.
    """
    if not skipped:
        return rows
    is_skipped = F.col("number").between(F.col("first_number"), F.col("last_number"))
    skipped_rows = rows.join(F.broadcast(_ranges(rows, skipped)), on=[*SERIES]).where(is_skipped)
    events = skipped_rows.select("persistence_id", "sequence_nr").distinct()
    return rows.join(events, on=["persistence_id", "sequence_nr"], how="left_anti")


def uncounted(reached: DataFrame, skipped: Sequence[Skip]) -> DataFrame:
    """Count the events that persistence ids must have between two numbers, without skipped events.

    Columns in: persistence_id, base (exclusive), reached_number (inclusive). Columns out: the same,
    and expected (bigint).
    """
    numbers = F.col("reached_number") - F.col("base")
    if not skipped:
        return reached.withColumn("expected", numbers)
    first = F.greatest(F.col("first_number"), F.col("base") + 1)
    last = F.least(F.col("last_number"), F.col("reached_number"))
    ranges = F.broadcast(_ranges(reached, skipped).drop("tag"))
    in_range = F.greatest(last - first + 1, F.lit(0))
    return (
        reached.join(ranges, on="persistence_id", how="left")
        .groupBy("persistence_id", "base", "reached_number")
        .agg(F.coalesce(F.sum(in_range), F.lit(0)).alias("skipped"))
        .withColumn("expected", numbers - F.col("skipped"))
    )


def _ranges(frame: DataFrame, skipped: Sequence[Skip]) -> DataFrame:
    return local_rows(
        frame.sparkSession,
        [
            (skip.series.persistence_id, skip.series.tag, skip.first_number, skip.last_number)
            for skip in skipped
        ],
        "persistence_id string, tag string, first_number bigint, last_number bigint",
    )
