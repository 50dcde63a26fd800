"""Source `messages`: all events of the journal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.journals.pekko import frames
from tidemark.journals.pekko.messages import increments, listing
from tidemark.ledger import applications
from tidemark.ledger.piece import Reason
from tidemark.ledger.pieces import Pieces
from tidemark.partitioning.keys import BucketSize
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.project.planning.batch import Batch
from tidemark.project.sources import read, restarts
from tidemark.project.sources.base import EventSource, event_numbers


class MessagesSource(EventSource):
    """All messages."""

    finds_by_id = True
    _all_ids: DataFrame | None = None
    _is_listed = False

    @property
    def table(self) -> str:
        """The table of all messages."""
        settings = self.run.settings
        return f"{settings.journal_keyspace}.{settings.journal_table}"

    def numbers(self) -> DataFrame:
        """Read the numbers of all messages, by a scan of the keys."""
        index = frames.message_index(self.run.spark, self.run.settings)
        return event_numbers(self.only_ours(index))

    def unread(self, batch: Batch, planned: DataFrame, offsets: DataFrame) -> DataFrame:
        """Read the events after the stored numbers, by key."""
        lowest = planned.groupBy("persistence_id").agg(F.min("sequence_nr").alias("named_nr"))
        starts = self._starts(batch, offsets, lowest.select("persistence_id"))
        if batch.plan.truncated_from is not None:
            # Existing events before a planned event, in any time bucket, must not count as expired.
            starts = starts.join(lowest, on="persistence_id", how="left")
        reset_after = self.definition.reset_after
        if reset_after is not None:

            def fetch(frontier: DataFrame, width: int) -> DataFrame:
                return increments.messages_in(frontier, width, self.run.settings)

            starts = restarts.rewound_to_restart(
                starts, offsets, self.deleted(), reset_after, fetch
            )
        return increments.after(starts, self.run.settings, end=_end_of(batch))

    def unread_events(self, batch: Batch, offsets: DataFrame) -> DataFrame:
        """Read the events after the stored numbers with their payload, by key."""
        starts = self._starts(batch, offsets)
        events = increments.after(starts, self.run.settings, *read.PAYLOAD, end=_end_of(batch))
        return read.numbered(events).select(*read.COLUMNS, *read.PAYLOAD)

    def listed_ids(self, batch: Batch, planned: DataFrame, offsets: DataFrame) -> DataFrame | None:
        """Return all persistence ids and those of the rows, if all_persistence_ids is complete."""
        ids = self._ids(offsets)
        if not self._is_listed:
            return None
        # The ids are read once in a run, before the rows of its later batches.
        return (
            ids.unionByName(planned.select("persistence_id"))
            .distinct()
            .unionByName(planned.select("persistence_id"))
            .distinct()
        )

    def sample(self, time_buckets: Sequence[int]) -> DataFrame:
        """Read messages of any time, as finding those of time buckets may need a scan."""
        return frames.message_index(self.run.spark, self.run.settings, *read.PAYLOAD)

    def _rows(self, time_buckets: Sequence[int]) -> DataFrame:
        return read.message_rows(self.run, time_buckets)

    def _all_keys(self, time_buckets: Sequence[int]) -> DataFrame | None:
        return read.message_keys(self.run, time_buckets)

    def _rows_of(self, keys: DataFrame, time_buckets: Sequence[int]) -> DataFrame:
        return read.message_rows_of(self.run, keys, time_buckets)

    def _starts(
        self, batch: Batch, offsets: DataFrame, planned_ids: DataFrame | None = None
    ) -> DataFrame:
        """Return where to begin to read each persistence id that may have new events."""
        positions = offsets.select("persistence_id", F.col("stored_number").alias("known_to"))
        ids = self._ids(offsets)
        if planned_ids is not None:
            ids = ids.unionByName(planned_ids).distinct()
        positions = ids.join(positions, on="persistence_id", how="left")
        if not self._reads_all_ids(batch):
            positions = self._with_unread_events(positions, planned_ids)
        return increments.starts(positions, self.deleted())

    def _reads_all_ids(self, batch: Batch) -> bool:
        """Return whether to read every persistence id, not only those that tag-write saw change.

        tag-write's scanning progress only helps if tag-write has processed the time buckets. Once
        for each day of the journal all ids are read, to find events that tag-write has not seen,
        such as a late event far from the time buckets of its runs. A time bucket that waits for a
        gap must not end as if it were empty.
        """
        if any(piece.reason is Reason.GAP for piece in batch.pieces):
            return True
        if any(bucket % BucketSize.DAY.milliseconds == 0 for bucket in batch.plan.time_buckets):
            return True
        return not all(bucket in self._tagged for bucket in batch.time_buckets)

    @cached_property
    def _tagged(self) -> TimeBuckets:
        return (
            Pieces.of(self.run.control, self.run.settings, applications.TAG_WRITE).standing().done
        )

    def _with_unread_events(self, positions: DataFrame, planned_ids: DataFrame | None) -> DataFrame:
        """Leave out the persistence ids whose stored number tag-write has not passed."""
        scanned = frames.scanning(self.run.spark, self.run.settings)
        has_unread = F.col("scanned_to").isNull() | (
            F.col("scanned_to") > F.coalesce("known_to", F.lit(0))
        )
        if planned_ids is not None:
            planned = planned_ids.withColumn("is_planned", F.lit(True))
            positions = positions.join(planned, on="persistence_id", how="left")
            has_unread |= F.col("is_planned").isNotNull()
        with_unread = positions.join(scanned, on="persistence_id", how="left").where(has_unread)
        return with_unread.select("persistence_id", "known_to")

    def _ids(self, offsets: DataFrame) -> DataFrame:
        """Return all persistence ids that existed at the run's first call; in memory.

        They are read by a scan of the journal unless all_persistence_ids is known to be complete.
        """
        if self._all_ids is None:
            spark, settings = self.run.spark, self.run.settings
            positions = offsets.select("persistence_id", F.col("stored_number").alias("known_to"))
            self._is_listed = not offsets.isEmpty() and listing.names_all(
                spark, self.run.control, settings, positions
            )
            if self._is_listed:
                ids = self._listed()
            else:
                ids = frames.message_index(spark, settings).select("persistence_id")
            all_ids = self.only_ours(ids).unionByName(positions.select("persistence_id")).distinct()
            self._all_ids = all_ids.localCheckpoint()
        return self._all_ids

    def _listed(self) -> DataFrame:
        settings = self.run.settings
        return connector.read(
            self.run.spark,
            settings.journal_keyspace,
            settings.all_persistence_ids_table,
            "persistence_id",
        )


def _end_of(batch: Batch) -> int:
    """Return where to stop (epoch ms).

    A batch must not read the complete backlog after it, or every batch would read the backlog.
    """
    return batch.plan.end if batch.end is None else batch.end
