"""Source `kafka-journal`: the events that kafka-journal replicated from a topic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.kafka import frames
from tidemark.journals.pekko.messages import increments
from tidemark.partitioning.keys import SliceRange
from tidemark.partitioning.slice_ranges import ALL
from tidemark.project.definition.model import Definition
from tidemark.project.definition.source import KafkaJournal
from tidemark.project.planning.batch import Batch
from tidemark.project.sources import read, restarts
from tidemark.project.sources.base import EventSource, event_numbers


class KafkaJournalSource(EventSource):
    """The events of the definition's topic; its heads are read once."""

    def __init__(
        self, run: RunContext, definition: Definition, spec: KafkaJournal, slices: SliceRange = ALL
    ) -> None:
        """Bind the source to a run, without any I/O."""
        super().__init__(run, definition, slices)
        self._topic = spec.topic

    @property
    def table(self) -> str:
        """The table of kafka-journal's events."""
        settings = self.run.settings
        return f"{settings.kafka_journal_keyspace}.{settings.kafka_journal_table}"

    def numbers(self) -> DataFrame:
        """Read the numbers of the topic's events, by a scan."""
        return event_numbers(self.only_ours(self._events()))

    def unread(self, batch: Batch, planned: DataFrame, offsets: DataFrame) -> DataFrame:
        """Read the events after the stored numbers, or all events."""
        return self.only_ours(self._events_after(batch, offsets))

    def written(self) -> DataFrame | None:
        """Read how far each series was written, from the topic's heads."""
        return self._heads.select("persistence_id", "written_to")

    def deleted(self) -> DataFrame:
        """Read how far each persistence id is deleted, from the topic's heads."""
        return self._heads.where(F.col("deleted_to") > 0).select("persistence_id", "deleted_to")

    def _rows(self, time_buckets: Sequence[int]) -> DataFrame:
        return read.by_sequence_nr(self._events(), time_buckets)

    def _events(self) -> DataFrame:
        return frames.events(self._heads, self.run.settings, self._topic)

    def _events_after(self, batch: Batch, offsets: DataFrame) -> DataFrame:
        """Read the events after the stored number of each persistence id; at first, all events.

        Every persistence id has a head, so none is missed.
        """
        if offsets.isEmpty():
            return self._events()
        known_to = F.coalesce(F.col("stored_number"), F.lit(0))
        starts = self._heads.join(offsets, on="persistence_id", how="left").select(
            "persistence_id", (F.greatest(known_to, F.col("deleted_to")) + 1).alias("first_nr")
        )

        def fetch(frontier: DataFrame, width: int) -> DataFrame:
            event_keys = increments.numbers(frontier, width)
            return frames.events_of(event_keys, self._heads, self.run.settings)

        reset_after = self.definition.reset_after
        if reset_after is not None:
            starts = restarts.rewound_to_restart(
                starts, offsets, self.deleted(), reset_after, fetch
            )
        end = batch.plan.end
        contiguous = increments.in_rounds(starts, fetch, end_bucket=end).localCheckpoint()
        return contiguous.unionByName(self._after_jumps(end, starts, contiguous))

    def _after_jumps(self, end: int, starts: DataFrame, contiguous: DataFrame) -> DataFrame:
        """Read all events of the persistence ids that have events after an absent number."""
        last = contiguous.groupBy("persistence_id").agg(
            F.max("sequence_nr").alias("last_nr"), F.max("time_bucket").alias("last_bucket")
        )
        ids = starts.join(last, on="persistence_id", how="left").join(self._heads, "persistence_id")
        last_nr = F.coalesce(F.col("last_nr"), F.col("first_nr") - 1)
        is_over = F.coalesce(F.col("last_bucket") >= end, F.lit(False))
        lagging = ids.where((F.col("written_to") > last_nr) & ~is_over).select("persistence_id")
        jumping = self._heads.join(lagging, on="persistence_id", how="left_semi").localCheckpoint()
        if jumping.isEmpty():
            return contiguous.limit(0)
        return frames.events(jumping, self.run.settings, self._topic).select(*contiguous.columns)

    @cached_property
    def _heads(self) -> DataFrame:
        return frames.heads(self.run.spark, self.run.settings, self._topic).localCheckpoint()
