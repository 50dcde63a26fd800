"""Messages against tag views: every difference as a finding, as pure transformations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.continuity.findings import checks
from tidemark.journal.shapes import DELETED, TAG_ROWS
from tidemark.reconciliation.findings import kinds, shapes
from tidemark.reconciliation.findings import progress as compare_progress
from tidemark.reconciliation.findings.bounds import Bounds
from tidemark.reconciliation.findings.expected import (
    TAGGED_EVENT,
    expected_rows,
    rows_of_deleted_events,
    rows_of_lost_events,
)
from tidemark.reconciliation.findings.read import ScopedKeys
from tidemark.spark.shapes import shaped
from tidemark.tagging.shapes import INDEX


@dataclass(frozen=True)
class KeptRows:
    """Rows of tag views without an event in messages that are no findings.

    Attributes:
        of_deleted_events: `rows_of_deleted_events`.
        of_lost_events: `rows_of_lost_events`.
    """

    of_deleted_events: DataFrame
    of_lost_events: DataFrame

    @classmethod
    def of(cls, keys: ScopedKeys, keep: Callable[[DataFrame], DataFrame]) -> KeptRows:
        """Find them, and keep the frames in memory."""
        return cls(
            keep(rows_of_deleted_events(keys.rows, keys.index, keys.deleted)),
            keep(
                rows_of_lost_events(
                    keys.rows, keys.index, keys.progress, keys.scanning, keys.deleted
                )
            ),
        )


@shaped(returns=kinds.COLUMNS)
def all_findings(
    keys: ScopedKeys,
    kept: KeptRows,
    bounds: Bounds,
    *,
    of_ids: bool = True,
    keep: Callable[[DataFrame], DataFrame] = lambda frame: frame,
) -> DataFrame:
    """Return all differences.

    `continuity.further_findings` has what validate finds beside them.

    Args:
        keys: the keys in messages and tag views.
        kept: the rows without an event that stay.
        bounds: the events and rows to compare; with a window, progress and scanning are left out.
        of_ids: also compare tag_scanning, which belongs to a persistence id and not to a tag.
        keep: function that keeps a frame in memory that is used more than once.
    """
    gone = kept.of_deleted_events
    expected = keep(expected_rows(keys.index, keys.rows, keys.progress, gone, kept.of_lost_events))
    of_rows = keep(row_findings(expected, keys.rows, keys.deleted, bounds))
    of_events = unwritable_findings(keys.index, kept.of_lost_events, bounds)
    parts = [of_rows, of_events]
    if bounds.window is None:
        parts += [
            compare_progress.progress_findings(expected, keys.progress, gone, keys.deleted, bounds),
            compare_progress.skipped_findings(of_rows, keys.progress, keys.scanning),
        ]
        if of_ids:
            parts.append(
                compare_progress.scanning_findings(
                    keys.index, keys.scanning, keys.deleted, kept.of_lost_events
                )
            )
    return reduce(DataFrame.unionByName, parts)


@shaped(expected=shapes.RANKED, rows=TAG_ROWS, deleted=DELETED, returns=kinds.COLUMNS)
def row_findings(
    expected: DataFrame, rows: DataFrame, deleted: DataFrame, bounds: Bounds
) -> DataFrame:
    """Return the differences between expected rows and stored rows.

    A wrong row beside the right one is doubled; of several wrong ones of the same event and tag
    without a right one, the first (by time bucket and number) is wrong and the others are doubled.
    Rows of lost events are as they are.
    """
    required = bounds.mark_required(expected, deleted)
    events = required.select(
        *TAGGED_EVENT,
        "ticks",
        F.struct("expected_time_bucket", "expected_number", "is_required").alias("event"),
        "is_lost",
    )
    stored = rows.select(
        *TAGGED_EVENT,
        "ticks",
        F.struct("time_bucket", F.col("tag_pid_sequence_nr").alias("number")).alias("row"),
    )
    grouped = (
        events.unionByName(stored, allowMissingColumns=True)
        .groupBy(*TAGGED_EVENT)
        .agg(
            F.first("ticks").alias("ticks"),
            F.first("event", ignorenulls=True).alias("event"),
            F.sort_array(F.collect_list("row")).alias("rows"),
            F.max("is_lost").alias("is_lost"),
        )
        .where(F.col("ticks") < bounds.written_before)
        .where(~F.coalesce("is_lost", F.lit(False)))
    )
    right = F.struct(
        F.col("event.expected_time_bucket").alias("time_bucket"),
        F.col("event.expected_number").alias("number"),
    )
    wrong = F.filter("rows", lambda row: F.col("event").isNull() | (row != right))
    exploded = (
        grouped.withColumn("wrong", wrong)
        .where((F.size("wrong") > 0) | (F.size("rows") == 0))
        .withColumn("has_right", F.size("wrong") < F.size("rows"))
        .select("*", F.posexplode_outer("wrong").alias("place", "row"))
        .join(deleted, on="persistence_id", how="left")
    )
    return _classified(exploded, bounds)


@shaped(index=INDEX, written=TAG_ROWS, returns=kinds.COLUMNS)
def unwritable_findings(index: DataFrame, written: DataFrame, bounds: Bounds) -> DataFrame:
    """Find tagged events that cannot be written, but for those with `written` rows.

    In a finding, tag is "".
    """
    unwritable = index.where(F.col("cause").isNotNull() & bounds.holds("time_bucket")).join(
        written, on=["persistence_id", "sequence_nr", "timestamp"], how="left_anti"
    )
    return kinds.difference(
        unwritable,
        kind=F.lit(checks.UNWRITABLE_EVENT),
        tag=F.lit(""),
        sequence_nr=F.col("sequence_nr"),
        timestamp=F.col("timestamp"),
        expected_time_bucket=F.col("time_bucket"),
    )


def _classified(exploded: DataFrame, bounds: Bounds) -> DataFrame:
    is_event, is_row = F.col("event").isNotNull(), F.col("row").isNotNull()
    is_deleted = F.coalesce(F.col("sequence_nr") <= F.col("deleted_to"), F.lit(False))
    kind = (
        F.when(~is_event & is_deleted, F.lit(None))
        .when(~is_event, checks.EXTRA_ROW)
        .when(~is_row & F.col("event.is_required"), checks.UNTAGGED_EVENT)
        .when(~is_row, F.lit(None))
        .when(F.col("has_right") | (F.col("place") > 0), checks.DOUBLED_ROW)
        .when(F.col("row.number") != F.col("event.expected_number"), checks.WRONG_NUMBER)
        .otherwise(checks.WRONG_TIME_BUCKET)
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
        )
        .where(F.col("kind").isNotNull())
        .where(bounds.holds("time_bucket") | bounds.holds("expected_time_bucket"))
        .select(*kinds.COLUMNS)
    )
