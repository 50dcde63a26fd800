"""Source `tags`: the tag views of some tags."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journal import frames
from tidemark.projection.definition.source import Tags
from tidemark.projection.sources import read
from tidemark.projection.sources.base import Reader
from tidemark.settings import Settings


class TagsReader(Reader):
    """The tag views of the source's tags."""

    def __init__(self, source: Tags) -> None:
        self._tags = source.names

    def table(self, settings: Settings) -> str:
        """That of the tag views."""
        return f"{settings.journal_keyspace}.{settings.events_by_tag_table}"

    def rows(self, run: RunContext, time_buckets: Sequence[int]) -> DataFrame:
        """Of exactly the tags' time buckets."""
        return read.tag_view_rows(run.spark, run.settings, self._tags, time_buckets, *read.PAYLOAD)

    def index(self, spark: SparkSession, settings: Settings) -> DataFrame:
        """A row for each tag, with tag and tag_pid_sequence_nr."""
        return frames.tag_view_keys(spark, settings).where(F.col("tag").isin(list(self._tags)))

    def deleted(self, spark: SparkSession, settings: Settings) -> DataFrame:
        """Of every persistence id."""
        return frames.deleted(spark, settings)
