"""The rows of the tag views and of their progress, as pure transformations.

tag_write_progress and tag_scanning may lag, never lead: a recovering actor skips every event up to
them. So they advance only over events whose time bucket is covered (done before, or in this run),
and stop before the first tagged event that is neither covered nor already reached by progress.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.journals.pekko.messages.messages_by_key import MESSAGE
from tidemark.journals.pekko.shapes import EVENT, MESSAGE_KEYS, SCANNING, WHOLE_MESSAGES
from tidemark.journals.pekko.tables import PAYLOAD_COLUMNS
from tidemark.numbering import shapes as rule_shapes
from tidemark.numbering.rule import SERIES
from tidemark.spark.shapes import shaped
from tidemark.tag_write import shapes
from tidemark.tag_write.numbering import EVENT_ORDER


@shaped(numbered_events=shapes.NUMBERED, buckets=shapes.BUCKETS, returns=shapes.MARKED)
def mark_covered(numbered_events: DataFrame, buckets: DataFrame) -> DataFrame:
    """Mark the events whose time bucket is covered or planned, and those that are late or open.

    A late event became visible after its time bucket was done. In a time bucket that purge has
    emptied it gets no row, as the other events there have none.
    """
    marked = numbered_events.join(F.broadcast(buckets), on="time_bucket", how="left")
    is_covered, is_tagged = F.col("is_planned").isNotNull(), F.col("tag").isNotNull()
    is_planned = F.coalesce(F.col("is_planned"), F.lit(False))
    is_written = F.coalesce(F.col("sequence_nr") <= F.col("written_to"), F.lit(False))
    is_emptied = F.coalesce(F.col("is_emptied"), F.lit(False))
    return marked.withColumns(
        {
            "is_covered": is_covered,
            "is_planned": is_planned,
            "is_late": is_tagged & is_covered & ~is_planned & ~is_written & ~is_emptied,
            "is_open": is_tagged & ~is_covered & ~_is_reached(),
        }
    ).drop("is_emptied")


@shaped(marked=shapes.MARKED, returns=shapes.MARKED)
def to_write(marked: DataFrame) -> DataFrame:
    """Return the (event, tag) rows to write: rows of planned buckets, and late rows."""
    return marked.where(F.col("tag").isNotNull() & (F.col("is_planned") | F.col("is_late")))


@shaped(marked=shapes.MARKED, returns=shapes.LATE_PARTITIONS)
def late_partitions(marked: DataFrame) -> DataFrame:
    """Return the tag-view partitions outside this run's time buckets that get late rows."""
    return marked.where("is_late").select("time_bucket", "tag").distinct()


