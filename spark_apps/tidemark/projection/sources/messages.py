"""Source `messages`: the whole journal."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from tidemark.context import Run
from tidemark.journal import frames
from tidemark.projection.acceptance import candidates
from tidemark.projection.acceptance.candidates import Sightings
from tidemark.projection.planning.plan import Work
from tidemark.projection.sources import rows as read
from tidemark.projection.sources.base import Reader
from tidemark.settings import Settings


class MessagesReader(Reader):
    """All messages."""

    def table(self, settings: Settings) -> str:
        """That of all messages."""
        return f"{settings.journal_keyspace}.{settings.journal_table}"

    def rows(self, run: Run, time_buckets: Sequence[int]) -> DataFrame:
        """Found by a scan, or by the index on their time."""
        return read.message_rows(run, time_buckets)

    def keys(self, run: Run, time_buckets: Sequence[int]) -> DataFrame | None:
        """Without an index on their time."""
        return read.message_keys(run, time_buckets)

    def rows_of(self, run: Run, keys: DataFrame, time_buckets: Sequence[int]) -> DataFrame:
        """By direct join."""
        return read.message_rows_of(run, keys, time_buckets)

    def index(self, spark: SparkSession, settings: Settings) -> DataFrame:
        """By a scan of the keys."""
        return frames.message_index(spark, settings)

    def sightings(self, run: Run, work: Work, planned: DataFrame, stored: DataFrame) -> Sightings:
        """Behind the stored numbers, or everything."""
        return candidates.of_messages(run, work, planned, stored)

    def deleted(self, spark: SparkSession, settings: Settings) -> DataFrame:
        """Of every persistence id."""
        return frames.deleted(spark, settings)
