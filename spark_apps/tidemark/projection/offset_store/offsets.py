"""Single rows of projection_offset and projection_cursor, by the driver: what is done by hand.

Runs write these tables with Spark and without conditions. So whoever changes a row by hand holds
the projection's lock, which a run holds from its first read to its last write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from tidemark import clock
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.errors import TidemarkError
from tidemark.journal.series import Series
from tidemark.partitioning.keys import NUMBER_OF_SLICES
from tidemark.settings import Settings

_OFFSET, _CURSOR = "projection_offset", "projection_cursor"
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
        timestamp: the event's own time, where it is known.
        consumed_at: when the row was written.
        snapshot_nr: the sequence nr of the snapshot that it began with, if it did.
    """

    series: Series
    number: int
    sequence_nr: int
    timestamp: UUID | None = None
    consumed_at: datetime | None = None
    snapshot_nr: int | None = None


def read(control: Control, settings: Settings, subject: str, series: Series) -> Offset | None:
    """The offset of one series; None if nothing of it was consumed."""
    found = [one for one in of_id(control, settings, subject, series) if one.series == series]
    return found[0] if found else None


def of_id(control: Control, settings: Settings, subject: str, series: Series) -> list[Offset]:
    """The offsets of a series' persistence id, whatever the tag."""
    rows = control.execute(
        f"SELECT {_COLUMNS} FROM {table(settings.keyspace, _OFFSET)}"
        " WHERE projection = ? AND slice = ? AND persistence_id = ?",
        (subject, series.slice, series.persistence_id),
    )
    return [_offset(row) for row in rows]


def stream(
    control: Control, settings: Settings, subject: str, slices: Iterable[int]
) -> Iterator[Offset]:
    """All offsets of some slices, a page of them in memory."""
    name = table(settings.keyspace, _OFFSET)
    for number in slices:
        for row in control.stream(
            f"SELECT {_COLUMNS} FROM {name} WHERE projection = ? AND slice = ?", (subject, number)
        ):
            yield _offset(row)


def series_by_slice(
    control: Control,
    settings: Settings,
    subject: str,
    slices: Iterable[int] = range(NUMBER_OF_SLICES),
) -> dict[int, int]:
    """How many series have an offset, by slice; without those that have none."""
    wanted = list(slices)
    counted = control.execute_many(
        f"SELECT count(*) AS series FROM {table(settings.keyspace, _OFFSET)}"
        " WHERE projection = ? AND slice = ?",
        [(subject, number) for number in wanted],
    )
    by_slice = {
        number: int(rows[0]["series"]) for number, rows in zip(wanted, counted, strict=True)
    }
    return {number: series for number, series in by_slice.items() if series}


def cursors(control: Control, settings: Settings, subject: str) -> dict[int, datetime]:
    """The newest event time consumed, by slice."""
    rows = control.execute(
        f"SELECT slice, timestamp FROM {table(settings.keyspace, _CURSOR)} WHERE projection = ?",
        (subject,),
    )
    return {row["slice"]: row["timestamp"].replace(tzinfo=UTC) for row in rows}


def write(control: Control, settings: Settings, subject: str, offset: Offset) -> None:
    """Say how far a series is consumed, forward or back; with number 0 it is forgotten.

    Raises:
        TidemarkError: the row is not what was written: an older write has a later time.
    """
    name, series = table(settings.keyspace, _OFFSET), offset.series
    key = (subject, series.slice, series.persistence_id, series.tag)
    if offset.number == 0:
        control.execute(
            f"DELETE FROM {name} WHERE projection = ? AND slice = ? AND persistence_id = ?"
            " AND tag = ?",
            key,
        )
    else:
        control.execute(
            f"INSERT INTO {name} (projection, slice, persistence_id, tag, sequence_nr,"
            " tag_pid_sequence_nr, timestamp, consumed_at, snapshot_sequence_nr)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *key,
                offset.sequence_nr,
                offset.number if series.tag else None,
                offset.timestamp,
                clock.now(),
                offset.snapshot_nr,
            ),
        )
    now = read(control, settings, subject, series)
    if (now.number if now else 0) != offset.number:
        raise TidemarkError(
            f"the offset of {series} was written, but an older one has a later write time",
            where=f"{settings.keyspace}.{_OFFSET}",
            do="set the clocks of this machine and of Spark's executors right, then do it again",
        )


def forget_offsets(
    control: Control, settings: Settings, subject: str, slices: Iterable[int]
) -> None:
    """Delete all offsets of some slices."""
    control.execute_many(
        f"DELETE FROM {table(settings.keyspace, _OFFSET)} WHERE projection = ? AND slice = ?",
        [(subject, number) for number in slices],
    )


def forget_cursors(control: Control, settings: Settings, subject: str) -> None:
    """Delete all cursors of a projection."""
    name = table(settings.keyspace, _CURSOR)
    control.execute(f"DELETE FROM {name} WHERE projection = ?", (subject,))


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
