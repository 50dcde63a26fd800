"""The numbering of events under their tags, as pure transformations.

The tag pid sequence nr of an event counts the events of its persistence id that carry the tag, in
sequence nr order, from 1. Counting starts at an anchor of each persistence id and tag, see
`anchored`; so the number of an event does not depend on which windows were processed, in which
order or how often, nor on messages deleted from the front. Source: docs/real-systems.md, "What an
actor writes" and "How an actor recovers".
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.journal.shapes import DELETED, EVENT, PROGRESS, TAG_ROWS
from tidemark.spark.shapes import shaped
from tidemark.tagging import shapes

SERIES = ["persistence_id", "tag"]
"""The key of a series, which has one numbering."""
EVENT_ORDER = ["sequence_nr", "ticks"]


@shaped(events=shapes.INDEX, returns=shapes.RANKED)
def ranked(events: DataFrame) -> DataFrame:
    """Return a row with its rank for each (event, tag), and one without a tag if there is none.

    The only shuffle is by persistence id, before the events are multiplied by their tags;
    everything that counts or compares within a persistence id afterwards needs no other.

    Further columns of the events are kept.
    """
    kept = [name for name in events.columns if name not in ("tags", "cause")]
    return (
        events.repartition("persistence_id")
        .select(*kept, F.posexplode_outer("tags").alias("tag_position", "tag"))
        .withColumn("rank", _rank())
    )


@shaped(events=EVENT, returns=shapes.SPANS)
def spans(events: DataFrame) -> DataFrame:
    """Return the range of sequence nrs that was read of each persistence id.

    The events have the column tag_position if they are repeated for their tags, and those do not
    count as events that have a true `is_unreadable`.
    """
    is_event = F.lit(True)
    if "tag_position" in events.columns:
        is_event = F.coalesce(F.col("tag_position"), F.lit(0)) == 0
    if "is_unreadable" in events.columns:
        is_event &= ~F.col("is_unreadable")
    return events.groupBy("persistence_id").agg(
        F.min("sequence_nr").alias("lowest"),
        F.max("sequence_nr").alias("highest"),
        F.count(F.when(is_event, True)).alias("events"),
    )


@shaped(events=EVENT, spans_read=shapes.SPANS, deleted=DELETED, returns=DELETED)
def torn(events: DataFrame, spans_read: DataFrame, deleted: DataFrame) -> DataFrame:
    """Return the persistence ids of which a concurrent delete left only some messages in the read.

    An actor writes to metadata up to where it deletes before it deletes (docs/real-systems.md,
    "Deletes and tools"). So no message that is missing for that reason lies beyond the deleted_to
    that metadata has after the read.

    `deleted` must be read after the messages.
    """
    cut = (
        spans_read.where(F.col("events") <= F.col("highest") - F.col("lowest"))
        .join(deleted, on="persistence_id")
        .where(F.col("lowest") <= F.col("deleted_to"))
    )
    behind = events.join(cut, on="persistence_id").where(
        F.col("sequence_nr") <= F.col("deleted_to")
    )
    wanted = F.least("deleted_to", "highest") - F.col("lowest") + 1
    return (
        behind.groupBy("persistence_id", "deleted_to", wanted.alias("wanted"))
        .agg(F.count_distinct("sequence_nr").alias("present"))
        .where(F.col("present") < F.col("wanted"))
        .select("persistence_id", "deleted_to")
    )


@shaped(events=EVENT, torn_ids=DELETED, returns=EVENT)
def without_torn(events: DataFrame, torn_ids: DataFrame) -> DataFrame:
    """Return the events as a read after those deletes would have found them.

    All columns of the events are kept.
    """
    return (
        events.join(F.broadcast(torn_ids), on="persistence_id", how="left")
        .where(F.col("deleted_to").isNull() | (F.col("sequence_nr") > F.col("deleted_to")))
        .select(*events.columns)
    )


@shaped(ranked_events=shapes.ANY_RANKED, returns=shapes.ANY_RANKED)
def ranked_anew(ranked_events: DataFrame) -> DataFrame:
    """Rank the remaining ranked events again."""
    return ranked_events.withColumn("rank", _rank())


@shaped(
    ranked_events=shapes.ANY_RANKED,
    known=shapes.KNOWN,
    anchors=shapes.ANCHORS,
    returns=shapes.ANCHORED,
)
def anchored(ranked_events: DataFrame, known: DataFrame, anchors: DataFrame) -> DataFrame:
    """Return the shift from ranks to numbers for each persistence id and tag among the events read.

    The first of these that applies gives `shift`, which is added to every rank:
    1. `known`, if the events read follow it without a gap: the number that the last event before
       them had when Tidemark wrote it; 0 for a tag that the id never had;
    2. the events read begin with sequence nr 1: 0;
    3. the anchor: its number at its event, whose messages before may be deleted;
    4. nothing: 0, as Pekko numbers what is left of an id after its messages were deleted.

    `known` is no anchor for an id whose next events were deleted before they were seen: those
    events may have carried the tag.

    A series is contradicted if its progress row disagrees with the messages: another number at its
    event, or an event beyond the last. This shows only where 1 or 2 applies. A progress behind the
    events read may lag, since Pekko writes it later than the rows.
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
    before = F.when(follows_known(), known_number()).when(F.col("lowest") == 1, F.lit(0))
    from_anchor = F.coalesce(F.col("anchor_number") - F.col("rank_at_anchor"), F.lit(0))
    return series.select(
        # New columns of the same names: where both frames are checkpoints and adaptive execution
        # is off, Spark refuses to join this frame with the one that it was made from.
        *[F.col(name).alias(name) for name in SERIES],
        F.coalesce(before, from_anchor).cast("bigint").alias("shift"),
        "progress_sequence_nr",
        _contradiction(before + F.col("rank_at_anchor")).alias("contradiction"),
    )


