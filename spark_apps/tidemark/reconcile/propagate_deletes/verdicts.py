"""Which tag-view rows of deleted events may be deleted, as pure transformations.

A reader accepts any first number of a persistence id, but no later gap (docs/real-systems.md, "How
a reader reads"). So only the first rows of each (persistence id, tag) are deleted: all rows after
the first kept one are kept.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tidemark.journals.pekko.series import SERIES
from tidemark.journals.pekko.shapes import DELETED, MESSAGE_KEYS, TAG_ROWS
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import Shape, shaped

MAX_MISSING_TO_SEARCH = 5000
"""`events-by-tag.max-missing-to-search`: a reader without an offset fails at once if the first
number that it meets is more than this above 1."""
GOES, YOUNG, NEEDED, BEHIND, NO_PROGRESS, BEYOND = (
    "goes",
    "young",
    "needed",
    "behind",
    "no_progress",
    "beyond_search_limit",
)
"""The verdicts on the row of a deleted event; all but the first keep it."""
NUMBERS: Shape = {"persistence_id": "string", "tag": "string", "progress_number": "bigint"}
"""The number in the progress of each series."""
ROWS_OF_IDS: Shape = {**TAG_ROWS, "is_deleted": "boolean"}
VERDICTS: Shape = {**TAG_ROWS, "verdict": "string", "first_left": "bigint"}
"""`first_left`: the first number that a reader of this id and tag would meet."""
VERDICT_COUNTS: Shape = {
    "verdict": "string",
    "persistence_id": "string",
    "tag": "string",
    "rows": "bigint",
    "first_left": "bigint",
}


@shaped(rows=TAG_ROWS, index=MESSAGE_KEYS, deleted=DELETED, returns=ROWS_OF_IDS)
def with_is_deleted(rows: DataFrame, index: DataFrame, deleted: DataFrame) -> DataFrame:
    """Mark whether the event of each row is deleted, for persistence ids with deletes.

    `is_deleted` in the result: the event counts as deleted, and messages no longer has it.
    """
    with_deletes = deleted.where(F.col("deleted_to") > 0)
    still_stored = (
        index.select("persistence_id", "sequence_nr", "timestamp")
        .join(with_deletes, on="persistence_id")
        .where(F.col("sequence_nr") <= F.col("deleted_to"))
        .withColumn("is_held", F.lit(True))
        .drop("deleted_to")
    )
    return (
        rows.join(with_deletes, on="persistence_id")
        .join(still_stored, on=["persistence_id", "sequence_nr", "timestamp"], how="left")
        .withColumn(
            "is_deleted",
            (F.col("sequence_nr") <= F.col("deleted_to")) & F.col("is_held").isNull(),
        )
        .drop("deleted_to", "is_held")
    )


@shaped(rows=ROWS_OF_IDS, progress=NUMBERS, returns=VERDICTS)
def with_verdicts(
    rows: DataFrame,
    progress: DataFrame,
    *,
    first_young: int,
    needed_from: Mapping[str, int],
    allow_unsearchable: bool,
) -> DataFrame:
    """Give a verdict on each row of a deleted event.

    Rows of the time bucket `first_young` (epoch ms) and later ones are kept, and those of a tag
    from `needed_from` on, the first time bucket that a projection still needs.
    `allow_unsearchable` deletes rows even if readers without an offset would fail then.
    """
    of_series = Window.partitionBy(*SERIES)
    with_need = _needed_from(rows, needed_from)
    reason = (
        F.when(F.col("time_bucket") >= first_young, F.lit(YOUNG))
        .when(F.col("time_bucket") >= F.col("needed_from"), F.lit(NEEDED))
        .otherwise(F.lit(GOES))
    )
    may_go = F.col("is_deleted") & (F.col("reason") == GOES)
    first_kept = F.min(F.when(~may_go, F.col("tag_pid_sequence_nr"))).over(of_series)
    numbered = (
        with_need.withColumn("reason", reason)
        .withColumn("first_kept", first_kept)
        .join(progress.select(*SERIES, "progress_number"), on=[*SERIES], how="left")
        .withColumn("first_left", F.coalesce("first_kept", F.col("progress_number") + 1))
    )
    is_behind = F.col("tag_pid_sequence_nr") >= F.col("first_kept")
    is_beyond = (F.col("first_left") - 1 > MAX_MISSING_TO_SEARCH) & ~F.lit(allow_unsearchable)
    verdict = (
        F.when(F.col("reason") != GOES, F.col("reason"))
        .when(is_behind, F.lit(BEHIND))
        .when(F.col("first_left").isNull(), F.lit(NO_PROGRESS))
        .when(is_beyond, F.lit(BEYOND))
        .otherwise(F.lit(GOES))
    )
    return (
        numbered.where("is_deleted")
        .withColumn("verdict", verdict)
        .drop("is_deleted", "reason", "needed_from", "first_kept", "progress_number")
    )


@shaped(rows=VERDICTS, returns=VERDICT_COUNTS)
def series(rows: DataFrame) -> DataFrame:
    """Return one row for each verdict on an id and tag, largest first."""
    return (
        rows.groupBy("verdict", *SERIES)
        .agg(F.count("*").alias("rows"), F.first("first_left").alias("first_left"))
        .orderBy(F.desc("rows"), *SERIES)
    )


def _needed_from(rows: DataFrame, needed_from: Mapping[str, int]) -> DataFrame:
    if not needed_from:
        return rows.withColumn("needed_from", F.lit(None).cast("bigint"))
    by_tag = local_rows(
        rows.sparkSession, sorted(needed_from.items()), "tag string, needed_from bigint"
    )
    return rows.join(F.broadcast(by_tag), on="tag", how="left")
