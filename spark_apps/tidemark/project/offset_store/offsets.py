"""Offsets and cursors of one projection.

A run writes offsets in bulk, with Spark and without conditions (`consumption`). Manual changes
therefore need the projection's lock, which a run holds from its first read to its last write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.errors import TidemarkError
from tidemark.journals.pekko.series import Series
from tidemark.partitioning.keys import NUMBER_OF_SLICES, SliceRange
from tidemark.project.definition.model import Definition
from tidemark.project.offset_store.offset_places import CassandraOffsets, Offset, OffsetPlace
from tidemark.project.offset_store.postgres_offsets import PostgresOffsets
from tidemark.project.postgres import fence
from tidemark.project.postgres.fence import Fence
from tidemark.project.postgres.place import PostgresPlace
from tidemark.settings import Settings
from tidemark.window import from_millis, to_millis

CURSOR = "projection_cursor"


@dataclass(frozen=True)
class OffsetStore:
    """The stored offsets and cursors of a projection of one journal."""

    control: Control
    settings: Settings
    definition: Definition
    fence: Fence | None = None
    """The right of a run to write a read model in PostgreSQL."""

    @classmethod
    def of(cls, run: RunContext, definition: Definition) -> OffsetStore:
        """Bind a projection to the journal of a run, without any I/O."""
        return cls(run.control, run.settings, definition)

    def fenced(self, slices: SliceRange, owner: str) -> OffsetStore:
        """Return the store of a run, which holds the lock of the slices and begins to read offsets.

        Where a result and its offsets are one transaction, it takes the fence of the slices.

        Raises:
            InvalidInput, SchemaMismatch: the schema of the read model lacks a right, or is absent.
            DefinitionError: a higher version of the definition has already written.
        """
        if not self.definition.connection:
            return self
        place = PostgresPlace.of(self.settings, self.definition)
        return replace(self, fence=fence.take(place, self.definition, slices, owner))

    @property
    def place(self) -> OffsetPlace:
        """The place of the offsets, which the definition's target decides."""
        if self.definition.connection:
            return PostgresOffsets(PostgresPlace.of(self.settings, self.definition))
        return CassandraOffsets(self.control, self.settings, self.subject)

    @property
    def subject(self) -> str:
        """The projection's name in Tidemark's tables, with the version if it is blue/green."""
        return self.definition.subject(self.settings.journal_keyspace)

    @property
    def name_in_journal(self) -> str:
        """The projection's name without the version."""
        return self.definition.identity(self.settings.journal_keyspace)

    @property
    def bucket_size(self) -> str:
        """The bucket size, as in the keys of Tidemark's tables."""
        return self.settings.bucket_size.value

    def table(self, name: str) -> str:
        """Return the name of one of Tidemark's own tables, quoted for CQL."""
        return table(self.settings.keyspace, name)

    def offset(self, series: Series) -> Offset | None:
        """Read the offset of one series; None if none of its events was consumed."""
        return self.offsets_of([series])[0]

    def offsets_of(self, series: Sequence[Series]) -> list[Offset | None]:
        """Read the offsets of some series, in their order; None as in `offset`."""
        return self.place.offsets_of(series)

    def offsets_of_id(self, persistence_id: str) -> list[Offset]:
        """Read the offsets of a persistence id, one for each tag."""
        return self.place.offsets_of_id(persistence_id)

    def stream(self, slices: Iterable[int]) -> Iterator[Offset]:
        """Read all offsets of some slices, page by page."""
        return self.place.stream(slices)

    def series_by_slice(self, slices: Iterable[int] = range(NUMBER_OF_SLICES)) -> dict[int, int]:
        """Count the series with an offset by slice, leaving out slices without series."""
        by_slice = self.place.series_by_slice(list(slices))
        return {slice_number: series for slice_number, series in by_slice.items() if series}

    def cursors(self) -> dict[int, datetime]:
        """Read the newest event time consumed, by slice."""
        rows = self.control.execute(
            f"SELECT slice, timestamp FROM {self.table(CURSOR)} WHERE projection = ?",
            (self.subject,),
        )
        return {row["slice"]: row["timestamp"].replace(tzinfo=UTC) for row in rows}

    def advance_cursors(self, newest: Mapping[int, int], now: datetime) -> None:
        """Write the newest event time (epoch ms) by slice where it moves forward.

        Call it after the offsets are written: after a crash in between, the cursor lags.
        """
        stored = {
            slice_number: to_millis(cursor) for slice_number, cursor in self.cursors().items()
        }
        self.control.execute_many(
            f"INSERT INTO {self.table(CURSOR)} (projection, slice, timestamp, updated_at)"
            " VALUES (?, ?, ?, ?)",
            [
                (self.subject, slice_number, from_millis(epoch_ms), now)
                for slice_number, epoch_ms in newest.items()
                if slice_number not in stored or epoch_ms > stored[slice_number]
            ],
        )

    def set_offset(self, offset: Offset) -> None:
        """Move the offset of a series forward or back; number 0 deletes it.

        Raises:
            TidemarkError: the write had no effect, as an older one has a later write time.
        """
        self.place.set_offset(offset)
        written = self.offset(offset.series)
        if (written.number if written else 0) != offset.number:
            raise TidemarkError(
                f"the offset of {offset.series} was written, but an older one has a later write"
                " time",
                where=self.place.name,
                do="set the clocks of this machine and of Spark's executors right, then do it"
                " again",
            )

    def forget_offsets(self, slices: Iterable[int] = range(NUMBER_OF_SLICES)) -> None:
        """Delete all offsets of some slices."""
        self.place.forget(slices)

    def forget_cursors(self) -> None:
        """Delete all cursors."""
        self.control.execute(
            f"DELETE FROM {self.table(CURSOR)} WHERE projection = ?", (self.subject,)
        )
