"""What is remembered of one projection, behind an `OffsetStore` that is bound to it once.

A run writes offsets in bulk, with Spark and without conditions (`consumption`). Whoever changes a
row by hand therefore holds the projection's lock, which a run holds from its first read to its last
write.
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
    """How far a series was consumed, and by when.

    Attributes:
        series: which.
        number: everything up to it is consumed.
        sequence_nr: that of the event with this number; a lower bound where it is not known.
        event_timeuuid: the event's own time, where it is known.
        consumed_at: when the row was written.
        snapshot_nr: the sequence nr of the snapshot that it began with, if it did.
    """

    series: Series
    number: int
    sequence_nr: int
    event_timeuuid: UUID | None = None
    consumed_at: datetime | None = None
    snapshot_nr: int | None = None


@dataclass(frozen=True)
class OffsetStore:
    """Where a projection of one journal keeps its offsets, and all that it needs to go on.

    Attributes:
        control: the session to Cassandra.
        settings: which journal, and the keyspace of Tidemark's own tables.
        definition: the projection.
    """

    control: Control
    settings: Settings
    definition: Definition

    @classmethod
    def of(cls, run: RunContext, definition: Definition) -> OffsetStore:
        """Bind a projection to the journal of a run, without any I/O."""
        return cls(run.control, run.settings, definition)

    @property
    def subject(self) -> str:
        """The projection's name in Tidemark's tables; of a blue/green one, with the version."""
        return self.definition.subject(self.settings.journal_keyspace)

    @property
    def name_in_journal(self) -> str:
        """The same whatever the version of a blue/green projection."""
        return self.definition.identity(self.settings.journal_keyspace)

    @property
    def bucket_size(self) -> str:
        """The bucket size, as a part of the key of what is known of a time bucket."""
        return self.settings.bucket_size.value

    def table(self, name: str) -> str:
        """Return the name of one of Tidemark's own tables, quoted for CQL."""
        return table(self.settings.keyspace, name)

    def offset(self, series: Series) -> Offset | None:
        """Read the offset of one series; None if nothing of it was consumed."""
        return self.offsets_of([series])[0]

    def offsets_of(self, series: Sequence[Series]) -> list[Offset | None]:
        """Read the offsets of some series at once, in their order; None as in `offset`."""
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
        """Read all offsets of some slices, a page of them in memory."""
        for number in slices:
            for row in self.control.stream(
                f"SELECT {_COLUMNS} FROM {self.table(OFFSET)} WHERE projection = ? AND slice = ?",
                (self.subject, number),
            ):
                yield _offset(row)

    def series_by_slice(self, slices: Iterable[int] = range(NUMBER_OF_SLICES)) -> dict[int, int]:
        """Count the series that have an offset, by slice; slices that have none are left out."""
        wanted = list(slices)
        counted = self.control.execute_many(
            f"SELECT count(*) AS series FROM {self.table(OFFSET)}"
            " WHERE projection = ? AND slice = ?",
            [(self.subject, number) for number in wanted],
        )
        by_slice = {
            number: int(rows[0]["series"]) for number, rows in zip(wanted, counted, strict=True)
        }
        return {number: series for number, series in by_slice.items() if series}

    def cursors(self) -> dict[int, datetime]:
        """Read the newest event time consumed, by slice."""
        rows = self.control.execute(
            f"SELECT slice, timestamp FROM {self.table(CURSOR)} WHERE projection = ?",
            (self.subject,),
        )
        return {row["slice"]: row["timestamp"].replace(tzinfo=UTC) for row in rows}

    def advance_cursors(self, newest: Mapping[int, int], now: datetime) -> None:
        """Write the newest event time (epoch ms) by slice where it moves forward.

        It comes after the offsets: a crash between the two leaves a cursor that lags.
        """
        stored = {number: to_millis(moment) for number, moment in self.cursors().items()}
        self.control.execute_many(
            f"INSERT INTO {self.table(CURSOR)} (projection, slice, timestamp, updated_at)"
            " VALUES (?, ?, ?, ?)",
            [
                (self.subject, number, from_millis(epoch_ms), now)
                for number, epoch_ms in newest.items()
                if number not in stored or epoch_ms > stored[number]
            ],
        )

    def set_offset(self, offset: Offset) -> None:
        """Write how far a series is consumed, forward or back; number 0 forgets the series.

        Raises:
            TidemarkError: the row is not what was written: an older write has a later time.
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
        now = self.offset(series)
        if (now.number if now else 0) != offset.number:
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
            [(self.subject, number) for number in slices],
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
