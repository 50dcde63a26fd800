"""Source `messages`: the whole journal."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.journal import frames, increments
from tidemark.projection.planning.plan import Work
from tidemark.projection.sources import read, restarts, scope
from tidemark.projection.sources.base import Reader
from tidemark.settings import Settings


class MessagesReader(Reader):
    """All messages."""

    def table(self, settings: Settings) -> str:
        """That of all messages."""
        return f"{settings.journal_keyspace}.{settings.journal_table}"

    def rows(self, run: RunContext, time_buckets: Sequence[int]) -> DataFrame:
        """Found by a scan, or by the index on their time."""
        return read.message_rows(run, time_buckets)

    def keys(self, run: RunContext, time_buckets: Sequence[int]) -> DataFrame | None:
        """Without an index on their time."""
        return read.message_keys(run, time_buckets)

    def rows_of(self, run: RunContext, keys: DataFrame, time_buckets: Sequence[int]) -> DataFrame:
        """By direct join."""
        return read.message_rows_of(run, keys, time_buckets)

    def index(self, spark: SparkSession, settings: Settings) -> DataFrame:
        """By a scan of the keys."""
        return frames.message_index(spark, settings)

    def unread(
        self, run: RunContext, work: Work, planned: DataFrame, stored: DataFrame
    ) -> DataFrame:
        """Behind the stored numbers, if that finds every persistence id."""
        if not is_listed(run, stored):
            return scope.message_index(run, work)
        spark, settings = run.spark, run.settings
        known = stored.select("persistence_id", F.col("stored_number").alias("known_to"))
        ids = planned.select("persistence_id").distinct().withColumn("known_to", F.lit(0))
        known = known.unionByName(ids).groupBy("persistence_id").agg(
            F.max("known_to").alias("known_to")
        )  # fmt: skip
        beginnings = scope.of_work(increments.start_positions(spark, settings, known), work)
        after = work.definition.reset_after
        if after is not None:

            def ask(frontier: DataFrame, width: int) -> DataFrame:
                return increments.messages_in(frontier, width, settings)

            deleted = self.deleted(spark, settings)
            beginnings = restarts.rewound_to_restart(beginnings, stored, deleted, after, ask)
        # A batch must not follow the whole backlog behind it, or all batches together would
        # read it as often as there are batches.
        end = work.end if work.batch_end is None else work.batch_end
        return increments.after(beginnings, settings, end_bucket=end)

    def deleted(self, spark: SparkSession, settings: Settings) -> DataFrame:
        """Of every persistence id."""
        return frames.deleted(spark, settings)


def is_listed(run: RunContext, stored: DataFrame) -> bool:
    """Whether tails find every persistence id, and less than everything."""
    settings = run.settings
    name = settings.all_persistence_ids_table
    if run.control.table_columns(settings.journal_keyspace, name) is None or stored.isEmpty():
        return False
    listed = connector.read(run.spark, settings.journal_keyspace, name, "persistence_id")
    return stored.join(listed, on="persistence_id", how="left_anti").isEmpty()