@shaped(rows=MESSAGE_KEYS, events=WHOLE_MESSAGES, returns=MESSAGE_KEYS)
def with_payload(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Return the rows, with all their columns, and the payload of their events."""
    return rows.join(events.select(*MESSAGE, *PAYLOAD_COLUMNS), on=MESSAGE)


@shaped(rows=shapes.TO_PLACE, returns=shapes.VIEW_ROWS)
def tag_view_rows(rows: DataFrame) -> DataFrame:
    """Return the rows of tag_views as Pekko's TagWriter writes them, with the payload columns."""
    return rows.select(
        F.col("tag").alias("tag_name"),
        F.col("time_bucket").alias("timebucket"),
        "timestamp",
        "persistence_id",
        "tag_pid_sequence_nr",
        "sequence_nr",
        *PAYLOAD_COLUMNS,
    )


@shaped(marked=shapes.MARKED, returns=shapes.PROGRESS_ROWS)
def progress_rows(marked: DataFrame) -> DataFrame:
    """Return the rows of tag_write_progress that advance.

    Each is of the last event before the first open event of that id and tag.
    """
    tagged = marked.where(F.col("tag").isNotNull())
    return last_of_series(_before_first_open(tagged, SERIES).where(~_is_reached()))


@shaped(events=shapes.INDEX, returns=shapes.WHOLE_SERIES)
def whole_series(events: DataFrame, counted: Sequence[str]) -> DataFrame:
    """Return the lengths of series whose first event is present, and numbers of untagged events.

    Counts and highest sequence nrs need no sort, so the events are not numbered. They are
    partitioned by persistence id. For each of the columns `counted` there is a column of that name:
    the number of the series' events with a value in it.
    """
    columns = ["persistence_id", "sequence_nr", "time_bucket", *counted]
    return (
        events.select(*columns, F.explode_outer("tags").alias("tag"))
        .groupBy(*SERIES)
        .agg(
            F.max("sequence_nr").alias("sequence_nr"),
            F.count("*").alias("tag_pid_sequence_nr"),
            F.min("time_bucket").alias("first_time_bucket"),
            F.max("time_bucket").alias("last_time_bucket"),
            *[F.count(name).alias(name) for name in counted],
        )
    )


@shaped(series=shapes.WHOLE_SERIES, events=shapes.INDEX, returns=shapes.PROGRESS_ROWS)
def last_of_whole_series(series: DataFrame, events: DataFrame) -> DataFrame:
    """Return `last_of_series` of series whose first event is present.

    Both frames are partitioned by persistence id.
    """
    last = events.select("persistence_id", "sequence_nr", "tags", "ticks", "timestamp").join(
        series.hint("shuffle_hash"), on=["persistence_id", "sequence_nr"]
    )
    return last_of_series(last.where(F.array_contains("tags", F.col("tag"))))


@shaped(rows=shapes.NUMBERED_ROWS, returns=shapes.PROGRESS_ROWS)
def last_of_series(rows: DataFrame) -> DataFrame:
    """Return the rows of tag_write_progress for events whose rows are all written."""
    last = F.max(F.struct(*EVENT_ORDER, "tag_pid_sequence_nr", "timestamp")).alias("last")
    return (
        rows.groupBy(*SERIES)
        .agg(last)
        .select(
            *SERIES,
            "last.sequence_nr",
            "last.tag_pid_sequence_nr",
            F.col("last.timestamp").alias("offset"),
        )
    )


@shaped(marked=shapes.MARKED, returns=shapes.COVERED)
def covered_rows(marked: DataFrame) -> DataFrame:
    """Return how far each persistence id is complete."""
    return (
        _before_first_open(marked, ["persistence_id"])
        .groupBy("persistence_id")
        .agg(F.max("sequence_nr").alias("sequence_nr"))
    )


@shaped(covered=shapes.COVERED, scanning=SCANNING, returns=EVENT)
def scanning_rows(covered: DataFrame, scanning: DataFrame) -> DataFrame:
    """Return the rows of tag_scanning that advance."""
    is_ahead = F.col("scanned_to").isNull() | (F.col("sequence_nr") > F.col("scanned_to"))
    return (
        covered.join(scanning, on="persistence_id", how="left")
        .where(is_ahead)
        .select("persistence_id", "sequence_nr")
    )


@shaped(
    marked=shapes.MARKED,
    covered=shapes.COVERED,
    complete=shapes.COMPLETE,
    progress=rule_shapes.REACHED,
    returns=shapes.TAILS,
)
def tail_rows(
    marked: DataFrame, covered: DataFrame, complete: DataFrame, progress: DataFrame
) -> DataFrame:
    """Return where the next run can begin to read each persistence id.

    Ids without a complete event have a row, too: later runs read them even if all_persistence_ids
    does not list them. `covered` is how far the ids are complete; `complete` and `progress` are
    from before this run.
    """
    written = progress_rows(marked).select(*SERIES).unionByName(progress.select(*SERIES))
    tags = written.distinct().groupBy("persistence_id").agg(F.count("*").alias("series"))
    return (
        marked.groupBy("persistence_id")
        .agg(F.max("sequence_nr").alias("highest"))
        .join(complete, on="persistence_id", how="left")
        .join(covered, on="persistence_id", how="left")
        .join(tags, on="persistence_id", how="left")
        .select(
            "persistence_id",
            F.coalesce("sequence_nr", "known_to", F.lit(0)).cast("bigint").alias("sequence_nr"),
            F.greatest("highest", "read_to").alias("read_to"),
            F.coalesce("series", F.lit(0)).cast("int").alias("series"),
        )
    )


@shaped(
    entries=shapes.ENTRIES,
    contradicted=shapes.CONTRADICTIONS,
    reached=rule_shapes.REACHED,
    complete=shapes.COMPLETE,
    buckets=shapes.BUCKETS,
    returns=shapes.HELD,
)
def held_buckets(
    entries: DataFrame,
    contradicted: DataFrame,
    reached: DataFrame,
    complete: DataFrame,
    buckets: DataFrame,
) -> DataFrame:
    """Return the time buckets to hold until the contradiction is repaired.

    A bucket of this run is held if it has any event of a contradicted id. A bucket that was done
    before is held if it has such events after progress that no run has read: their rows are
    missing. Events that progress wrongly reaches look written, so the bucket of the id's newest
    event is always held; otherwise the next run would have nothing to do and succeed.
    """
    ids = contradicted.select("persistence_id").distinct()
    progress = reached.select(*SERIES, F.col("sequence_nr").alias("reached"))
    covered = (
        entries.select(*SERIES, "sequence_nr", "time_bucket")
        .join(ids, on="persistence_id", how="left_semi")
        .join(F.broadcast(buckets), on="time_bucket")
        .join(progress, on=SERIES, how="left")
        .join(complete.select("persistence_id", "read_to"), on="persistence_id", how="left")
    )
    newest = F.max("sequence_nr").over(Window.partitionBy("persistence_id"))
    written_to = F.coalesce(F.greatest("reached", "read_to"), F.lit(0))
    is_unwritten = F.col("sequence_nr") > written_to
    is_held = F.col("is_planned") | (F.col("tag").isNotNull() & is_unwritten)
    return (
        covered.withColumn("newest", newest)
        .where(is_held | (F.col("sequence_nr") == F.col("newest")))
        .select("time_bucket")
        .distinct()
    )


@shaped(marked=shapes.MARKED, returns=shapes.BUCKET_COUNTS)
def counts_by_bucket(marked: DataFrame) -> DataFrame:
    """Count the events and the rows to write in each covered bucket that has any."""
    has_row = F.col("tag").isNotNull() & (F.col("is_planned") | F.col("is_late"))
    is_event = F.coalesce(F.col("tag_position"), F.lit(0)) == 0
    return (
        marked.where(F.col("is_covered"))
        .groupBy("time_bucket")
        .agg(
            F.count(F.when(is_event & F.col("is_planned"), True)).alias("events_read"),
            F.count(F.when(has_row, True)).alias("tag_rows_written"),
            F.count(F.when(has_row & ~F.col("is_planned"), True)).alias("late_tag_rows"),
            F.approx_count_distinct(F.when(has_row, F.col("tag"))).alias("tags"),
        )
        .where((F.col("events_read") > 0) | (F.col("tag_rows_written") > 0))
    )


def _is_reached() -> Column:
    return F.coalesce(F.col("sequence_nr") <= F.col("progress_sequence_nr"), F.lit(False))


def _before_first_open(marked: DataFrame, key: Sequence[str]) -> DataFrame:
    all_rows = Window.partitionBy(*key).rowsBetween(
        Window.unboundedPreceding, Window.unboundedFollowing
    )
    first_open = F.min(F.when(F.col("is_open"), F.col("sequence_nr"))).over(all_rows)
    is_before = F.col("first_open").isNull() | (F.col("sequence_nr") < F.col("first_open"))
    return marked.withColumn("first_open", first_open).where(F.col("is_covered") & is_before)
