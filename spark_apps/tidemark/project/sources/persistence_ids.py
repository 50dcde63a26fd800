"""Source `persistence-ids`: some persistence ids, read by their keys and never by a scan."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from tidemark.context import RunContext
from tidemark.journals.pekko import frames
from tidemark.partitioning.keys import SliceRange
from tidemark.partitioning.slice_ranges import ALL
from tidemark.project.definition.model import Definition
from tidemark.project.definition.source import PersistenceIds
from tidemark.project.planning.batch import Batch
from tidemark.project.sources import read
from tidemark.project.sources.base import EventSource, event_numbers
from tidemark.spark.local_rows import local_rows


class PersistenceIdsSource(EventSource):
    """The messages of the definition's persistence ids, by direct joins."""

    finds_by_id = True

    def __init__(
        self,
        run: RunContext,
        definition: Definition,
        spec: PersistenceIds,
        slices: SliceRange = ALL,
    ) -> None:
        """Bind the source to a run, without any I/O."""
        super().__init__(run, definition, slices)
        self._ids = spec.ids

    @property
    def table(self) -> str:
        """The table of all messages."""
        settings = self.run.settings
        return f"{settings.journal_keyspace}.{settings.journal_table}"

    def numbers(self) -> DataFrame:
        """Read the numbers of the persistence ids, by direct joins."""
        return event_numbers(self.only_ours(self._messages()))

    def unread(self, batch: Batch, planned: DataFrame, offsets: DataFrame) -> DataFrame:
        """Read the keys of all events of the persistence ids."""
        return self.only_ours(self._messages())

    def unread_events(self, batch: Batch, offsets: DataFrame) -> DataFrame:
        """Read all events of the persistence ids, with the payload."""
        events = read.numbered(self.only_ours(self._messages(*read.PAYLOAD)))
        return events.select(*read.COLUMNS, *read.PAYLOAD).localCheckpoint(eager=False)

    def deleted(self) -> DataFrame:
        """Read how far these persistence ids are deleted."""
        return frames.deleted(self.run.spark, self.run.settings, self._id_rows())

    def listed_ids(self, batch: Batch, planned: DataFrame, offsets: DataFrame) -> DataFrame | None:
        """Return the ids that the definition names."""
        return self._id_rows()

    def _rows(self, time_buckets: Sequence[int]) -> DataFrame:
        return read.by_sequence_nr(self._messages(*read.PAYLOAD), time_buckets)

    def _messages(self, *payload: str) -> DataFrame:
        return frames.messages_of_ids(
            self._id_rows(), self.run.settings, *payload, deleted_to=self.deleted()
        )

    def _id_rows(self) -> DataFrame:
        return local_rows(
            self.run.spark,
            [(persistence_id,) for persistence_id in self._ids],
            "persistence_id string",
        )