@shaped(progress=PROGRESS, last_rows=shapes.PROGRESS_ROWS, returns=shapes.ANCHORS)
def anchors(progress: DataFrame, last_rows: DataFrame | None) -> DataFrame:
    """Return the latest known number of each persistence id and tag: of its progress or its row.

    A row of a tag view gives a number and nothing else: it does not prove that the events before
    it are written, nor can the actor recover from it. So the progress must still be written.

    `last_rows` are those of the series that progress does not anchor.
    """
    at = F.col("progress_sequence_nr")
    known = progress.select(
        *SERIES, at.alias("anchor_sequence_nr"), F.col("progress_number").alias("anchor_number"), at
    )
    if last_rows is None:
        return known
    of_rows = last_rows.select(
        *SERIES,
        F.col("sequence_nr").alias("anchor_sequence_nr"),
        F.col("tag_pid_sequence_nr").alias("anchor_number"),
        F.lit(None).cast("bigint").alias("progress_sequence_nr"),
    )
    latest = F.max(F.struct("anchor_sequence_nr", "anchor_number"))
    return (
        known.unionByName(of_rows)
        .groupBy(*SERIES)
        .agg(latest.alias("latest"), F.max("progress_sequence_nr").alias("progress_sequence_nr"))
        .select(*SERIES, "latest.*", "progress_sequence_nr")
    )


@shaped(
    ranked_events=shapes.ANY_RANKED,
    spans_read=shapes.SPANS,
    known=shapes.KNOWN,
    progress=PROGRESS,
    returns=shapes.UNANCHORED,
)
def unanchored(
    ranked_events: DataFrame, spans_read: DataFrame, known: DataFrame, progress: DataFrame
) -> DataFrame:
    """Return the series that neither `known` nor progress anchors: their rows must be read.

    Progress anchors nothing if there may have been events between it and the first event read.
    """
    beheaded = spans_read.where(F.col("lowest") > 1).join(known, on="persistence_id", how="left")
    at = F.col("progress_sequence_nr")
    return (
        ranked_events.where(F.col("tag").isNotNull())
        .select(*SERIES)
        .distinct()
        .join(beheaded, on="persistence_id")
        .where(~follows_known() | known_number().isNull())
        .join(progress, on=SERIES, how="left")
        .where(at.isNull() | (at < F.col("lowest") - 1))
        .select(*SERIES, "highest")
    )


