"""The reads of tag-write, in the order that rules out false contradictions.

The journal may be alive: Pekko writes messages, then tag_views, then tag_write_progress. So the
progress is read first: the messages read after it hold every event that the progress names.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.journal import frames, tables, tag_view_rows
from tidemark.journal.messages import increments
from tidemark.journal.shapes import EVENT, NAMED
from tidemark.journal.tables import PAYLOAD_COLUMNS
from tidemark.ledger.pieces import Piece
from tidemark.spark.read_once import shuffled_once
from tidemark.spark.shapes import shaped
from tidemark.tagging import completeness, events, plan, rules, shapes
from tidemark.tagging.evidence import Ask
from tidemark.tagging.plan import Strategy
from tidemark.tagging.rules import TagRule

MANY_KEYS = 1_000_000
"""Above this number of keys, the rows of all tag views are scanned for them."""
CLOCKS_DIFFER_MS = 60_000
"""How far an event of a window may lie behind one of a later time, since writers' clocks differ.
Beyond that it is a late event of a later run."""


@dataclass
class MessagesToTag:
    """The messages of a run and the strategy that found them.

    Attributes:
        strategy: how the events are found.
        why: the reason for the strategy, for people.
        progress: `journal.frames.timed_write_progress`, in memory.
        known: `completeness.known`.
        complete: those of `known` of which only later messages are read.
        messages: all messages, or the new ones in memory, with the whole payload.
        seen: how far each persistence id was seen before, as `numbering.unseen` takes it.
    """

    strategy: Strategy
    why: str
    progress: DataFrame
    known: DataFrame
    complete: DataFrame
    messages: DataFrame
    seen: DataFrame


def source(
    run: RunContext,
    pieces: Sequence[Piece],
    done: Collection[int],
    tag_rules: Sequence[TagRule],
    requested: Strategy | None,
) -> MessagesToTag:
    """Choose the strategy and read the messages.

    Args:
        run: the context of the run.
        pieces: its pieces.
        done: the time buckets that earlier runs have done, epoch ms.
        tag_rules: the rules that add tags.
        requested: how to find the events, or None.
    """
    spark, settings = run.spark, run.settings
    progress = frames.timed_write_progress(spark, settings).localCheckpoint()
    version = rules.version(tag_rules)
    known = completeness.known(spark, settings, version, progress).localCheckpoint()
    seen = _seen(run, progress, known)
    strategy, why = plan.choose(requested, _journal(run, seen, known), pieces)
    run.say(f"finding the events by {strategy}: {why}")
    if strategy is Strategy.SCAN:
        return _scan(run, why, progress, known, seen)
    named = seen.withColumnRenamed("seen_to", "named_nr")
    news = _with_news(run, pieces).localCheckpoint() if strategy is Strategy.INDEX else None
    if news is not None:
        highest = F.max("named_nr").alias("named_nr")
        named = named.unionByName(news).groupBy("persistence_id").agg(highest)
    met = named.select("persistence_id").join(known, on="persistence_id", how="left")
    beginning = increments.start_positions(spark, settings, met)
    if news is not None:
        beginning = beginning.join(news, on="persistence_id", how="left_semi")
    beginning = beginning.join(named, on="persistence_id", how="left")
    end = plan.end_of(pieces, done, settings.bucket_size) + CLOCKS_DIFFER_MS
    new = increments.after(beginning, settings, *PAYLOAD_COLUMNS, end=end)
    return MessagesToTag(strategy, why, progress, known, known, new, seen)


def _scan(
    run: RunContext, why: str, progress: DataFrame, known: DataFrame, seen: DataFrame
) -> MessagesToTag:
    messages = frames.message_index(run.spark, run.settings, *PAYLOAD_COLUMNS)
    return MessagesToTag(Strategy.SCAN, why, progress, known, known.limit(0), messages, seen)


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


def rows_of(run: RunContext, read_from: MessagesToTag) -> Ask:
    """Return the function that reads the rows of keys: by key, and only very many by a scan.

    Only a run that scans messages can ask for so many, at its first look at a journal.
    """

    def ask(keys: DataFrame) -> DataFrame:
        if read_from.strategy is not Strategy.SCAN:
            return tag_view_rows.tag_view_keys_of(keys, run.settings)
        wanted = keys.localCheckpoint()
        if wanted.count() <= MANY_KEYS:
            return tag_view_rows.tag_view_keys_of(wanted, run.settings)
        named = wanted.withColumnsRenamed({"tag_name": "tag", "timebucket": "time_bucket"})
        rows = tag_view_rows.tag_view_keys(run.spark, run.settings)
        return rows.join(named, on=named.columns, how="left_semi")

    return ask


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


def _journal(run: RunContext, seen: DataFrame, known: DataFrame) -> plan.Journal:
    known_to = F.coalesce("known_to", F.lit(0))
    totals = seen.join(known, on="persistence_id", how="left").agg(
        F.count("known_to").alias("known_ids"),
        F.coalesce(F.sum(F.greatest("seen_to", "read_to")), F.lit(0)).alias("events"),
        F.coalesce(F.sum(F.col("seen_to") - known_to), F.lit(0)).alias("unread"),
    )
    [row] = totals.collect()
    has_index = tables.has_time_index(run.control, run.settings)
    return plan.Journal(
        row.known_ids, row.events, row.unread, _all_are_listed(run, known), has_index
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


@shaped(returns=NAMED)
def _with_news(run: RunContext, pieces: Sequence[Piece]) -> DataFrame:
    """Return the persistence ids with messages in the time buckets or in the look-back before them.

    Each with the lowest sequence nr of those messages.
    """
    settings = run.settings
    ranges = plan.indexed_ranges(pieces, settings.bucket_size, settings.tag_write_look_back)
    messages = [
        frames.indexed_between(run.spark, settings, first, end).select(*EVENT)
        for first, end in ranges
    ]
    union = reduce(DataFrame.unionByName, messages)
    return union.groupBy("persistence_id").agg(F.min("sequence_nr").alias("named_nr"))
