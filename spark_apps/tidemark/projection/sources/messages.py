"""Source `messages`: the whole journal."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.journal import frames
from tidemark.journal.messages import increments, listing
from tidemark.projection.planning.batch import Batch
from tidemark.projection.sources import read, restarts
from tidemark.projection.sources.base import EventSource, event_numbers

_INDEX = ("persistence_id", "sequence_nr", "timestamp", "time_bucket")


class MessagesSource(EventSource):
    """All messages."""

    @property
    def table(self) -> str:
        """The table of all messages."""
        settings = self.run.settings
        return f"{settings.journal_keyspace}.{settings.journal_table}"

    def numbers(self) -> DataFrame:
        """Read the numbers of all messages, by a scan of the keys."""
        index = frames.message_index(self.run.spark, self.run.settings)
        return event_numbers(self.only_ours(index))

    def unread(self, batch: Batch, planned: DataFrame, stored: DataFrame) -> DataFrame:
        """Read what is behind the stored numbers if that finds every persistence id."""
        spark, settings = self.run.spark, self.run.settings
        if not self._is_listed(stored):
            return self.only_ours(frames.message_index(spark, settings).select(*_INDEX))
        known = stored.select("persistence_id", F.col("stored_number").alias("known_to"))
        lowest = planned.groupBy("persistence_id").agg(F.min("sequence_nr").alias("named_nr"))
        ids = lowest.select("persistence_id", F.lit(0).alias("known_to"))
        known = known.unionByName(ids).groupBy("persistence_id").agg(
            F.max("known_to").alias("known_to")
        )  # fmt: skip
        starts = self.only_ours(increments.start_positions(spark, settings, known))
        if batch.plan.truncated_from is not None:
            # What is there before a planned event, wherever it lies, must not count as expired.
            starts = starts.join(lowest, on="persistence_id", how="left")
        after = self.definition.reset_after
        if after is not None:

            def fetch(frontier: DataFrame, width: int) -> DataFrame:
                return increments.messages_in(frontier, width, settings)

            starts = restarts.rewound_to_restart(starts, stored, self.deleted(), after, fetch)
        # A batch must not follow the whole backlog behind it, or all batches together would
        # read it as often as there are batches.
        end = batch.plan.end if batch.end is None else batch.end
        return increments.after(starts, settings, end=end)

    def listed_ids(self, planned: DataFrame, stored: DataFrame) -> DataFrame | None:
        """Read the table of all persistence ids, if none with an offset is missing there."""
        if not self._is_listed(stored):
            return None
        return self._listed().unionByName(planned.select("persistence_id")).distinct()

    def _rows(self, time_buckets: Sequence[int]) -> DataFrame:
        return read.message_rows(self.run, time_buckets)

    def _all_keys(self, time_buckets: Sequence[int]) -> DataFrame | None:
        return read.message_keys(self.run, time_buckets)

    def _rows_of(self, keys: DataFrame, time_buckets: Sequence[int]) -> DataFrame:
        return read.message_rows_of(self.run, keys, time_buckets)

    def _is_listed(self, stored: DataFrame) -> bool:
        """Return whether what is stored and listed leads to every persistence id without a scan."""
        if stored.isEmpty():
            return False
        known = stored.select("persistence_id", F.col("stored_number").alias("known_to"))
        return listing.names_all(self.run.spark, self.run.control, self.run.settings, known)

    def _listed(self) -> DataFrame:
        settings = self.run.settings
        return connector.read(
            self.run.spark,
            settings.journal_keyspace,
            settings.all_persistence_ids_table,
            "persistence_id",
        )
