"""Offsets next to a read model in PostgreSQL, moved in the transaction that changes its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, LiteralString

from tidemark import clock
from tidemark.journals.pekko.series import Series
from tidemark.partitioning.keys import SliceRange
from tidemark.partitioning.slice_ranges import ALL
from tidemark.postgres.identifiers import quoted
from tidemark.postgres.session import session
from tidemark.postgres.staged import ATTEMPT, Staged
from tidemark.postgres.statements import joined, statement
from tidemark.postgres.transaction import Transaction
from tidemark.project.offset_store.offset_places import Offset
from tidemark.project.postgres import fence
from tidemark.project.postgres.place import OFFSETS, PostgresPlace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SNAPSHOT = "snapshot_sequence_nr"
_KEY = ("projection_id", "slice", "persistence_id", "tag")
_VALUES = (
    "sequence_nr",
    "tag_pid_sequence_nr",
    "timestamp",
    "consumed_at",
    SNAPSHOT,
)
_COLUMNS = (*_KEY[1:], *_VALUES)
_FRAME = (
    "slice int, persistence_id string, tag string, sequence_nr bigint, tag_pid_sequence_nr bigint,"
    " timestamp string, consumed_at timestamp, snapshot_sequence_nr bigint"
)
_READERS = 4
"""Tasks that read the offsets of a projection."""
_PAGE = 1000


@dataclass(frozen=True)
class PostgresOffsets:
    """The offsets of a projection in the schema of its read model."""

    place: PostgresPlace

    @property
    def name(self) -> str:
        """The table, for people."""
        return str(self.place.own(OFFSETS))

    def offsets_of(self, series: Sequence[Series]) -> list[Offset | None]:
        """Read the offsets of some series, in their order; None if nothing was consumed."""
        keys = [
            [each.slice for each in series],
            [each.persistence_id for each in series],
            [each.tag for each in series],
        ]
        found = {
            offset.series: offset
            for offset in self._read(
                " AND (slice, persistence_id, tag) IN"
                " (SELECT * FROM unnest(%s::integer[], %s::text[], %s::text[]))",
                *keys,
            )
        }
        return [found.get(each) for each in series]

    def offsets_of_id(self, persistence_id: str) -> list[Offset]:
        """Read the offsets of a persistence id, one for each tag."""
        return [
            *self._read(
                " AND slice = %s AND persistence_id = %s",
                Series(persistence_id).slice,
                persistence_id,
            )
        ]

    def stream(self, slices: Iterable[int]) -> Iterator[Offset]:
        """Read all offsets of some slices, page by page."""
        yield from self._read(" AND slice = ANY(%s)", [*slices])

    def series_by_slice(self, slices: Sequence[int]) -> dict[int, int]:
        """Count the series with an offset by slice."""
        with session(self.place.connection) as opened:
            number = self.place.number(opened)
            if number is None:
                return {}
            rows = opened.execute(
                statement(
                    "SELECT slice, count(*) FROM {table}"
                    " WHERE projection_id = %s AND slice = ANY(%s) GROUP BY slice ORDER BY slice",
                    table=self.place.own(OFFSETS),
                ),
                (number, [*slices]),
            )
            return dict(rows.fetchall())

    def set_offset(self, offset: Offset) -> None:
        """Write an offset by hand; number 0 deletes it.

        A run that has lost its lock cannot commit afterwards.
        """
        series, table = offset.series, self.place.own(OFFSETS)
        with session(self.place.connection, autocommit=False) as opened:
            number = self.place.number(opened)
            if number is None:
                return
            fence.revoke(opened, self.place, number, SliceRange(series.slice, series.slice))
            key = (number, series.slice, series.persistence_id, series.tag)
            opened.execute(
                statement(
                    "DELETE FROM {table} WHERE ({key}) = (%s, %s, %s, %s)", table=table, key=_KEY
                ),
                key,
            )
            if offset.number:
                opened.execute(
                    statement(
                        "INSERT INTO {table} ({key}, {values})"
                        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
                        table=table,
                        key=_KEY,
                        values=_VALUES,
                    ),
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
        """Delete all offsets of some slices, under the locks of all slices.

        A run that has lost its lock cannot commit then, also one of slices without offsets.
        """
        numbers = [*slices]
        with session(self.place.connection, autocommit=False) as opened:
            number = self.place.number(opened)
            if number is None:
                return
            fence.revoke(opened, self.place, number, ALL)
            opened.execute(
                statement(
                    "DELETE FROM {table} WHERE projection_id = %s AND slice = ANY(%s)",
                    table=self.place.own(OFFSETS),
                ),
                (number, numbers),
            )

    def forget_ids(self, ids: DataFrame) -> None:
        """Delete all offsets of unique persistence ids, which the executors send by COPY.

        A run that has lost its lock cannot commit then. `ids` has slice and persistence_id.
        """
        from tidemark.project.postgres.staging import staged_in

        with session(self.place.connection) as opened:
            number = self.place.number(opened)
        if number is None:
            return
        keys = ids.select("slice", "persistence_id")
        with (
            staged_in(self.place, fence.staging_by_hand(number), keys) as sent,
            session(self.place.connection, autocommit=False) as opened,
        ):
            fence.revoke(opened, self.place, number, ALL)
            opened.execute(
                statement(
                    "DELETE FROM {table} o USING {staged} s WHERE o.projection_id = %s"
                    " AND o.slice = s.slice AND o.persistence_id = s.persistence_id"
                    " AND s.{attempt} = ANY(%s)",
                    table=self.place.own(OFFSETS),
                    staged=sent.table,
                    attempt=ATTEMPT,
                ),
                (number, sent.attempts),
            )

    def frame(self, spark: SparkSession, slices: SliceRange) -> DataFrame:
        """Return the rows of some slices, with the columns of `projection_offset`."""
        from tidemark.postgres import jdbc
        from tidemark.spark.local_rows import local_rows

        with session(self.place.connection) as opened:
            number = self.place.number(opened)
        if number is None:
            return local_rows(spark, [], _FRAME)
        size = -(-(slices.last - slices.first + 1) // _READERS)
        queries = [
            "SELECT slice, persistence_id, tag, sequence_nr, tag_pid_sequence_nr,"
            f" {quoted('timestamp')}::text AS timestamp, consumed_at, snapshot_sequence_nr"
            f" FROM {self.place.own(OFFSETS).quoted} WHERE projection_id = {number:d}"
            f" AND slice BETWEEN {first:d} AND {min(first + size - 1, slices.last):d}"
            for first in range(slices.first, slices.last + 1, size)
        ]
        return jdbc.read(spark, self.place.connection, queries, _FRAME)

    def merge(self, transaction: Transaction, number: int, staged: Staged, now: datetime) -> None:
        """Move offsets, staged in the shape MOVED_OFFSETS, in the transaction of a batch."""
        # Only series that began with a snapshot have its sequence nr, and they keep it.
        columns = [*_KEY[1:], "sequence_nr", "tag_pid_sequence_nr"]
        columns += [SNAPSHOT] if SNAPSHOT in staged.columns else []
        changed = [name for name in (*columns, "timestamp", "consumed_at") if name not in _KEY]
        transaction.execute(
            statement(
                "INSERT INTO {table} (projection_id, {columns}, timestamp, consumed_at)"
                " SELECT %s, {columns}, timestamp::uuid, %s FROM {staged}"
                " WHERE {attempt} = ANY(%s) ON CONFLICT ({key}) DO UPDATE SET {new_values}",
                table=self.place.own(OFFSETS),
                columns=columns,
                staged=staged.table,
                attempt=ATTEMPT,
                key=_KEY,
                new_values=joined(
                    ", ",
                    [statement("{name} = excluded.{name}", name=name) for name in changed],
                ),
            ),
            (number, now, staged.attempts),
        )

    def _read(self, where: LiteralString, *values: Any) -> Iterator[Offset]:
        with session(self.place.connection, autocommit=False) as opened:
            number = self.place.number(opened)
            if number is None:
                return
            with opened.cursor(name="offsets") as cursor:
                cursor.itersize = _PAGE
                cursor.execute(
                    statement(
                        "SELECT {columns} FROM {table} WHERE projection_id = %s" + where,
                        columns=_COLUMNS,
                        table=self.place.own(OFFSETS),
                    ),
                    (number, *values),
                )
                for row in cursor:
                    yield _offset(*row)


def _offset(
    _slice: int,
    persistence_id: str,
    tag: str,
    sequence_nr: int,
    tag_pid_sequence_nr: int | None,
    timestamp: Any,
    consumed_at: datetime,
    snapshot_nr: int | None,
) -> Offset:
    return Offset(
        Series(persistence_id, tag),
        tag_pid_sequence_nr or sequence_nr,
        sequence_nr,
        timestamp,
        consumed_at,
        snapshot_nr,
    )
