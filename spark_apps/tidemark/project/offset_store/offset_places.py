"""Where the offsets of a projection are stored: in Cassandra, or next to a read model elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from tidemark import clock
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.journals.pekko.series import Series
from tidemark.partitioning.keys import SliceRange
from tidemark.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OFFSET = "projection_offset"
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


class OffsetPlace(Protocol):
    """The stored offsets of one projection."""

    @property
    def name(self) -> str:
        """The table, for people."""

    def offsets_of(self, series: Sequence[Series]) -> list[Offset | None]:
        """Read the offsets of some series, in their order; None if nothing was consumed."""

    def offsets_of_id(self, persistence_id: str) -> list[Offset]:
        """Read the offsets of a persistence id, one for each tag."""

    def stream(self, slices: Iterable[int]) -> Iterator[Offset]:
        """Read all offsets of some slices, page by page."""

    def series_by_slice(self, slices: Sequence[int]) -> dict[int, int]:
        """Count the series with an offset by slice; a slice without series may be absent."""

    def set_offset(self, offset: Offset) -> None:
        """Write an offset by hand; number 0 deletes it."""

    def forget(self, slices: Iterable[int]) -> None:
        """Delete all offsets of some slices."""

    def forget_ids(self, ids: DataFrame) -> None:
        """Delete all offsets of unique persistence ids; `ids` has slice and persistence_id."""

    def frame(self, spark: SparkSession, slices: SliceRange) -> DataFrame:
        """Return the rows of some slices, with the columns of `projection_offset`."""


@dataclass(frozen=True)
class CassandraOffsets:
    """The offsets of a projection in Tidemark's own keyspace."""

    control: Control
    settings: Settings
    subject: str

    @property
    def name(self) -> str:
        """The table, for people."""
        return f"{self.settings.keyspace}.{OFFSET}"

    @property
    def _table(self) -> str:
        return table(self.settings.keyspace, OFFSET)

    def offsets_of(self, series: Sequence[Series]) -> list[Offset | None]:
        """Read the offsets of some series, in their order; None if nothing was consumed."""
        rows_by_series = self.control.execute_many(
            f"SELECT {_COLUMNS} FROM {self._table}"
            " WHERE projection = ? AND slice = ? AND persistence_id = ? AND tag = ?",
            [(self.subject, each.slice, each.persistence_id, each.tag) for each in series],
        )
        return [_offset(rows[0]) if rows else None for rows in rows_by_series]

    def offsets_of_id(self, persistence_id: str) -> list[Offset]:
        """Read the offsets of a persistence id, one for each tag."""
        rows = self.control.execute(
            f"SELECT {_COLUMNS} FROM {self._table}"
            " WHERE projection = ? AND slice = ? AND persistence_id = ?",
            (self.subject, Series(persistence_id).slice, persistence_id),
        )
        return [_offset(row) for row in rows]

    def stream(self, slices: Iterable[int]) -> Iterator[Offset]:
        """Read all offsets of some slices, page by page."""
        for slice_number in slices:
            for row in self.control.stream(
                f"SELECT {_COLUMNS} FROM {self._table} WHERE projection = ? AND slice = ?",
                (self.subject, slice_number),
            ):
                yield _offset(row)

    def series_by_slice(self, slices: Sequence[int]) -> dict[int, int]:
        """Count the series with an offset by slice."""
        count_rows = self.control.execute_many(
            f"SELECT count(*) AS series FROM {self._table} WHERE projection = ? AND slice = ?",
            [(self.subject, slice_number) for slice_number in slices],
        )
        return {
            slice_number: int(rows[0]["series"])
            for slice_number, rows in zip(slices, count_rows, strict=True)
        }

    def set_offset(self, offset: Offset) -> None:
        """Write an offset by hand; number 0 deletes it."""
        series = offset.series
        key = (self.subject, series.slice, series.persistence_id, series.tag)
        if offset.number == 0:
            self.control.execute(
                f"DELETE FROM {self._table} WHERE projection = ? AND slice = ?"
                " AND persistence_id = ? AND tag = ?",
                key,
            )
            return
        self.control.execute(
            f"INSERT INTO {self._table} (projection, slice, persistence_id, tag,"
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

    def forget(self, slices: Iterable[int]) -> None:
        """Delete all offsets of some slices."""
        self.control.execute_many(
            f"DELETE FROM {self._table} WHERE projection = ? AND slice = ?",
            [(self.subject, slice_number) for slice_number in slices],
        )

    def forget_ids(self, ids: DataFrame) -> None:
        """Delete all offsets of unique persistence ids; `ids` has slice and persistence_id."""
        from pyspark.sql import functions as F

        from tidemark.cassandra import connector

        keys = ids.select(F.lit(self.subject).alias("projection"), "slice", "persistence_id")
        connector.delete(keys, self.settings.keyspace, OFFSET)

    def frame(self, spark: SparkSession, slices: SliceRange) -> DataFrame:
        """Return the rows of some slices, with the columns of `projection_offset`."""
        from tidemark.cassandra import connector
        from tidemark.spark.local_rows import local_rows

        # Rows instead of a literal column, which Spark would push down as a filter, and scan.
        slice_keys = [
            (self.subject, slice_number) for slice_number in range(slices.first, slices.last + 1)
        ]
        keys = local_rows(spark, slice_keys, "projection string, slice int")
        return connector.read_partitions(
            keys,
            self.settings.keyspace,
            OFFSET,
            "slice",
            "persistence_id",
            "tag",
            "sequence_nr",
            "tag_pid_sequence_nr",
            "timestamp",
            "consumed_at",
            "snapshot_sequence_nr",
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
