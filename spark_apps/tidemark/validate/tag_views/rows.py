"""The comparison of expected rows with rows of the tag views, as pure transformations."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import DELETED, MESSAGES, TAG_ROWS
from tidemark.spark.shapes import shaped
from tidemark.validate.findings import checks
from tidemark.validate.tag_views import finding_kinds, shapes
from tidemark.validate.tag_views.bounds import Bounds
from tidemark.validate.tag_views.expected import TAGGED_EVENT


@shaped(expected=shapes.REQUIRED, rows=TAG_ROWS, deleted=DELETED, returns=finding_kinds.COLUMNS)
def row_findings(
    expected: DataFrame, rows: DataFrame, deleted: DataFrame, bounds: Bounds
) -> DataFrame:
    """Return the differences between expected rows and stored rows.

    A wrong row is doubled if the right row exists too. If there are only wrong rows of an event and
    tag, the first (by time bucket and number) is wrong and the others are doubled. A row of a lost
    event, which cannot be counted again, can only have a wrong number; two such rows with different
    numbers are left by a repair that was killed.
    """
    events = expected.select(
        *TAGGED_EVENT,
        "ticks",
        F.struct("expected_time_bucket", "expected_number", "is_required").alias("event"),
        "is_lost",
    )
    stored_rows = rows.select(
        *TAGGED_EVENT,
        "ticks",
        F.struct("time_bucket", F.col("tag_pid_sequence_nr").alias("number")).alias("row"),
    )
    grouped = (
        events.unionByName(stored_rows, allowMissingColumns=True)
        .groupBy(*TAGGED_EVENT)
        .agg(
            F.first("ticks").alias("ticks"),
            F.first("event", ignorenulls=True).alias("event"),
            F.sort_array(F.collect_list("row")).alias("rows"),
            F.max("is_lost").alias("is_lost"),
        )
        .where(F.col("ticks") < bounds.written_before)
    )
    right = F.struct(
        F.col("event.expected_time_bucket").alias("time_bucket"),
        F.col("event.expected_number").alias("number"),
    )
    row_buckets = F.array_distinct(F.transform("rows", lambda row: row["time_bucket"]))
    has_right_in_one_bucket = (F.size(row_buckets) == 1) & F.array_contains("rows", right)
    is_judged = (F.size("rows") == 1) | has_right_in_one_bucket
    grouped = grouped.where(~F.coalesce("is_lost", F.lit(False)) | is_judged)
    wrong = F.filter("rows", lambda row: F.col("event").isNull() | (row != right))
    exploded = (
        grouped.withColumn("wrong", wrong)
        .where((F.size("wrong") > 0) | (F.size("rows") == 0))
        .withColumn("has_right", F.size("wrong") < F.size("rows"))
        .select("*", F.posexplode_outer("wrong").alias("place", "row"))
        .join(deleted, on="persistence_id", how="left")
    )
    return _classified(exploded)


@shaped(index={**MESSAGES, "cause": "string"}, written=TAG_ROWS, returns=finding_kinds.COLUMNS)
def unwritable_findings(index: DataFrame, written: DataFrame, bounds: Bounds) -> DataFrame:
    """Find tagged events that cannot be written, except those with `written` rows.

    Events whose rows would have been removed are left out. In a finding, tag is "".
    """
    unwritable = (
        index.where(F.col("cause").isNotNull())
        .join(written, on=["persistence_id", "sequence_nr", "timestamp"], how="left_anti")
        .withColumn("expected_time_bucket", F.col("time_bucket"))
    )
    return finding_kinds.difference(
        bounds.mark_kept(unwritable).where("is_kept"),
        kind=F.lit(checks.UNWRITABLE_EVENT.name),
        tag=F.lit(""),
        sequence_nr=F.col("sequence_nr"),
        timestamp=F.col("timestamp"),
        expected_time_bucket=F.col("time_bucket"),
        cause=F.col("cause"),
    )


def _classified(exploded: DataFrame) -> DataFrame:
    is_event, is_row = F.col("event").isNotNull(), F.col("row").isNotNull()
    is_deleted = F.coalesce(F.col("sequence_nr") <= F.col("deleted_to"), F.lit(False))
    kind = (
        F.when(~is_event & is_deleted, F.lit(None))
        .when(~is_event, checks.EXTRA_ROW.name)
        .when(~is_row & F.col("event.is_required"), checks.UNTAGGED_EVENT.name)
        .when(~is_row, F.lit(None))
        .when(F.col("has_right") | (F.col("place") > 0), checks.DOUBLED_ROW.name)
        .when(F.col("row.number") != F.col("event.expected_number"), checks.WRONG_NUMBER.name)
        .otherwise(checks.WRONG_TIME_BUCKET.name)
    )
    return (
        exploded.select(
            kind.alias("kind"),
            *TAGGED_EVENT,
            "row.time_bucket",
            "row.number",
            F.when(is_event, F.col("sequence_nr")).alias("expected_sequence_nr"),
            F.when(is_event, F.col("timestamp")).alias("expected_timestamp"),
            "event.expected_time_bucket",
            "event.expected_number",
            F.lit(None).cast("string").alias("cause"),
        )
        .where(F.col("kind").isNotNull())
        .select(*finding_kinds.COLUMNS)
    )