@shaped(tag_rows=TAG_ROWS, series=shapes.UNANCHORED, returns=shapes.PROGRESS_ROWS)
def last_rows(tag_rows: DataFrame, series: DataFrame) -> DataFrame:
    """Return the last row of each series in its tag view, among the events that were read.

    Rows are read after messages: rows beyond those belong to events that came meanwhile.
    """
    series_rows = tag_rows.join(F.broadcast(series), on=SERIES)
    return last_of_series(series_rows.where(F.col("sequence_nr") <= F.col("highest")))


@shaped(spans_read=shapes.SPANS, seen=shapes.SEEN, returns=shapes.UNSEEN)
def unseen(spans_read: DataFrame, seen: DataFrame) -> DataFrame:
    """Count the messages of each persistence id that were deleted before they were tagged."""
    first = F.coalesce("seen_to", F.lit(0)) + 1
    return (
        spans_read.join(seen, on="persistence_id", how="left")
        .select("persistence_id", (F.col("lowest") - first).alias("unseen"))
        .where(F.col("unseen") > 0)
    )


@shaped(ranked_events=shapes.RANKED, series=shapes.ANCHORED, returns=shapes.NUMBERED)
def numbered(ranked_events: DataFrame, series: DataFrame) -> DataFrame:
    """Turn ranks into numbers, without the events of contradicted persistence ids.

    Such an id is left out as a whole: its scanning must not pass a series that is not written.
    """
    held = series.where(F.col("contradiction").isNotNull()).select("persistence_id").distinct()
    plain = series.select(*SERIES, "shift", "progress_sequence_nr")
    return (
        ranked_events.join(plain, on=SERIES, how="left")
        .join(F.broadcast(held), on="persistence_id", how="left_anti")
        .withColumn("tag_pid_sequence_nr", F.col("rank") + F.col("shift"))
        .drop("rank", "shift")
    )


@shaped(rows=shapes.NUMBERED_ROWS, returns=shapes.PROGRESS_ROWS)
def last_of_series(rows: DataFrame) -> DataFrame:
    """Return the rows of tag_write_progress for events that are all written."""
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


def _rank() -> Column:
    by_series = Window.partitionBy(*SERIES).orderBy(*EVENT_ORDER)
    return F.when(F.col("tag").isNotNull(), F.row_number().over(by_series).cast("bigint"))


def follows_known() -> Column:
    """Return whether the events read of an id follow its known events without a gap."""
    return F.coalesce(F.col("lowest") == F.col("known_to") + 1, F.lit(False))


def known_number() -> Column:
    """Return the number that `known` has for the last event of a tag; null if it has none."""
    named = F.element_at("numbers", F.col("tag"))
    return F.coalesce(named, F.when(F.col("is_whole"), F.lit(0)))


def _contradiction(counted: Column) -> Column:
    """Describe the contradiction; null where `counted`, at the progress's event, is null or agrees.

    The number of a progress before the events read is not counted but bounded: at most that of
    the last event before them, and lower by at most one for each event between.
    """
    at = F.col("progress_sequence_nr")
    number = F.col("anchor_number")
    between = F.greatest(F.col("lowest") - 1 - at, F.lit(0))
    disagrees = (number > counted) | (counted - number > between)
    return F.when(
        counted.isNotNull() & at.isNotNull() & (disagrees | (at > F.col("highest"))),
        F.format_string(
            "progress says tag pid sequence nr %s at sequence nr %s, messages up to %s count %s",
            number,
            at,
            F.col("highest"),
            counted,
        ),
    )
