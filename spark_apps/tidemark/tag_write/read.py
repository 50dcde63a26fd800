"""The reads of tag-write, in an order that rules out false contradictions.

The journal may be live: Pekko writes messages, then tag_views, then tag_write_progress. So progress
is read first: the messages read later include every event that progress names.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.journals.pekko import frames, tables, tag_view_rows
from tidemark.journals.pekko.messages import increments, listing
from tidemark.journals.pekko.shapes import EVENT, NAMED
from tidemark.journals.pekko.tables import PAYLOAD_COLUMNS
from tidemark.ledger.piece import Piece, Reason
from tidemark.spark.read_once import shuffled_once
from tidemark.spark.shapes import shaped
from tidemark.tag_write import completeness, events, plan, rules, shapes
from tidemark.tag_write.evidence import ReadRows
from tidemark.tag_write.plan import Strategy
from tidemark.tag_write.rules import TagRule

_PAGE = 5000
MANY_KEYS = 1_000_000
"""Above this number of keys, all tag views are scanned for their rows."""
CLOCKS_DIFFER_MS = 60_000
"""By how much an event may be later in time than the next event, since writers' clocks differ.
An event after a larger difference is a late event of a later run."""


@dataclass(frozen=True)
class Records:
    """The records of all persistence ids, or of those that the index finds.

    Attributes:
        progress: `frames.timed_write_progress`, in memory.
        scanning: `frames.scanning`, in memory.
        complete: `completeness.complete_up_to`, in memory.
    """

    progress: DataFrame
    scanning: DataFrame
    complete: DataFrame

    @property
    @shaped(returns=shapes.SEEN)
    def seen(self) -> DataFrame:
        """The last sequence nr of each persistence id that any writer has recorded."""
        parts = [
            self.complete.select("persistence_id", F.col("known_to").alias("seen_to")),
            self.progress.select("persistence_id", F.col("progress_sequence_nr").alias("seen_to")),
            self.scanning.withColumnRenamed("scanned_to", "seen_to"),
        ]
        union = reduce(DataFrame.unionByName, parts)
        return union.groupBy("persistence_id").agg(F.max("seen_to").alias("seen_to"))

    def totals(self) -> Row:
        """Return known_ids, events and unread, as `plan.Journal` has them."""
        known_to = F.coalesce("known_to", F.lit(0))
        totals = self.seen.join(self.complete, on="persistence_id", how="left").agg(
            F.count("known_to").alias("known_ids"),
            F.coalesce(F.sum(F.greatest("seen_to", "read_to")), F.lit(0)).alias("events"),
            F.coalesce(F.sum(F.col("seen_to") - known_to), F.lit(0)).alias("unread"),
        )
        [row] = totals.collect()
        return row


@dataclass(frozen=True)
class MessagesToTag:
    """The messages of a run and the strategy that found them.

    Attributes:
        strategy: the way in which the events are found.
        why: the reason for the strategy, for people.
        records: read before the messages.
        complete: the rows of `records.complete` after which messages are read; none in a scan.
        messages: all messages, or the new messages in memory, with all payload columns.
    """

    strategy: Strategy
    why: str
    records: Records
    complete: DataFrame
    messages: DataFrame


def source(
    run: RunContext,
    pieces: Sequence[Piece],
    done: Collection[int],
    tag_rules: Sequence[TagRule],
    requested: Strategy | None,
) -> MessagesToTag:
    """Choose the strategy, unless one is requested, and read the messages.

    `done`: the time buckets (epoch ms) that earlier runs have done.
    """
    version = rules.version(tag_rules)
    if plan.is_little(requested, pieces, done) and _has_index_of_many(run, requested):
        ids_with_news = _with_news(run, version, pieces).localCheckpoint()
        records = _records(run, version, ids_with_news.select("persistence_id"))
        if records.totals().unread <= plan.LITTLE:
            why = (
                "asked for" if requested else f"{ids_with_news.count():,} persistence ids have news"
            )
            run.say(f"finding the events by {Strategy.INDEX}: {why}")
            return _after_tails(run, Strategy.INDEX, why, records, pieces, done, ids_with_news)
    records = _records(run, version)
    strategy, why = plan.choose(requested, _journal(run, records), pieces)
    run.say(f"finding the events by {strategy}: {why}")
    if strategy is Strategy.SCAN:
        messages = frames.message_index(run.spark, run.settings, *PAYLOAD_COLUMNS)
        return MessagesToTag(strategy, why, records, records.complete.limit(0), messages)
    is_index = strategy is Strategy.INDEX
    new_ids = _with_news(run, version, pieces).localCheckpoint() if is_index else None
    return _after_tails(run, strategy, why, records, pieces, done, new_ids)


def _after_tails(
    run: RunContext,
    strategy: Strategy,
    why: str,
    records: Records,
    pieces: Sequence[Piece],
    done: Collection[int],
    ids_with_news: DataFrame | None,
) -> MessagesToTag:
    """Read the messages after the tails, of all persistence ids or only of those with news."""
    spark, settings = run.spark, run.settings
    highest_recorded = records.seen.withColumnRenamed("seen_to", "named_nr")
    if ids_with_news is None:
        ids_to_read = highest_recorded.select("persistence_id").join(
            records.complete, on="persistence_id", how="left"
        )
        starts = increments.start_positions(spark, settings, ids_to_read)
    else:
        highest = F.max("named_nr").alias("named_nr")
        highest_recorded = (
            highest_recorded.unionByName(ids_with_news).groupBy("persistence_id").agg(highest)
        )
        ids = ids_with_news.select("persistence_id")
        ids_to_read = ids.join(records.complete, on="persistence_id", how="left")
        starts = increments.starts(ids_to_read, frames.deleted(run.spark, settings, ids))
    starts = starts.join(highest_recorded, on="persistence_id", how="left")
    end = plan.end_of(pieces, done, settings.bucket_size) + CLOCKS_DIFFER_MS
    new_messages = increments.after(starts, settings, *PAYLOAD_COLUMNS, end=end)
    return MessagesToTag(strategy, why, records, records.complete, new_messages)


def deleted(run: RunContext, read_from: MessagesToTag) -> DataFrame:
    """Read up to where the events of the messages' persistence ids are deleted."""
    is_scan = read_from.strategy is Strategy.SCAN
    ids = None if is_scan else read_from.messages.select("persistence_id").distinct()
    return frames.deleted(run.spark, run.settings, ids)


