"""The reads of tag-write, in the order that rules out false contradictions.

The journal may be alive: Pekko writes messages, then tag_views, then tag_write_progress. So the
progress is read first: the messages read after it hold every event that the progress names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.journal import frames, increments, message_rows, tables
from tidemark.journal.tables import PAYLOAD_COLUMNS
from tidemark.ledger.pieces import Piece
from tidemark.spark.read_once import shuffled_once
from tidemark.spark.shapes import shaped
from tidemark.tagging import completeness, events, numbering, plan, rules, shapes
from tidemark.tagging.plan import Strategy
from tidemark.tagging.rules import TagRule


@dataclass
class MessagesToTag:
    """The messages of a run and the strategy that found them.

    Attributes:
        strategy: how the events are found.
        why: the reason for the strategy, for people.
        progress: `journal.frames.write_progress`, in memory.
        known: `completeness.known`, empty when all events are read.
        messages: all messages, or the new ones in memory, with the whole payload.
        seen: how far each persistence id was seen before, as `numbering.unseen` takes it.
    """

    strategy: Strategy
    why: str
    progress: DataFrame
    known: DataFrame
    messages: DataFrame
    seen: DataFrame


@dataclass
class Numbered:
    """The ranked events and the anchors of their numbers.

    Attributes:
        ranked: `numbering.ranked`, in memory.
        anchors: `numbering.anchors`.
        lost: `events.lost` with their ranks, in memory; None if there are none.
        unseen: messages that were deleted before anybody tagged them.
    """

    ranked: DataFrame
    anchors: DataFrame
    unseen: int = 0
    lost: DataFrame | None = None

    @property
    def counted(self) -> DataFrame:
        """All that has a rank."""
        if self.lost is None:
            return self.ranked
        return self.ranked.unionByName(self.lost)


def source(
    run: RunContext,
    pieces: Sequence[Piece],
    tag_rules: Sequence[TagRule],
    requested: Strategy | None,
) -> MessagesToTag:
    """Choose the strategy and read the messages."""
    spark, settings = run.spark, run.settings
    progress = frames.write_progress(spark, settings).localCheckpoint()
    known = completeness.known(spark, settings, rules.version(tag_rules)).localCheckpoint()
    seen = _seen(run, progress, known)
    strategy, why = plan.choose(requested, _journal(run, known), pieces)
    run.say(f"finding the events by {strategy}: {why}")
    if strategy is Strategy.SCAN:
        return _scan(run, why, progress, known, seen)
    met = seen.select("persistence_id").join(known, on="persistence_id", how="left")
    beginning = increments.start_positions(spark, settings, met)
    if strategy is Strategy.INDEX:
        beginning = beginning.join(_with_news(run, pieces), on="persistence_id", how="left_semi")
    new = increments.after(beginning, settings, *PAYLOAD_COLUMNS)
    return MessagesToTag(strategy, why, progress, known, new, seen)


def all_of(run: RunContext, tag_rules: Sequence[TagRule]) -> MessagesToTag:
    """Return every message as a source that is numbered from the progress only."""
    progress = frames.write_progress(run.spark, run.settings).localCheckpoint()
    known = completeness.known(run.spark, run.settings, rules.version(tag_rules)).limit(0)
    return _scan(run, "asked for", progress, known, _seen(run, progress, known))


def _scan(
    run: RunContext, why: str, progress: DataFrame, known: DataFrame, seen: DataFrame
) -> MessagesToTag:
    messages = frames.message_index(run.spark, run.settings, *PAYLOAD_COLUMNS)
    return MessagesToTag(Strategy.SCAN, why, progress, known.limit(0), messages, seen)


@shaped(returns=shapes.TAGGED)
def kept(read_from: MessagesToTag, tag_rules: Sequence[TagRule], is_needed: Column) -> DataFrame:
    """Return the tagged events, read once, so that numbers and rows come from the same events.

    Args:
        read_from: the messages.
        tag_rules: the rules that add tags.
        is_needed: whether the payload of a message is kept; may use time_bucket.

    The events have all payload columns. After a scan they are partitioned by persistence id.
    """
    tagged = events.tagged(read_from.messages, tag_rules)
    if read_from.strategy is not Strategy.SCAN:
        return tagged
    return shuffled_once(events.with_payload_where(tagged, is_needed), "persistence_id")


@shaped(index=shapes.INDEX)
def ranked(
    run: RunContext, read_from: MessagesToTag, index: DataFrame, *, counts_rows: bool
) -> Numbered:
    """Rank the events and find the anchors of their numbers.

    With `counts_rows`, `events.lost` take a rank, too. Who deletes such rows must not count them.

    A series without another anchor is anchored by the last row of its tag view. Otherwise, once
    the progress is lost, the events of an id whose first messages are deleted would be counted
    from 1 again, beside the rows that exist.
    """
    # Checkpoints and not caches: later plans would grow with each cache that they use, and a small
    # run spends most of its time on planning.
    is_unreadable = F.col("cause").isNotNull()
    ranked_events = numbering.ranked(index.withColumn("is_unreadable", is_unreadable))
    ranked_events = ranked_events.localCheckpoint()
    deleted = frames.deleted(run.spark, run.settings)
    cut = message_rows.with_deleted_messages(ranked_events, deleted).localCheckpoint()
    if not cut.isEmpty():
        present = message_rows.without_deleted_messages(ranked_events, cut)
        ranked_events = numbering.ranked_anew(present).localCheckpoint()
    incomplete = _incomplete(ranked_events, read_from)
    if incomplete.isEmpty():
        return Numbered(ranked_events, numbering.anchors(read_from.progress, None))
    lost = _lost(run, ranked_events, incomplete) if counts_rows else None
    if lost is not None:
        both = ranked_events.unionByName(lost, allowMissingColumns=True)
        both = numbering.ranked_anew(both).localCheckpoint()
        # An event of messages has a time bucket, and of a row that of its event is not known.
        ranked_events = both.where(F.col("time_bucket").isNotNull())
        lost = both.where(F.col("time_bucket").isNull())
    unseen = numbering.unseen(incomplete, read_from.seen).agg(F.sum("unseen").alias("all"))
    anchors = _anchors(run, ranked_events, incomplete, read_from)
    return Numbered(ranked_events, anchors, unseen.collect()[0]["all"] or 0, lost)


def _incomplete(ranked_events: DataFrame, read_from: MessagesToTag) -> DataFrame:
    """Return `numbering.spans`, in memory, of the ids that are not gapless from sequence nr 1.

    Added are `reached`, the highest sequence nr that was read or that the progress names, and
    `is_damaged`, whether events are missing or unreadable up to there.
    """
    spans = numbering.spans(ranked_events)
    named = read_from.progress.groupBy("persistence_id").agg(
        F.max("progress_sequence_nr").alias("named")
    )
    is_damaged = F.col("events") <= F.col("reached") - F.col("lowest")
    is_beheaded = (F.col("lowest") > 1) & ~(numbering.follows_known() & F.col("is_whole"))
    return (
        spans.join(read_from.known, on="persistence_id", how="left")
        .join(named, on="persistence_id", how="left")
        .withColumn("reached", F.greatest("highest", "named"))
        .withColumn("is_damaged", is_damaged)
        .where(F.col("is_damaged") | is_beheaded)
        .select(*spans.columns, "reached", "is_damaged")
        .localCheckpoint()
    )


def _lost(run: RunContext, ranked_events: DataFrame, incomplete: DataFrame) -> DataFrame | None:
    """Return `events.lost`, in memory; None if there are none."""
    damaged = incomplete.where("is_damaged").select("persistence_id", "lowest", "reached")
    if damaged.isEmpty():
        return None
    rows = frames.tag_view_keys(run.spark, run.settings)
    lost = events.lost(rows, ranked_events, damaged).localCheckpoint()
    return None if lost.isEmpty() else lost


def _anchors(
    run: RunContext, ranked_events: DataFrame, spans: DataFrame, read_from: MessagesToTag
) -> DataFrame:
    progress = read_from.progress
    open_series = numbering.unanchored(ranked_events, spans, read_from.known, progress)
    open_series = open_series.localCheckpoint()
    if open_series.isEmpty():
        return numbering.anchors(progress, None)
    rows = frames.tag_view_keys(run.spark, run.settings)
    return numbering.anchors(progress, numbering.last_rows(rows, open_series))


@shaped(returns=shapes.SEEN)
def _seen(run: RunContext, progress: DataFrame, known: DataFrame) -> DataFrame:
    """Return how far any writer has seen each persistence id."""
    parts = [
        known.select("persistence_id", F.col("known_to").alias("seen_to")),
        progress.select("persistence_id", F.col("progress_sequence_nr").alias("seen_to")),
        frames.scanning(run.spark, run.settings).withColumnRenamed("scanned_to", "seen_to"),
    ]
    union = reduce(DataFrame.unionByName, parts)
    return union.groupBy("persistence_id").agg(F.max("seen_to").alias("seen_to"))


def _journal(run: RunContext, known: DataFrame) -> plan.Journal:
    known_ids = known.agg(F.count("*").alias("ids"), F.sum("known_to").alias("events")).collect()[0]
    has_index = tables.has_time_index(run.control, run.settings)
    return plan.Journal(
        known_ids["ids"], known_ids["events"] or 0, _all_are_listed(run, known), has_index
    )


def _all_are_listed(run: RunContext, known: DataFrame) -> bool:
    """Return whether all_persistence_ids names every known id that still has messages.

    The table no longer names an id that was cleaned up for good. The ids are compared, not their
    number: an unlisted old id could hide behind a new one that is not known yet.
    """
    spark, settings = run.spark, run.settings
    name = settings.all_persistence_ids_table
    if not run.control.table_columns(settings.journal_keyspace, name):
        return False
    listed = connector.read(spark, settings.journal_keyspace, name, "persistence_id")
    unlisted = known.join(listed, on="persistence_id", how="left_anti").localCheckpoint()
    if unlisted.isEmpty():
        return True
    deleted_to = F.coalesce("deleted_to", F.lit(0))
    candidates = F.array(F.greatest("known_to", F.lit(1)), F.col("known_to") + 1, deleted_to + 1)
    events_asked = unlisted.join(
        frames.deleted(spark, settings), on="persistence_id", how="left"
    ).select("persistence_id", F.explode(F.array_distinct(candidates)).alias("sequence_nr"))
    keys = increments.keys_of(events_asked, settings).localCheckpoint()
    return frames.messages_of(keys, settings).isEmpty()


def _with_news(run: RunContext, pieces: Sequence[Piece]) -> DataFrame:
    """Return the persistence ids with a message in the window or in the look-back before it."""
    settings = run.settings
    first = min(piece.time_bucket for piece in pieces) - settings.tag_write_look_back * 1000
    end = max(piece.time_bucket for piece in pieces) + settings.bucket_size.milliseconds
    messages = frames.indexed_between(run.spark, settings, first, end)
    return messages.select("persistence_id").distinct()
