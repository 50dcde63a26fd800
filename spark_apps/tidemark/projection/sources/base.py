"""What a run asks of a source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from tidemark.context import RunContext
from tidemark.projection.planning.plan import Work
from tidemark.settings import Settings


class Reader(ABC):
    """One source in one run; it may keep what it has read."""

    @abstractmethod
    def table(self, settings: Settings) -> str:
        """The table that the events come from, as `keyspace.table`."""

    @abstractmethod
    def rows(self, run: RunContext, time_buckets: Sequence[int]) -> DataFrame:
        """The source's rows in those time buckets; an event of several tags once for each.

        Columns: `read.COLUMNS` and `read.PAYLOAD`.
        """

    def keys(self, run: RunContext, time_buckets: Sequence[int]) -> DataFrame | None:
        """The keys of the rows in those time buckets, where `rows` reads all of the source.

        Columns: what `rows_of` needs, and persistence_id and time_bucket (bigint).
        """
        return None

    def rows_of(self, run: RunContext, keys: DataFrame, time_buckets: Sequence[int]) -> DataFrame:
        """The same as `rows`, by the keys of these and other time buckets."""
        raise NotImplementedError

    @abstractmethod
    def index(self, spark: SparkSession, settings: Settings) -> DataFrame:
        """The keys of all of the source's events, whatever the time bucket.

        Columns: at least persistence_id, sequence_nr, ticks and time_bucket (bigint).
        """

    def unread(
        self, run: RunContext, work: Work, planned: DataFrame, stored: DataFrame
    ) -> DataFrame:
        """The keys of what lies behind the stored number of each persistence id, or of everything.

        Not of a source whose series are those of tags.

        Args:
            run: the application's frame.
            work: the projection's plan.
            planned: the keys of the rows of the buckets to process; at least persistence_id.
            stored: as `acceptance.rule.reach` takes it.

        Columns: persistence_id, sequence_nr, timestamp (timeuuid text), time_bucket (bigint).
        """
        raise NotImplementedError

    def written(self, run: RunContext) -> DataFrame | None:
        """Up to which number a series was written, where numbers may be left out; else None.

        Columns: persistence_id, written_to (bigint).
        """
        return None

    @abstractmethod
    def deleted(self, spark: SparkSession, settings: Settings) -> DataFrame:
        """How far each persistence id is deleted: persistence_id, deleted_to (bigint)."""
