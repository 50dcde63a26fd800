"""The rules of a journal in PostgreSQL, as pure transformations of its rows."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import EVENT
from tidemark.journals.r2dbc.shapes import PREDECESSORS, ROWS
from tidemark.partitioning import columns
from tidemark.partitioning.keys import TICKS_PER_MS
from tidemark.spark.shapes import Shape, shaped
from tidemark.validate import shapes
from tidemark.validate.findings.finding import FindingRule, findings_of
from tidemark.validate.no_time_bucket import no_time_bucket
from tidemark.validate.r2dbc import checks

BUFFER_SIZE = 1000
"""The default of `akka.persistence.r2dbc.query.buffer-size`."""
FOLLOWED: Shape = {
    **ROWS,
    "previous_nr": "bigint",
    "previous_ticks": "bigint",
    "is_previous_marker": "boolean",
}
"""Rows, each with the row of its persistence id that has the next lower number; else null."""
_KEY = ("persistence_id", "sequence_nr")
_PREVIOUS = ("previous_nr", "previous_ticks", "is_previous_marker")


@shaped(rows=ROWS, returns=FOLLOWED)
def followed(rows: DataFrame) -> DataFrame:
    """Add the row before each row, among these rows."""
    in_order = Window.partitionBy("persistence_id").orderBy("sequence_nr")
    sources = dict(zip(_PREVIOUS, ("sequence_nr", "ticks", "deleted"), strict=True))
    return rows.withColumns({name: F.lag(of).over(in_order) for name, of in sources.items()})


@shaped(rows=FOLLOWED, returns=EVENT)
def without_predecessor(rows: DataFrame) -> DataFrame:
    """Return the keys of the rows before which another row may exist that was not read."""
    number = F.col("sequence_nr")
    is_complete = F.coalesce(F.col("previous_nr") == number - 1, F.lit(False)) | (number <= 1)
    return rows.where(~is_complete).select(*_KEY)


@shaped(rows=FOLLOWED, read=PREDECESSORS, returns=FOLLOWED)
def with_read(rows: DataFrame, read: DataFrame) -> DataFrame:
    """Replace the predecessors by those that were read for these keys, which are no older."""
    names = {name: f"read_{name}" for name in _PREVIOUS}
    joined = rows.join(read.withColumnsRenamed(names), on=[*_KEY], how="left")
    is_read = F.col("read_previous_nr").isNotNull()
    return joined.withColumns(
        {
            name: F.when(is_read, F.col(other)).otherwise(F.col(name))
            for name, other in names.items()
        }
    ).drop(*names.values())


@shaped(rows=FOLLOWED, returns=shapes.FINDINGS)
def row_findings(rows: DataFrame) -> DataFrame:
    """Return the findings of single rows and their predecessors, in the row's time bucket.

    In a gap or missing head, number is the row's sequence nr and expected the lowest missing one.
    Before a marker, number is that of the other row and expected that of the marker.
    """
    number, previous = F.col("sequence_nr"), F.col("previous_nr")
    is_event, is_first = ~F.col("deleted"), previous.isNull()
    expected = F.coalesce(previous, F.lit(0)) + 1
    missing = F.format_string(
        "expected %d, found %d: %d missing", expected, number, number - expected
    )
    is_ahead = is_event & (number > expected)
    own_slice, own_type = columns.slice_of(F.col("persistence_id")), F.col("own_type")
    behind = F.col("previous_ticks") - F.col("ticks")
    return findings_of(
        rows.withColumn("own_type", columns.entity_type(F.col("persistence_id"))),
        [
            FindingRule(checks.SEQUENCE_NR_GAP, is_ahead & ~is_first, number, expected, missing),
            FindingRule(
                checks.SEQUENCE_NR_MISSING_HEAD, is_ahead & is_first, number, expected, missing
            ),
            FindingRule(
                checks.WRONG_SLICE,
                F.col("slice") != own_slice,
                number,
                F.lit(None),
                F.format_string(
                    "sequence nr %d has slice %d instead of %d", number, "slice", own_slice
                ),
            ),
            FindingRule(
                checks.WRONG_ENTITY_TYPE,
                F.col("entity_type") != own_type,
                number,
                F.lit(None),
                F.format_string(
                    "sequence nr %d has entity type '%s' instead of '%s'",
                    number,
                    "entity_type",
                    own_type,
                ),
            ),
            FindingRule(
                checks.ROW_BEFORE_DELETION_MARKER,
                ~is_event & ~is_first,
                previous,
                number,
                F.format_string("deleted up to %d, but a row has sequence nr %d", number, previous),
            ),
            FindingRule(
                checks.EVENT_OUT_OF_ORDER,
                is_event & ~F.col("is_previous_marker") & (behind > 0),
                number,
                F.lit(None),
                F.format_string(
                    "%s ms older than sequence nr %d",
                    F.format_number(behind / TICKS_PER_MS, 1),
                    previous,
                ),
            ),
        ],
    )


def may_be_committed(since_ms: int) -> Column:
    """Return whether a finding is of missing numbers before a row of this time (epoch ms) or later.

    An event is not older than the begin of its transaction, so that the missing ones may be in one
    that is still open.
    """
    of_missing = (checks.SEQUENCE_NR_GAP.name, checks.SEQUENCE_NR_MISSING_HEAD.name)
    is_young = columns.timeuuid_epoch_ms(F.col("timestamp")) >= since_ms
    return F.coalesce(F.col("check_name").isin(*of_missing) & is_young, F.lit(False))


@shaped(findings=shapes.FINDINGS, returns={**shapes.PLACED, "findings": "bigint"})
def held_buckets(findings: DataFrame) -> DataFrame:
    """Return each time bucket with the number of its findings, and the first of them, `first`."""
    return findings.groupBy("time_bucket").agg(
        F.count(F.lit(1)).alias("findings"), F.min(F.struct(*shapes.FINDINGS)).alias("first")
    )


@shaped(rows=ROWS, returns=shapes.FINDINGS)
def misplaced(rows: DataFrame) -> DataFrame:
    """Find rows with the right slice in the table of another data partition.

    `rows` are those whose slice is none of their table.
    """
    number, own_slice = F.col("sequence_nr"), columns.slice_of(F.col("persistence_id"))
    detail = F.format_string(
        "sequence nr %d is in another table than that of slice %d", number, "slice"
    )
    is_misplaced = F.col("slice") == own_slice
    rule = FindingRule(checks.WRONG_SLICE, is_misplaced, number, F.lit(None), detail)
    return findings_of(rows, [rule])


@shaped(rows=ROWS, returns=shapes.FINDINGS)
def crowded_times(rows: DataFrame, most: int = BUFFER_SIZE) -> DataFrame:
    """Find db_timestamps with at least `most` events of an entity type; number is how many.

    The persistence id is the first of these events, `tag` the entity type. `rows` has all rows of
    its time buckets.
    """
    crowded = (
        rows.where(~F.col("deleted"))
        .groupBy("time_bucket", F.col("entity_type").alias("tag"), "ticks", "timestamp")
        .agg(
            F.count(F.lit(1)).alias("events"),
            F.min("persistence_id").alias("persistence_id"),
        )
    )
    detail = F.format_string(
        "%,d events have the db_timestamp %s",
        "events",
        columns.ticks_timestamp(F.col("ticks")).cast("string"),
    )
    rule = FindingRule(
        checks.TOO_MANY_ROWS_OF_ONE_TIME,
        F.col("events") >= most,
        F.col("events"),
        F.lit(None),
        detail,
    )
    return findings_of(crowded, [rule])


@shaped(rows=ROWS, returns=shapes.FINDINGS)
def in_future(rows: DataFrame) -> DataFrame:
    """Return a finding for each persistence id among rows in the future, without a time bucket.

    Number is the lowest sequence nr in the future.
    """
    by_id = (
        rows.where(~F.col("deleted"))
        .groupBy("persistence_id")
        .agg(
            F.min("sequence_nr").alias("sequence_nr"),
            F.count(F.lit(1)).alias("events"),
            F.max(columns.ticks_timestamp(F.col("ticks"))).cast("string").alias("until"),
        )
    )
    number = F.col("sequence_nr")
    detail = F.format_string(
        "%,d events from sequence nr %d on have a db_timestamp in the future, up to %s",
        "events",
        number,
        "until",
    )
    rule = FindingRule(checks.EVENTS_IN_FUTURE, F.lit(True), number, F.lit(None), detail)
    return findings_of(by_id.withColumn("time_bucket", no_time_bucket()), [rule])
