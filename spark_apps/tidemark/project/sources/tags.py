"""Source `tags`: the tag views of some tags."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko import frames, tag_view_rows
from tidemark.journals.pekko.series import SERIES
from tidemark.partitioning import columns
from tidemark.project.sources import read
from tidemark.project.sources.base import EventSource


class TagsSource(EventSource):
    """The tag views of the definition's tags.

    Attributes:
        searched: SERIES and next_number: numbers that earlier batches of the run found in no time
            bucket; None at first. The next run searches them again, since Pekko may write a row
            into any time bucket.
    """

    searched: DataFrame | None = None

    @property
    def table(self) -> str:
        """The table of the tag views."""
        settings = self.run.settings
        return f"{settings.journal_keyspace}.{settings.events_by_tag_table}"

    def numbers(self) -> DataFrame:
        """Read the numbers of the tag views, and the last numbers in tag_write_progress."""
        keys = self._of_our_tags(tag_view_rows.tag_view_keys(self.run.spark, self.run.settings))
        epoch_ms = columns.ticks_epoch_ms(F.col("ticks")).alias("epoch_ms")
        number = F.col("tag_pid_sequence_nr").alias("number")
        rows = self.only_ours(keys).select(*SERIES, number, "time_bucket", epoch_ms)
        last = self.progress().select(
            *SERIES,
            F.col("progress_number").alias("number"),
            F.col("progress_bucket").alias("time_bucket"),
            F.lit(None).cast("bigint").alias("epoch_ms"),
        )
        return rows.unionByName(last)

    def keys_in(self, time_buckets: Sequence[int]) -> DataFrame:
        """Read the rows of some time buckets without their payloads. Columns: `read.COLUMNS`."""
        tags = self.definition.source.series_tags
        rows = read.tag_view_rows(self.run.spark, self.run.settings, tags, time_buckets)
        return self.only_ours(rows)

    def progress(self) -> DataFrame:
        """Read the last row of each series from the progress, see `frames.placed_progress`."""
        progress = frames.placed_progress(self.run.spark, self.run.settings)
        return self.only_ours(self._of_our_tags(progress))

    def _rows(self, time_buckets: Sequence[int]) -> DataFrame:
        tags = self.definition.source.series_tags
        return read.tag_view_rows(
            self.run.spark, self.run.settings, tags, time_buckets, *read.PAYLOAD
        )

    def _of_our_tags(self, rows: DataFrame) -> DataFrame:
        return rows.where(F.col("tag").isin(*self.definition.source.series_tags))