@shaped(returns=shapes.TAGGED)
def kept(read_from: MessagesToTag, tag_rules: Sequence[TagRule], is_needed: Column) -> DataFrame:
    """Return the tagged events, read once, so that numbers and rows come from the same events.

    The events have all payload columns, empty unless `is_needed`, which may use time_bucket. After
    a scan they are partitioned by persistence id.
    """
    tagged = events.tagged(read_from.messages, tag_rules)
    if read_from.strategy is not Strategy.SCAN:
        return tagged
    return shuffled_once(events.with_payload_where(tagged, is_needed), "persistence_id")


def rows_of(run: RunContext, read_from: MessagesToTag) -> ReadRows:
    """Return the function that reads the rows of keys: by key, but very many by a scan.

    Only a run that scans messages may need so many rows, when it first reads a journal.
    """

    def read_rows(keys: DataFrame) -> DataFrame:
        if read_from.strategy is not Strategy.SCAN:
            return tag_view_rows.tag_view_keys_of(keys, run.settings)
        wanted = keys.localCheckpoint()
        if wanted.count() <= MANY_KEYS:
            return tag_view_rows.tag_view_keys_of(wanted, run.settings)
        renamed = wanted.withColumnsRenamed({"tag_name": "tag", "timebucket": "time_bucket"})
        rows = tag_view_rows.tag_view_keys(run.spark, run.settings)
        return rows.join(renamed, on=renamed.columns, how="left_semi")

    return read_rows


def _records(run: RunContext, version: str, ids: DataFrame | None = None) -> Records:
    """Read the records of all persistence ids, or those of unique `ids` by key."""
    spark, settings = run.spark, run.settings
    progress = frames.timed_write_progress(spark, settings, ids).localCheckpoint()
    scanning = frames.scanning(spark, settings, ids).localCheckpoint()
    tails = completeness.stored_tails(spark, settings, version, ids)
    complete = completeness.complete_up_to(tails, progress, scanning).localCheckpoint()
    return Records(progress, scanning, complete)


def _has_index_of_many(run: RunContext, requested: Strategy | None) -> bool:
    """Return whether there is an index, and too many persistence ids for reads by key."""
    control, settings = run.control, run.settings
    if not tables.has_time_index(control, settings):
        return False
    if requested is Strategy.INDEX:
        return True
    scanning = table(settings.journal_keyspace, tables.TAG_SCANNING)
    rows = control.stream(f"SELECT persistence_id FROM {scanning}", page=_PAGE)
    return next(islice(rows, plan.MANY_IDS, None), None) is not None


def _journal(run: RunContext, records: Records) -> plan.Journal:
    totals, settings = records.totals(), run.settings
    has_index = tables.has_time_index(run.control, settings)
    return plan.Journal(
        totals.known_ids,
        totals.events,
        totals.unread,
        listing.names_all(run.spark, run.control, settings, records.complete),
        has_index,
    )


@shaped(returns=NAMED)
def _with_news(run: RunContext, version: str, pieces: Sequence[Piece]) -> DataFrame:
    """Return the persistence ids with new messages in the time buckets or in the look-back.

    Each has the lowest sequence nr of its messages there. An id whose messages there were all
    complete is left out, unless a time bucket was begun before: it may be held with a complete
    tail.
    """
    spark, settings = run.spark, run.settings
    ranges = plan.indexed_ranges(pieces, settings.bucket_size, settings.tag_write_look_back)
    messages = [
        frames.indexed_between(spark, settings, first, end).select(*EVENT) for first, end in ranges
    ]
    ids = (
        reduce(DataFrame.unionByName, messages)
        .groupBy("persistence_id")
        .agg(F.min("sequence_nr").alias("named_nr"), F.max("sequence_nr").alias("last_nr"))
        # The keys of the tails are read by as many tasks as the frame has partitions.
        .repartition(spark.sparkContext.defaultParallelism)
        .localCheckpoint()
    )
    if any(piece.reason is Reason.UNFINISHED for piece in pieces):
        return ids.select("persistence_id", "named_nr")
    tails = completeness.stored_tails(spark, settings, version, ids.select("persistence_id"))
    return (
        ids.join(tails, on="persistence_id", how="left")
        .where(F.col("last_nr") > F.coalesce("sequence_nr", F.lit(0)))
        .select("persistence_id", "named_nr")
    )
