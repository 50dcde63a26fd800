"""The rows of the tag views, and how far they are complete, as pure transformations.

Numbering. The tag pid sequence nr of an event counts the events of its persistence id that carry
the tag, in sequence nr order, from 1. Counting starts at an anchor of each persistence id and tag,
see `anchored`; so the number of an event does not depend on which windows were processed, in which
order or how often, nor on messages deleted from the front. Source: facts pekko-cassandra §3, §4.

Completeness. tag_write_progress and tag_scanning may lag, never lead: an actor skips every event
up to them when it recovers. So they only move over events whose time bucket is covered (done
before, or in this run), and stop before the first tagged event that is neither covered nor
already behind the progress.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.journal.tables import PAYLOAD_COLUMNS

SERIES = ["persistence_id", "tag"]
"""What one numbering belongs to."""
EVENT_ORDER = ["sequence_nr", "ticks"]


def ranked(events: DataFrame) -> DataFrame:
    """One row for each (event, tag) with its rank, and one with a null tag for each untagged event.

    One shuffle, by persistence id and before the events are multiplied by their tags; everything
    that counts or compares within a persistence id afterwards needs no other.

    Columns in: those of `events.read`. Columns out: the same without tags and cause, and tag,
    tag_position (0 for an event's first tag, null when untagged), rank (bigint, from 1, among the
    events read of that persistence id and tag; null when untagged).
    """
    kept = [name for name in events.columns if name not in ("tags", "cause")]
    by_series = Window.partitionBy(*SERIES).orderBy(*EVENT_ORDER)
    return (
        events.repartition("persistence_id")
        .select(*kept, F.posexplode_outer("tags").alias("tag_position", "tag"))
        .withColumn(
            "rank",
            F.when(F.col("tag").isNotNull(), F.row_number().over(by_series).cast("bigint")),
        )
    )


def anchored(ranked_events: DataFrame, known: DataFrame, anchors: DataFrame) -> DataFrame:
    """How ranks become numbers, for each persistence id and tag among the events read.

    The first that applies gives `shift`, to be added to every rank:
    1. `known`: the number that the last event before those read had when Tidemark wrote it;
    2. the events read begin with sequence nr 1: 0;
    3. the anchor: its number at its event, whose messages before may be deleted;
    4. nothing: 0, as Pekko numbers what is left of an id after its messages were deleted.

    A series is contradicted if its progress row says something else than the messages: another
    number at its event, or an event beyond the last. Only where 1 or 2 applies can that be seen.

    Columns in: those of `ranked`; `known` has persistence_id, known_to (bigint, 0 when nothing is
    known) and numbers (map of tag to bigint); those of `anchors`.
    Columns out: persistence_id, tag, shift, progress_sequence_nr (bigint), contradiction (text,
    null when there is none).
    """
    highest = Window.partitionBy("persistence_id")
    series = (
        ranked_events.withColumn("lowest", F.min("sequence_nr").over(highest))
        .withColumn("highest", F.max("sequence_nr").over(highest))
        .join(anchors, on=SERIES, how="left")
        .where(F.col("tag").isNotNull())
        .groupBy(*SERIES)
        .agg(
            F.first("lowest").alias("lowest"),
            F.first("highest").alias("highest"),
            F.first("progress_sequence_nr").alias("progress_sequence_nr"),
            F.first("anchor_number").alias("anchor_number"),
            F.count(F.when(F.col("sequence_nr") <= F.col("anchor_sequence_nr"), True)).alias(
                "rank_at_anchor"
            ),
        )
        .join(known, on="persistence_id", how="left")
    )
    is_known = F.coalesce(F.col("known_to") > 0, F.lit(False))
    before = F.when(is_known, F.coalesce(F.element_at("numbers", F.col("tag")), F.lit(0))).when(
        F.col("lowest") == 1, F.lit(0)
    )
    from_anchor = F.coalesce(F.col("anchor_number") - F.col("rank_at_anchor"), F.lit(0))
    return series.select(
        # Under the same names, but as columns of its own: where both frames are checkpoints and
        # adaptive execution is off, Spark refuses to join this one with the one it was made from.
        *[F.col(name).alias(name) for name in SERIES],
        F.coalesce(before, from_anchor).cast("bigint").alias("shift"),
        "progress_sequence_nr",
        _contradiction(before + F.col("rank_at_anchor")).alias("contradiction"),
    )


def anchors(progress: DataFrame, last_rows: DataFrame | None) -> DataFrame:
    """What is known of a number in each persistence id and tag.

    A row of a tag view gives a number and nothing else: what it does not say is that the events
    before it are written, nor can the actor recover from it. So the progress is still to be
    written.

    Columns in: those of `journal.frames.write_progress`; `last_rows` those of `last_of_series`,
    of persistence ids and tags without progress.
    Columns out: persistence_id, tag, anchor_sequence_nr, anchor_number, progress_sequence_nr (null
    for an anchor from a tag view).
    """
    at = F.col("progress_sequence_nr")
    known = progress.select(
        *SERIES, at.alias("anchor_sequence_nr"), F.col("progress_number").alias("anchor_number"), at
    )
    if last_rows is None:
        return known
    return known.unionByName(
        last_rows.select(
            *SERIES,
            F.col("sequence_nr").alias("anchor_sequence_nr"),
            F.col("tag_pid_sequence_nr").alias("anchor_number"),
            F.lit(None).cast("bigint").alias("progress_sequence_nr"),
        )
    )


def unanchored(ranked_events: DataFrame, known: DataFrame, progress: DataFrame) -> DataFrame:
    """The series that only `anchored`'s last rule applies to, so that their rows must be asked.

    Columns in: as in `anchored`. Columns out: persistence_id, tag.
    """
    by_id = ranked_events.groupBy("persistence_id").agg(F.min("sequence_nr").alias("lowest"))
    beheaded = by_id.where(F.col("lowest") > 1).join(known, on="persistence_id", how="left_anti")
    tagged = ranked_events.where(F.col("tag").isNotNull()).select(*SERIES).distinct()
    return tagged.join(beheaded, on="persistence_id", how="left_semi").join(
        progress, on=SERIES, how="left_anti"
    )


def last_rows(tag_rows: DataFrame, series: DataFrame) -> DataFrame:
    """The last row of each of those series in its tag view.

    Columns in: those of `journal.frames.tag_view_keys`, and of `unanchored`. Columns out: those
    of `last_of_series`.
    """
    return last_of_series(tag_rows.join(F.broadcast(series), on=SERIES, how="left_semi"))


def numbered(ranked_events: DataFrame, series: DataFrame) -> DataFrame:
    """Ranks turned into numbers; the events of contradicted persistence ids are left out.

    An id is left out as a whole: its scanning must not pass a series that is not written.

    Columns in: those of `ranked` and `anchored`. Columns out: those of `ranked` without rank, and
    tag_pid_sequence_nr (bigint, null when untagged), progress_sequence_nr.
    """
    held = series.where(F.col("contradiction").isNotNull()).select("persistence_id").distinct()
    plain = series.select(*SERIES, "shift", "progress_sequence_nr")
    return (
        ranked_events.join(plain, on=SERIES, how="left")
        .join(F.broadcast(held), on="persistence_id", how="left_anti")
        .withColumn("tag_pid_sequence_nr", F.col("rank") + F.col("shift"))
        .drop("rank", "shift")
    )


def mark_covered(numbered_events: DataFrame, buckets: DataFrame) -> DataFrame:
    """Add what a run may rely on.

    Columns in: those of `numbered`; `buckets` has time_bucket (bigint, unique) and
    is_planned (boolean): the buckets of this run, and those done before.
    Columns out: and is_covered (the bucket is in `buckets`), is_planned (it is of this run),
    is_open (a tagged event neither covered nor behind its progress).
    """
    marked = numbered_events.join(F.broadcast(buckets), on="time_bucket", how="left").withColumn(
        "is_covered", F.col("is_planned").isNotNull()
    )
    is_open = F.col("tag").isNotNull() & ~F.col("is_covered") & ~_is_written()
    return marked.withColumns(
        {"is_planned": F.coalesce(F.col("is_planned"), F.lit(False)), "is_open": is_open}
    )


def to_write(marked: DataFrame) -> DataFrame:
    """The (event, tag) rows to write: all of this run's buckets, and late ones of covered buckets.

    A late event became visible after its bucket was done; it is recognised by the progress, which
    it lies beyond. Columns: those of `mark_covered`.
    """
    is_late = F.col("is_covered") & ~_is_written()
    return marked.where(F.col("tag").isNotNull() & (F.col("is_planned") | is_late))


def tag_view_rows(rows: DataFrame) -> DataFrame:
    """The rows of tag_views, column by column as Pekko's TagWriter writes them.

    Columns in: those of `numbered`, with the payload columns. Columns out: tag_name, timebucket,
    timestamp, persistence_id, tag_pid_sequence_nr, sequence_nr and the payload columns.
    """
    return rows.select(
        F.col("tag").alias("tag_name"),
        F.col("time_bucket").alias("timebucket"),
        "timestamp",
        "persistence_id",
        "tag_pid_sequence_nr",
        "sequence_nr",
        *PAYLOAD_COLUMNS,
    )


def progress_rows(marked: DataFrame) -> DataFrame:
    """The rows of tag_write_progress that move forward.

    Columns in: those of `mark_covered`. Columns out: persistence_id, tag, sequence_nr,
    tag_pid_sequence_nr, offset: the last event before the first open one of that id and tag.
    """
    tagged = marked.where(F.col("tag").isNotNull())
    return last_of_series(_before_first_open(tagged, SERIES).where(~_is_written()))


def last_of_series(rows: DataFrame) -> DataFrame:
    """The rows of tag_write_progress for events that are all written.

    Columns in: persistence_id, tag, sequence_nr, ticks, timestamp, tag_pid_sequence_nr. Columns
    out: persistence_id, tag, sequence_nr, tag_pid_sequence_nr, offset: of each series' last event.
    """
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


def whole_series(events: DataFrame, counted: Sequence[str]) -> DataFrame:
    """The lengths of series of which the first event is there, and of what is untagged.

    Without numbering them: counts and highest sequence nrs take no sort, whatever their number.

    Columns in: those of `events.tagged`, partitioned by persistence id. Columns out:
    persistence_id, tag (null for the untagged events of an id), sequence_nr (the highest),
    tag_pid_sequence_nr (bigint; of no meaning without a tag), first_time_bucket and
    last_time_bucket (of any of its events), and each of the columns `counted` (bigint: how many of
    the series' events have a value there).
    """
    kept = ["persistence_id", "sequence_nr", "time_bucket", *counted]
    return (
        events.select(*kept, F.explode_outer("tags").alias("tag"))
        .groupBy(*SERIES)
        .agg(
            F.max("sequence_nr").alias("sequence_nr"),
            F.count("*").alias("tag_pid_sequence_nr"),
            F.min("time_bucket").alias("first_time_bucket"),
            F.max("time_bucket").alias("last_time_bucket"),
            *[F.count(name).alias(name) for name in counted],
        )
    )


def last_of_whole_series(series: DataFrame, events: DataFrame) -> DataFrame:
    """The same as `last_of_series`, of series whose first event is there.

    Columns in: those of `whole_series`, and of `events.tagged`, both partitioned by persistence id.
    """
    last = events.select("persistence_id", "sequence_nr", "tags", "ticks", "timestamp").join(
        series.hint("shuffle_hash"), on=["persistence_id", "sequence_nr"]
    )
    return last_of_series(last.where(F.array_contains("tags", F.col("tag"))))


def covered_rows(marked: DataFrame) -> DataFrame:
    """How far each persistence id is complete.

    Columns in: those of `mark_covered`. Columns out: persistence_id, sequence_nr: the highest
    covered event, tagged or not, before the first open one of that id.
    """
    return (
        _before_first_open(marked, ["persistence_id"])
        .groupBy("persistence_id")
        .agg(F.max("sequence_nr").alias("sequence_nr"))
    )


def scanning_rows(covered: DataFrame, scanning: DataFrame) -> DataFrame:
    """The rows of tag_scanning that move forward.

    Columns in: those of `covered_rows` and `journal.frames.scanning`. Columns out:
    persistence_id, sequence_nr.
    """
    is_ahead = F.col("scanned_to").isNull() | (F.col("sequence_nr") > F.col("scanned_to"))
    return (
        covered.join(scanning, on="persistence_id", how="left")
        .where(is_ahead)
        .select("persistence_id", "sequence_nr")
    )


def tail_rows(marked: DataFrame, covered: DataFrame, known: DataFrame) -> DataFrame:
    """Where the next run can begin to read, and to count, each persistence id.

    Columns in: those of `mark_covered`, `covered_rows`, and `known` as in `anchored`. Columns
    out: persistence_id, sequence_nr (of the last complete event), numbers (map of tag to the
    number that its last complete event has).
    """
    tagged = marked.where(F.col("tag").isNotNull()).select(
        "persistence_id", "tag", F.col("sequence_nr").alias("at"), "tag_pid_sequence_nr"
    )
    moved = (
        tagged.join(covered, on="persistence_id")
        .where(F.col("at") <= F.col("sequence_nr"))
        .groupBy(*SERIES)
        .agg(F.max("tag_pid_sequence_nr").alias("number"))
        .groupBy("persistence_id")
        .agg(F.map_from_entries(F.collect_list(F.struct("tag", "number"))).alias("moved"))
    )
    nothing = F.create_map().cast("map<string,bigint>")
    before = F.coalesce(F.col("numbers"), nothing)
    now = F.coalesce(F.col("moved"), nothing)
    kept = F.map_filter(before, lambda tag, number: ~F.array_contains(F.map_keys(now), tag))
    return (
        covered.join(moved, on="persistence_id", how="left")
        .join(known, on="persistence_id", how="left")
        .select("persistence_id", "sequence_nr", F.map_concat(kept, now).alias("numbers"))
    )


def counts_by_bucket(marked: DataFrame) -> DataFrame:
    """What there is to do in each covered bucket that has something to do.

    Columns in: those of `mark_covered`. Columns out: time_bucket, events_read, tag_rows_written,
    late_tag_rows (those among them that lie outside this run's buckets), tags (about how many
    different ones its rows have).
    """
    has_row = F.col("tag").isNotNull() & (F.col("is_planned") | ~_is_written())
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


def _is_written() -> Column:
    return F.coalesce(F.col("sequence_nr") <= F.col("progress_sequence_nr"), F.lit(False))


def _before_first_open(marked: DataFrame, key: Sequence[str]) -> DataFrame:
    whole = Window.partitionBy(*key).rowsBetween(
        Window.unboundedPreceding, Window.unboundedFollowing
    )
    first_open = F.min(F.when(F.col("is_open"), F.col("sequence_nr"))).over(whole)
    is_before = F.col("first_open").isNull() | (F.col("sequence_nr") < F.col("first_open"))
    return marked.withColumn("first_open", first_open).where(F.col("is_covered") & is_before)


def _contradiction(counted: Column) -> Column:
    """Null where `counted`, the number at the progress's event, is unknown or agrees."""
    at = F.col("progress_sequence_nr")
    number = F.col("anchor_number")
    return F.when(
        counted.isNotNull() & at.isNotNull() & ((number != counted) | (at > F.col("highest"))),
        F.format_string(
            "progress says tag pid sequence nr %s at sequence nr %s, messages up to %s count %s",
            number,
            at,
            F.col("highest"),
            counted,
        ),
    )
