"""Offsets and cursors of one projection.

A run writes offsets in bulk, with Spark and without conditions (`consumption`). Manual changes
therefore need the projection's lock, which a run holds from its first read to its last write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from tidemark import clock
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.errors import TidemarkError
from tidemark.journals.pekko.series import Series
from tidemark.partitioning.keys import NUMBER_OF_SLICES
from tidemark.project.definition.model import Definition
from tidemark.settings import Settings
from tidemark.window import from_millis, to_millis

OFFSET, CURSOR = "projection_offset", "projection_cursor"
_COLUMNS = (
    "slice, persistence_id, tag, sequence_nr, tag_pid_sequence_nr, timestamp, consumed_at,"
    " snapshot_sequence_nr"
)


@dataclass(frozen=True)
class Offset:
    """How far a series was consumed, and when.

    Attributes:
        series: the series.
        number: all events up to this number are consumed.
        sequence_nr: sequence nr of the event with this number; a lower bound if that is unknown.
        event_timeuuid: the event's own time; None if unknown.
        consumed_at: when the row was written.
        snapshot_nr: sequence nr of the snapshot that the series began with, if any.
    """

    series: Series
    number: int
    sequence_nr: int
    event_timeuuid: UUID | None = None
    consumed_at: datetime | None = None
    snapshot_nr: int | None = None


@dataclass(frozen=True)
class OffsetStore:
    """The stored offsets and cursors of a projection of one journal."""

    control: Control
    settings: Settings
    definition: Definition

    @classmethod
    def of(cls, run: RunContext, definition: Definition) -> OffsetStore:
        """Bind a projection to the journal of a run, without any I/O."""
        return cls(run.control, run.settings, definition)

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
        rows_by_series = self.control.execute_many(
            f"SELECT {_COLUMNS} FROM {self.table(OFFSET)}"
            " WHERE projection = ? AND slice = ? AND persistence_id = ? AND tag = ?",
            [(self.subject, each.slice, each.persistence_id, each.tag) for each in series],
        )
        return [_offset(rows[0]) if rows else None for rows in rows_by_series]

    def offsets_of_id(self, persistence_id: str) -> list[Offset]:
        """Read the offsets of a persistence id, one for each tag."""
        rows = self.control.execute(
            f"SELECT {_COLUMNS} FROM {self.table(OFFSET)}"
            " WHERE projection = ? AND slice = ? AND persistence_id = ?",
            (self.subject, Series(persistence_id).slice, persistence_id),
        )
        return [_offset(row) for row in rows]

    def stream(self, slices: Iterable[int]) -> Iterator[Offset]:
        """Read all offsets of some slices, page by page."""
        for slice_number in slices:
            for row in self.control.stream(
                f"SELECT {_COLUMNS} FROM {self.table(OFFSET)} WHERE projection = ? AND slice = ?",
                (self.subject, slice_number),
            ):
                yield _offset(row)

    def series_by_slice(self, slices: Iterable[int] = range(NUMBER_OF_SLICES)) -> dict[int, int]:
        """Count the series with an offset by slice, leaving out slices without series."""
        slice_numbers = list(slices)
        count_rows = self.control.execute_many(
            f"SELECT count(*) AS series FROM {self.table(OFFSET)}"
            " WHERE projection = ? AND slice = ?",
            [(self.subject, slice_number) for slice_number in slice_numbers],
        )
        by_slice = {
            slice_number: int(rows[0]["series"])
            for slice_number, rows in zip(slice_numbers, count_rows, strict=True)
        }
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
        series = offset.series
        key = (self.subject, series.slice, series.persistence_id, series.tag)
        if offset.number == 0:
            self.control.execute(
                f"DELETE FROM {self.table(OFFSET)} WHERE projection = ? AND slice = ?"
                " AND persistence_id = ? AND tag = ?",
                key,
            )
        else:
            self.control.execute(
                f"INSERT INTO {self.table(OFFSET)} (projection, slice, persistence_id, tag,"
                " sequence_nr, tag_pid_sequence_nr, timestamp, consumed_at, snapshot_sequence_nr)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *key,
                    offset.sequence_nr,
                    offset.number if series.tag else None,
                    offset.event_timeuuid,
                    clock.now(),
                    offset.snapshot_nr,
                ),
            )
        written = self.offset(series)
        if (written.number if written else 0) != offset.number:
            raise TidemarkError(
                f"the offset of {series} was written, but an older one has a later write time",
                where=f"{self.settings.keyspace}.{OFFSET}",
                do="set the clocks of this machine and of Spark's executors right, then do it"
                " again",
            )

    def forget_offsets(self, slices: Iterable[int] = range(NUMBER_OF_SLICES)) -> None:
        """Delete all offsets of some slices."""
        self.control.execute_many(
            f"DELETE FROM {self.table(OFFSET)} WHERE projection = ? AND slice = ?",
            [(self.subject, slice_number) for slice_number in slices],
        )

    def forget_cursors(self) -> None:
        """Delete all cursors."""
        self.control.execute(
            f"DELETE FROM {self.table(CURSOR)} WHERE projection = ?", (self.subject,)
        )


def _offset(row: Row) -> Offset:
    consumed_at = row["consumed_at"]
    return Offset(
        Series(row["persistence_id"], row["tag"]),
        row["tag_pid_sequence_nr"] or row["sequence_nr"],
        row["sequence_nr"],
        row["timestamp"],
        consumed_at.replace(tzinfo=UTC) if consumed_at else None,
        row["snapshot_sequence_nr"],
    )
