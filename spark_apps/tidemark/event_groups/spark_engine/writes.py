"""Writes to the tables of events through the connector, which only inserts.

Rows that a statement would delete are written with a TTL of one second: unlike the connector's
deletes, they have the event's write time, so that a run after a crash hides nothing that was
written later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.event_groups.definition.tables import Table
from tidemark.event_groups.driver_engine.undo import MARKER_LATER, STAYS_LATER
from tidemark.event_groups.spark_engine.images import IS_SHARED, IS_THERE, MARKER_AT
from tidemark.event_groups.spark_engine.shapes import IMAGE_COLUMN, fate
from tidemark.event_groups.spark_engine.texts import storable

_AT, _LIVES = "tidemark_write_time", "tidemark_seconds"
_PARTITIONS = 1 << 20
"""The maximum number of partitions in a query's rows, which are in no order of partitions."""
_EXPIRY_S = 2
"""After two seconds a TTL of one has expired, whatever fractions the servers count."""


@dataclass(frozen=True)
class Target:
    """A table that is written.

    Attributes:
        keyspace: of the table.
        name: of the table.
        table: its columns.
        ensure_locked: called before each write.
    """

    keyspace: str
    name: str
    table: Table
    ensure_locked: Callable[[], None]

    def store(
        self,
        rows: DataFrame,
        values: Mapping[str, Column],
        at: Column,
        *,
        lives: Column | None = None,
        keep_nulls: bool = True,
    ) -> None:
        """Insert rows.

        Args:
            rows: with the key as texts.
            values: texts of other columns.
            at: the write time.
            lives: the TTL in seconds, 0 for none.
            keep_nulls: whether nulls are written.
        """
        kinds = self.table.columns
        cells = {name: F.col(name) for name in self.table.key} | dict(values)
        stored = rows.select(
            *(storable(cell, kinds[name]).alias(name) for name, cell in cells.items()),
            at.cast("bigint").alias(_AT),
            *([] if lives is None else [lives.cast("int").alias(_LIVES)]),
        )
        self.ensure_locked()
        send(
            connector.repartition_by_key(stored, self.table.partition_key, _PARTITIONS),
            self,
            keep_nulls=keep_nulls,
            is_mortal=lives is not None,
        )

    def remove(self, rows: DataFrame, columns: Sequence[str], at: Column) -> None:
        """Delete rows, with the values of `columns` that are not newer."""
        nulls = {name: F.lit(None).cast("string") for name in columns}
        self.store(rows, nulls, at, lives=F.lit(1))


def send(rows: DataFrame, target: Target, *, keep_nulls: bool, is_mortal: bool) -> None:
    """Write rows with their write times, and with their TTLs if they are mortal."""
    connector.write(
        rows,
        target.keyspace,
        target.name,
        keep_nulls=keep_nulls,
        write_time=_AT,
        time_to_live=_LIVES if is_mortal else 0,
    )


def await_expiry() -> None:
    """Wait until no reader sees removed rows."""
    time.sleep(_EXPIRY_S)


def restore(
    decided: DataFrame, target: Target, touched: Sequence[str], at: int, *, is_whole: bool
) -> None:
    """Write what was decided for rows.

    Args:
        decided: as `images.Rule` returns it; it is read several times.
        target: the table.
        touched: columns that the event has written.
        at: the write time of restored values.
        is_whole: whether the event has deleted complete rows, with their markers.
    """
    marked_by_time = {at: F.lit(False), at + STAYS_LATER: _existed() & F.lit(is_whole)}
    counts = _write_counts(decided, touched, marked_by_time)
    if counts["made"]:
        target.remove(decided.where(~_is_kept()), touched, F.lit(at))
    if counts["shared"]:
        marked = decided.where(~_existed() & _is_kept() & F.col(MARKER_AT).isNotNull())
        target.remove(marked, (), F.col(MARKER_AT))
    for when, is_marked in marked_by_time.items():
        if counts[str(when)]:
            rows = decided.where(_is_put(touched, when, is_marked))
            values = {
                name: F.when(_stays(name, when), F.col(fate(name, "value"))) for name in touched
            }
            target.store(rows, values, F.lit(when), keep_nulls=False)
    for name in touched:
        if counts[fate(name, "clears")]:
            null = {name: F.lit(None).cast("string")}
            target.store(decided.where(_clears(name) & _is_there()), null, F.lit(at))
        if counts[_absent(name)]:
            # An insert of a null would create a missing row.
            target.remove(decided.where(_clears(name) & ~_is_there()), (name,), F.lit(at))
        if counts[fate(name, "lives")]:
            mortal = decided.where(_expires(name))
            lives, value = F.col(fate(name, "lives")), F.col(fate(name, "value"))
            target.store(mortal, {name: value}, F.col(fate(name, "at")), lives=lives)
            # Otherwise the row would expire with the value.
            target.store(mortal, {}, F.lit(at + MARKER_LATER))
    if counts["made"] or counts["shared"] or any(counts[_absent(name)] for name in touched):
        await_expiry()


def _existed() -> Column:
    return F.col(IMAGE_COLUMN)["existed"]


def _is_kept() -> Column:
    """Return whether a row stays, with its columns restored: unless only the event created it."""
    return _existed() | F.col(IS_SHARED)


def _is_there() -> Column:
    """Return whether a row existed and exists, so that an insert creates none."""
    return _existed() & F.col(IS_THERE).isNotNull()


def _clears(name: str) -> Column:
    return _is_kept() & F.col(fate(name, "clears"))


def _absent(name: str) -> str:
    return fate(name, "absent")


def _stays(name: str, when: int) -> Column:
    is_at_time = F.col(fate(name, "at")) == when
    has_no_ttl = F.col(fate(name, "lives")) == 0
    return _is_kept() & F.col(fate(name, "puts")) & has_no_ttl & is_at_time


def _is_put(touched: Sequence[str], when: int, is_marked: Column) -> Column:
    return reduce(or_, [_stays(name, when) for name in touched], is_marked)


def _expires(name: str) -> Column:
    return _is_kept() & F.col(fate(name, "puts")) & (F.col(fate(name, "lives")) > 0)


def _write_counts(
    decided: DataFrame, touched: Sequence[str], marked_by_time: Mapping[int, Column]
) -> dict[str, int]:
    """Return the number of rows for each kind of write, in one pass."""
    kinds = {
        "made": ~_is_kept(),
        "shared": ~_existed() & F.col(IS_SHARED),
        **{fate(name, "clears"): _clears(name) & _is_there() for name in touched},
        **{_absent(name): _clears(name) & ~_is_there() for name in touched},
        **{
            str(when): _is_put(touched, when, is_marked)
            for when, is_marked in marked_by_time.items()
        },
        **{fate(name, "lives"): _expires(name) for name in touched},
    }
    counted = [F.count_if(kind).alias(name) for name, kind in kinds.items()]
    [row] = decided.agg(*counted).collect()
    return {name: int(row[name]) for name in kinds}
