"""The numbering of the events read, as pure transformations; `tidemark.numbering` has the rule.

A run reads the messages after the last complete event of a persistence id, and rows only where
progress leaves a doubt. So the number of an event does not depend on which windows were processed,
in which order or how often, nor on whether the first messages were deleted.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import EVENT, ID, PROGRESS, TAG_ROWS, VIEW_PARTITIONS
from tidemark.numbering import rule
from tidemark.numbering import shapes as rule_shapes
from tidemark.numbering.rule import SERIES
from tidemark.spark.shapes import shaped
from tidemark.tag_write import shapes

EVENT_ORDER = ["sequence_nr", "ticks"]
_ID = list(ID)
WIDEST_HOLE = 1000
"""The largest number of time buckets between two events that are all searched for rows of lost
events; if there are more, only the time buckets of the two events are searched."""


@shaped(events=shapes.INDEX, returns=shapes.ENTRIES)
def entries(events: DataFrame) -> DataFrame:
    """Return the events under each of their tags, and once without a tag if they have none.

    Further columns of the events are kept.
    """
    other_columns = [name for name in events.columns if name != "tags"]
    return events.select(
        *other_columns,
        F.posexplode_outer("tags").alias("tag_position", "tag"),
        F.lit(True).alias("is_present"),
    )


@shaped(events=EVENT, returns=shapes.SPANS)
def spans(events: DataFrame) -> DataFrame:
    """Return the range of sequence nrs read of each persistence id."""
    return events.groupBy("persistence_id").agg(
        F.min("sequence_nr").alias("lowest"), F.max("sequence_nr").alias("highest")
    )


@shaped(progress=PROGRESS, complete=shapes.COMPLETE, returns=shapes.POSITIONS)
def positions(progress: DataFrame, complete: DataFrame) -> DataFrame:
    """Return the progress for the events read, which begin after the complete events."""
    position = F.greatest("progress_sequence_nr", F.coalesce("known_to", F.lit(0)))
    return progress.join(complete, on="persistence_id", how="left").select(
        *SERIES,
        position.alias("sequence_nr"),
        F.col("progress_number").alias("number"),
        F.col("progress_sequence_nr").alias("named_nr"),
    )


@shaped(rows=TAG_ROWS, reached=shapes.POSITIONS, returns=rule_shapes.NUMBERS)
def rows_of_progress(rows: DataFrame, reached: DataFrame) -> DataFrame:
    """Return the numbers of the events in progress, as their rows have them."""
    positions = reached.select(*SERIES, F.col("sequence_nr").alias("position"), "named_nr")
    return (
        rows.join(positions, on=SERIES)
        .where(F.col("sequence_nr") == F.col("named_nr"))
        .select(
            *SERIES,
            F.col("position").alias("sequence_nr"),
            F.lit(rule.LAST_TICKS).alias("ticks"),
            F.col("tag_pid_sequence_nr").alias("number"),
        )
    )


@shaped(numbered_points=shapes.NUMBERED_POINTS, complete=shapes.COMPLETE, returns=shapes.DOUBTS)
def doubts(numbered_points: DataFrame, complete: DataFrame) -> DataFrame:
    """Return the series with new events that need the evidence of rows.

    Such a series is contradicted, or has events after a hole whose numbers are not certain or that
    no row follows: progress alone may be wrong, and the checks also see rows of missing events.
    """
    complete_to = F.coalesce("known_to", F.lit(0))
    is_entry = (F.col("kind") == rule.ENTRY) & F.col("is_present")
    is_after_hole = is_entry & (F.col("missing") > complete_to)
    return (
        numbered_points.where(F.col("tag").isNotNull())
        .join(complete, on="persistence_id", how="left")
        .groupBy(*SERIES)
        .agg(
            F.bool_or(is_entry).alias("is_new"),
            F.bool_or(is_after_hole & ~F.col("is_certain")).alias("is_uncertain"),
            F.max(F.when(is_after_hole, F.col("missing"))).alias("missing"),
            F.max(F.when(F.col("kind") == rule.ROW, F.col("missing"))).alias("told_missing"),
            F.bool_or(F.coalesce(rule.is_contradicted(), F.lit(False))).alias("is_contradicted"),
        )
        .where(
            F.col("is_uncertain")
            | (F.col("missing") > F.coalesce("told_missing", F.lit(0)))
            | (F.col("is_new") & F.col("is_contradicted"))
        )
        .select(*SERIES, "is_contradicted")
    )


@shaped(entries_read=shapes.ENTRIES, in_doubt=shapes.DOUBTS, returns=VIEW_PARTITIONS)
def row_keys(
    entries_read: DataFrame, in_doubt: DataFrame, ruled_tags: Collection[str]
) -> DataFrame:
    """Return the keys of rows of events in messages that are evidence for series in doubt.

    Also those of unreadable events, and of events without a tag, since the plugin's migration to
    release 1.0 kept the tags of older events in their rows only; but not under `ruled_tags`, which
    rules give.
    """
    key = (
        F.col("tag").alias("tag_name"),
        F.col("time_bucket").alias("timebucket"),
        "timestamp",
        "persistence_id",
    )
    tagged = entries_read.join(in_doubt, on=SERIES).select(*key)
    contradicted = in_doubt.where(F.col("is_contradicted") & ~F.col("tag").isin(*ruled_tags))
    without_tag = entries_read.where(F.col("tag").isNull() & F.col("cause").isNull()).drop("tag")
    untagged = without_tag.join(contradicted, on="persistence_id").select(*key)
    unreadable = (
        entries_read.where(F.col("cause").isNotNull())
        .withColumn("tag", F.explode("unwritable_tags"))
        .select(*key)
    )
    return tagged.unionByName(untagged).unionByName(unreadable).distinct()


@shaped(
    entries_read=shapes.ENTRIES,
    in_doubt=shapes.DOUBTS,
    complete=shapes.COMPLETE,
    returns=VIEW_PARTITIONS,
)
def partitions_of_holes(
    entries_read: DataFrame,
    in_doubt: DataFrame,
    complete: DataFrame,
    planned: Collection[int],
    bucket_ms: int,
) -> DataFrame:
    """Return the partitions that may contain rows of missing events.

    An event was written between its neighbours. Before all events only `planned`, the time buckets
    (epoch ms) of this run, and the first event's are searched: earlier rows belong to events that
    progress had counted.
    """
    of_id = Window.partitionBy("persistence_id").orderBy(*EVENT_ORDER)
    events = entries_read.groupBy("persistence_id", "sequence_nr", "ticks").agg(
        F.first("time_bucket").alias("time_bucket")
    )
    previous_nr = F.lag("sequence_nr").over(of_id)
    holes = (
        events.withColumns(
            {"before": previous_nr, "bucket_before": F.lag("time_bucket").over(of_id)}
        )
        .join(in_doubt, on="persistence_id")
        .join(complete, on="persistence_id", how="left")
        .withColumn("before", F.coalesce("before", "known_to", F.lit(0)))
        .where(F.col("sequence_nr") > F.col("before") + 1)
    )
    first = F.least(F.coalesce("bucket_before", "time_bucket"), "time_bucket")
    last = F.greatest(F.coalesce("bucket_before", "time_bucket"), "time_bucket")
    run_buckets = F.filter(
        F.array(*map(F.lit, sorted(planned))).cast("array<bigint>"),
        lambda bucket: (
            (bucket <= F.col("last_bucket"))
            & (F.col("bucket_before").isNull() | (bucket >= F.col("first_bucket")))
        ),
    )
    step = F.lit(bucket_ms)
    hole_buckets = F.when(
        F.col("last_bucket") - F.col("first_bucket") <= WIDEST_HOLE * step,
        F.sequence("first_bucket", "last_bucket", step),
    ).otherwise(F.array("first_bucket", "last_bucket"))
    return (
        holes.withColumns({"first_bucket": first, "last_bucket": last})
        .select(
            F.col("tag").alias("tag_name"),
            F.explode(F.concat(hole_buckets, run_buckets)).alias("timebucket"),
        )
        .distinct()
    )


@shaped(
    entries_read=shapes.ENTRIES,
    rows=TAG_ROWS,
    reached=shapes.SEEN,
    complete=shapes.COMPLETE,
    returns=shapes.ENTRIES_OF_ROWS,
)
def entries_of_rows(
    entries_read: DataFrame, rows: DataFrame, reached: DataFrame, complete: DataFrame
) -> DataFrame:
    """Return the entries known by rows only: of lost, untagged and unreadable events.

    Up to where a persistence id is `complete`, rows were counted before.
    """
    is_untagged = F.col("tag").isNull()
    event = ["persistence_id", "sequence_nr"]
    present = entries_read.groupBy(*event).agg(
        F.collect_set(F.when(is_untagged, F.col("timestamp"))).alias("without_tag")
    )
    tagged = entries_read.where(~is_untagged).select(*SERIES, "sequence_nr", "timestamp")
    untagged_rows = (
        rows.join(tagged, on=tagged.columns, how="left_anti")
        .join(present, on=event, how="left")
        .join(reached, on="persistence_id", how="left")
        .join(complete, on="persistence_id", how="left")
        .where(F.col("sequence_nr") > F.coalesce("known_to", F.lit(0)))
    )
    is_lost = F.col("without_tag").isNull() & (F.col("sequence_nr") <= F.col("seen_to"))
    is_of_event = F.array_contains("without_tag", F.col("timestamp"))
    return (
        untagged_rows.where(is_lost | F.coalesce(is_of_event, F.lit(False)))
        .select(
            *SERIES,
            "sequence_nr",
            "timestamp",
            "ticks",
            F.col("without_tag").isNotNull().alias("is_present"),
        )
        .dropDuplicates([*SERIES, "sequence_nr", "timestamp"])
    )


@shaped(
    numbered_points=shapes.NUMBERED_POINTS, spans_read=shapes.SPANS, returns=shapes.CONTRADICTIONS
)
def contradictions(numbered_points: DataFrame, spans_read: DataFrame) -> DataFrame:
    """Return the series with new events whose progress no numbering of the events fits.

    That includes progress with which the row of its event disagrees, and progress that names an
    event after the last event and without a row.
    """
    is_progress, is_row = F.col("kind") == rule.PROGRESS, F.col("kind") == rule.ROW
    is_new = (F.col("kind") == rule.ENTRY) & F.col("time_bucket").isNotNull()
    row_number = F.struct("sequence_nr", "number")
    expected = F.struct("sequence_nr", "number", "expected_number")
    series = (
        numbered_points.where(F.col("tag").isNotNull())
        .groupBy(*SERIES)
        .agg(
            F.max(F.when(is_progress, expected)).alias("progress"),
            F.collect_set(F.when(is_row, row_number)).alias("rows"),
            F.max(F.when(is_new, F.col("expected_number"))).alias("counted"),
        )
        .where(F.col("progress").isNotNull() & F.col("counted").isNotNull())
        .join(spans_read, on=_ID)
    )
    position, number = F.col("progress.sequence_nr"), F.col("progress.number")
    has_row = F.exists("rows", lambda row: row["sequence_nr"] == position)
    has_same_row = F.array_contains("rows", F.struct(position, number))
    is_after_last = (position > F.col("highest")) & ~has_row
    is_wrong = number != F.col("progress.expected_number")
    text = F.format_string(
        "progress says tag pid sequence nr %s at sequence nr %s, messages up to %s count %s",
        number,
        position,
        "highest",
        F.when(is_wrong, F.col("progress.expected_number")).otherwise(F.col("counted")),
    )
    return series.where(is_wrong | is_after_last | (has_row & ~has_same_row)).select(
        *SERIES, text.alias("contradiction")
    )


@shaped(spans_read=shapes.SPANS, seen=shapes.SEEN, returns=shapes.UNSEEN)
def unseen(spans_read: DataFrame, seen: DataFrame) -> DataFrame:
    """Return the number of messages of each persistence id deleted before they were tagged."""
    first = F.coalesce("seen_to", F.lit(0)) + 1
    return (
        spans_read.join(seen, on="persistence_id", how="left")
        .select("persistence_id", (F.col("lowest") - first).alias("unseen"))
        .where(F.col("unseen") > 0)
    )


@shaped(
    numbered_points=shapes.NUMBERED_POINTS,
    contradicted=shapes.CONTRADICTIONS,
    reached=rule_shapes.REACHED,
    complete=shapes.COMPLETE,
    returns=shapes.NUMBERED,
)
def numbered(
    numbered_points: DataFrame, contradicted: DataFrame, reached: DataFrame, complete: DataFrame
) -> DataFrame:
    """Return the events read with their numbers, without those of contradicted persistence ids.

    All series of such an id are left out: its scanning must not pass a series that is not written.
    """
    progress = reached.select(*SERIES, F.col("sequence_nr").alias("progress_sequence_nr"))
    seen = complete.select("persistence_id", "read_to")
    is_event = (F.col("kind") == rule.ENTRY) & F.col("time_bucket").isNotNull()
    return (
        numbered_points.where(is_event)
        .join(contradicted.select(*_ID).distinct(), on=_ID, how="left_anti")
        .join(progress, on=SERIES, how="left")
        .join(seen, on=_ID, how="left")
        .withColumns(
            {
                "tag_pid_sequence_nr": F.col("expected_number"),
                "written_to": F.greatest("read_to", "progress_sequence_nr"),
            }
        )
        .drop("kind", "number", "rank", "missing", "is_present", "expected_number", "read_to")
    )
