"""What tag-write reads, in the order that rules out false contradictions.

The journal may be alive: Pekko writes messages, then tag_views, then tag_write_progress. So the
progress is read first: what it speaks of is then among the messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.application import Run
from tidemark.cassandra import spark_io
from tidemark.journal import frames, tables
from tidemark.journal import tails as journal_tails
from tidemark.journal.tables import PAYLOAD_COLUMNS
from tidemark.ledger.pieces import Piece
from tidemark.tagging import events, plan, rules, tails, transform
from tidemark.tagging.plan import Strategy
from tidemark.tagging.rules import Rule


@dataclass
class Source:
    """What a run reads, and how.

    Attributes:
        strategy: how the events are found.
        why: the reason for it, for people.
        progress: `journal.frames.write_progress`, in memory.
        known: `tails.known`, empty when all events are read.
        messages: all, or the new ones in memory; columns of `journal.frames.message_index` and the
            whole payload.
    """

    strategy: Strategy
    why: str
    progress: DataFrame
    known: DataFrame
    messages: DataFrame


def source(
    run: Run, pieces: Sequence[Piece], tag_rules: Sequence[Rule], requested: Strategy | None
) -> Source:
    """Choose the strategy and read.

    Raises:
        CassandraUnavailable: a statement failed.
    """
    spark, settings = run.spark, run.settings
    progress = frames.write_progress(spark, settings).localCheckpoint()
    known = tails.known(spark, settings, rules.version(tag_rules)).localCheckpoint()
    strategy, why = plan.choose(requested, _journal(run, known), pieces)
    run.say(f"finding the events by {strategy}: {why}")
    if strategy is Strategy.SCAN:
        everything = frames.message_index(spark, settings, *PAYLOAD_COLUMNS)
        return Source(strategy, why, progress, known.limit(0), everything)
    beginning = journal_tails.beginnings(spark, settings, known)
    if strategy is Strategy.INDEX:
        beginning = beginning.join(_with_news(run, pieces), on="persistence_id", how="left_semi")
    new = journal_tails.after(beginning, settings, *PAYLOAD_COLUMNS)
    return Source(strategy, why, progress, known, new)


def anchors(run: Run, ranked: DataFrame, read_from: Source) -> DataFrame:
    """The progress, and for series that nothing else anchors the last row of their tag view.

    Without it the events of an id whose first messages are deleted would be counted from 1 again
    when the progress is lost, beside the rows that exist.

    Columns: those of `transform.anchors`.
    """
    unanchored = transform.unanchored(ranked, read_from.known, read_from.progress).localCheckpoint()
    if unanchored.isEmpty():
        return transform.anchors(read_from.progress, None)
    rows = frames.tag_view_keys(run.spark, run.settings)
    return transform.anchors(read_from.progress, transform.last_rows(rows, unanchored))


def _journal(run: Run, known: DataFrame) -> plan.Journal:
    spark, settings = run.spark, run.settings
    seen = known.agg(F.count("*").alias("ids"), F.sum("known_to").alias("events")).collect()[0]
    listed = 0
    if run.control.table_columns(settings.journal_keyspace, settings.all_persistence_ids_table):
        listed = spark_io.read(
            spark, settings.journal_keyspace, settings.all_persistence_ids_table, "persistence_id"
        ).count()
    has_index = tables.has_time_index(run.control, settings)
    return plan.Journal(seen["ids"], seen["events"] or 0, listed, has_index)


def _with_news(run: Run, pieces: Sequence[Piece]) -> DataFrame:
    """The persistence ids with a message in the window or in the look-back before it."""
    settings = run.settings
    first = min(piece.time_bucket for piece in pieces) - settings.tag_write_look_back * 1000
    end = max(piece.time_bucket for piece in pieces) + settings.bucket_size.milliseconds
    found = frames.indexed_between(run.spark, settings, first, end)
    return found.select("persistence_id").distinct()


def payload_in(messages: DataFrame, first_bucket: int, end_bucket: int) -> DataFrame:
    """The same rows, with a payload only where first_bucket <= time_bucket < end_bucket."""
    is_wanted = (F.col("time_bucket") >= first_bucket) & (F.col("time_bucket") < end_bucket)
    return messages.withColumns({name: F.when(is_wanted, F.col(name)) for name in PAYLOAD_COLUMNS})


def index(read_from: Source, tag_rules: Sequence[Rule]) -> DataFrame:
    """The events' keys and tags. Columns: those of `events.index_of`."""
    return events.index_of(read_from.messages, tag_rules)
