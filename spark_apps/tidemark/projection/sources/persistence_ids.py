"""Source `persistence-ids`: some persistence ids, read by their keys and never by a scan."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from tidemark.context import RunContext
from tidemark.journal import frames
from tidemark.projection.definition.source import PersistenceIds
from tidemark.projection.planning.plan import Work
from tidemark.projection.sources import read, scope
from tidemark.projection.sources.base import Reader
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows


class PersistenceIdsReader(Reader):
    """The messages of the source's persistence ids, by direct joins."""

    def __init__(self, source: PersistenceIds) -> None:
        self._ids = source.ids

    def table(self, settings: Settings) -> str:
        """That of all messages."""
        return f"{settings.journal_keyspace}.{settings.journal_table}"

    def rows(self, run: RunContext, time_buckets: Sequence[int]) -> DataFrame:
        """Of the persistence ids, whatever the time bucket, and then of those."""
        found = self._messages(run.spark, run.settings, *read.PAYLOAD)
        return read.by_sequence_nr(found, time_buckets)

    def index(self, spark: SparkSession, settings: Settings) -> DataFrame:
        """By direct joins."""
        return self._messages(spark, settings)

    def unread(
        self, run: RunContext, work: Work, planned: DataFrame, stored: DataFrame
    ) -> DataFrame:
        """Everything of the persistence ids."""
        return scope.of_work(self._messages(run.spark, run.settings), work)

    def deleted(self, spark: SparkSession, settings: Settings) -> DataFrame:
        """Of the persistence ids only."""
        return frames.deleted_of_ids(self._frame(spark), settings)

    def _messages(self, spark: SparkSession, settings: Settings, *payload: str) -> DataFrame:
        ids = self._frame(spark)
        return frames.messages_of_ids(
            ids, settings, *payload, deleted_to=self.deleted(spark, settings)
        )

    def _frame(self, spark: SparkSession) -> DataFrame:
        return local_rows(spark, [(each,) for each in self._ids], "persistence_id string")
