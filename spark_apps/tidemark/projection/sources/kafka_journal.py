"""Source `kafka-journal`: the events that kafka-journal replicated from a topic."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journal import increments
from tidemark.kafka_journal import frames
from tidemark.projection.definition.source import KafkaJournal
from tidemark.projection.planning.plan import Work
from tidemark.projection.sources import read, restarts, scope
from tidemark.projection.sources.base import Reader
from tidemark.settings import Settings


class KafkaJournalReader(Reader):
    """The events of the source's topic; its heads are read once."""

    def __init__(self, source: KafkaJournal) -> None:
        self._topic = source.topic
        self._read_heads: DataFrame | None = None

    def table(self, settings: Settings) -> str:
        """That of kafka-journal's events."""
        return f"{settings.kafka_journal_keyspace}.{settings.kafka_journal_table}"

    def rows(self, run: RunContext, time_buckets: Sequence[int]) -> DataFrame:
        """Found by a scan, restricted to the topic."""
        heads = self._heads(run.spark, run.settings)
        events = frames.events(heads, run.settings, self._topic)
        return read.by_sequence_nr(events, time_buckets)

    def index(self, spark: SparkSession, settings: Settings) -> DataFrame:
        """By a scan."""
        return frames.events(self._heads(spark, settings), settings, self._topic)

    def unread(
        self, run: RunContext, work: Work, planned: DataFrame, stored: DataFrame
    ) -> DataFrame:
        """Behind the stored numbers, or everything."""
        return scope.of_work(self._found(run, work, stored), work)

    def written(self, run: RunContext) -> DataFrame | None:
        """By the topic's heads."""
        return self._heads(run.spark, run.settings).select("persistence_id", "written_to")

    def deleted(self, spark: SparkSession, settings: Settings) -> DataFrame:
        """By the topic's heads."""
        heads = self._heads(spark, settings).where(F.col("deleted_to") > 0)
        return heads.select("persistence_id", "deleted_to")

    def _found(self, run: RunContext, work: Work, stored: DataFrame) -> DataFrame:
        """What lies behind the stored number of each persistence id; everything at the first run.

        Every persistence id has a head, so none is overlooked.
        """
        heads = self._heads(run.spark, run.settings)
        if stored.isEmpty():
            return frames.events(heads, run.settings, self._topic)
        known_to = F.coalesce(F.col("stored_number"), F.lit(0))
        beginnings = heads.join(stored, on="persistence_id", how="left").select(
            "persistence_id", (F.greatest(known_to, F.col("deleted_to")) + 1).alias("first_nr")
        )

        def ask(frontier: DataFrame, width: int) -> DataFrame:
            return frames.events_of(increments.numbers(frontier, width), heads, run.settings)

        after = work.definition.reset_after
        if after is not None:
            deleted = self.deleted(run.spark, run.settings)
            beginnings = restarts.rewound_to_restart(beginnings, stored, deleted, after, ask)
        found = increments.in_rounds(beginnings, ask, end_bucket=work.end).localCheckpoint()
        return found.unionByName(self._behind_jumps(run, work, beginnings, found))

    def _behind_jumps(
        self, run: RunContext, work: Work, beginnings: DataFrame, found: DataFrame
    ) -> DataFrame:
        """All events of the persistence ids that have some behind a number which is not there."""
        last = found.groupBy("persistence_id").agg(
            F.max("sequence_nr").alias("last_nr"), F.max("time_bucket").alias("last_bucket")
        )
        heads = self._heads(run.spark, run.settings)
        ids = beginnings.join(last, on="persistence_id", how="left").join(heads, "persistence_id")
        last_nr = F.coalesce(F.col("last_nr"), F.col("first_nr") - 1)
        is_over = F.coalesce(F.col("last_bucket") >= work.end, F.lit(False))
        lagging = ids.where((F.col("written_to") > last_nr) & ~is_over).select("persistence_id")
        jumping = heads.join(lagging, on="persistence_id", how="left_semi").localCheckpoint()
        if jumping.isEmpty():
            return found.limit(0)
        return frames.events(jumping, run.settings, self._topic).select(*found.columns)

    def _heads(self, spark: SparkSession, settings: Settings) -> DataFrame:
        if self._read_heads is None:
            self._read_heads = frames.heads(spark, settings, self._topic).localCheckpoint()
        return self._read_heads
