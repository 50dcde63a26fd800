"""Writes into the tables of events, through the connector, which only inserts.

What a statement would delete is written as a row that lives for a second: unlike the connector's
deletes, it has the event's write time, so that a run after a crash hides nothing that was written
later.
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
"""Rows of a query are in no order of the table's partitions."""
_GONE_S = 2
"""What lives for a second is gone after two, whatever fractions the servers count."""


@dataclass(frozen=True)
class Target:
    """A table that is written.

    Attributes:
        keyspace: of the table.
        name: of the table.
        table: its columns.
        ensure_locked: asked before each write.
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
            lives: seconds to live, 0 for ever.
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
        """Delete rows with what these columns have, if it is not newer."""
        nulls = {name: F.lit(None).cast("string") for name in columns}
        self.store(rows, nulls, at, lives=F.lit(1))


def send(rows: DataFrame, target: Target, *, keep_nulls: bool, is_mortal: bool) -> None:
    """Write rows with their write times, and their seconds to live if they are mortal."""
    connector.write(
        rows,
        target.keyspace,
        target.name,
        keep_nulls=keep_nulls,
        write_time=_AT,
        time_to_live=_LIVES if is_mortal else 0,
    )


def await_gone() -> None:
    """Wait until no reader sees what was removed."""
    time.sleep(_GONE_S)


def put_back(
    decided: DataFrame, target: Target, touched: Sequence[str], at: int, *, is_whole: bool
) -> None:
    """Write what was decided of rows.

    Args:
        decided: as `images.Rule` returns it; it is gone through several times.
        target: the table.
        touched: columns that the event has written.
        at: the write time of what is put back.
        is_whole: whether the event has deleted whole rows, with their markers.
    """
    moments = {at: F.lit(False), at + STAYS_LATER: _existed() & F.lit(is_whole)}
    needs = _needs(decided, touched, moments)
    if needs["made"]:
        target.remove(decided.where(~_is_kept()), touched, F.lit(at))
    if needs["shared"]:
        marked = decided.where(~_existed() & _is_kept() & F.col(MARKER_AT).isNotNull())
        target.remove(marked, (), F.col(MARKER_AT))
    for moment, is_marked in moments.items():
        if needs[str(moment)]:
            rows = decided.where(_is_put(touched, moment, is_marked))
            values = {
                name: F.when(_lasts(name, moment), F.col(fate(name, "value"))) for name in touched
            }
            target.store(rows, values, F.lit(moment), keep_nulls=False)
    for name in touched:
        if needs[fate(name, "clears")]:
            null = {name: F.lit(None).cast("string")}
            target.store(decided.where(_clears(name) & _is_there()), null, F.lit(at))
        if needs[_absent(name)]:
            # An insert of a null would make a row where there is none.
            target.remove(decided.where(_clears(name) & ~_is_there()), (name,), F.lit(at))
        if needs[fate(name, "lives")]:
            mortal = decided.where(_lives(name))
            lives, value = F.col(fate(name, "lives")), F.col(fate(name, "value"))
            target.store(mortal, {name: value}, F.col(fate(name, "at")), lives=lives)
            # Else the row would end with the value.
            target.store(mortal, {}, F.lit(at + MARKER_LATER))
    if needs["made"] or needs["shared"] or any(needs[_absent(name)] for name in touched):
        await_gone()


def _existed() -> Column:
    return F.col(IMAGE_COLUMN)["existed"]


def _is_kept() -> Column:
    """Return whether a row stays, with its columns put back: not if the event alone has made it."""
    return _existed() | F.col(IS_SHARED)


def _is_there() -> Column:
    """Return whether an insert makes no row that was not there."""
    return _existed() & F.col(IS_THERE).isNotNull()


def _clears(name: str) -> Column:
    return _is_kept() & F.col(fate(name, "clears"))


def _absent(name: str) -> str:
    return fate(name, "absent")


def _lasts(name: str, moment: int) -> Column:
    is_then = F.col(fate(name, "at")) == moment
    is_for_ever = F.col(fate(name, "lives")) == 0
    return _is_kept() & F.col(fate(name, "puts")) & is_for_ever & is_then


def _is_put(touched: Sequence[str], moment: int, is_marked: Column) -> Column:
    return reduce(or_, [_lasts(name, moment) for name in touched], is_marked)


def _lives(name: str) -> Column:
    return _is_kept() & F.col(fate(name, "puts")) & (F.col(fate(name, "lives")) > 0)


def _needs(
    decided: DataFrame, touched: Sequence[str], moments: Mapping[int, Column]
) -> dict[str, int]:
    """Return how many rows there are for each kind of write, in one pass."""
    kinds = {
        "made": ~_is_kept(),
        "shared": ~_existed() & F.col(IS_SHARED),
        **{fate(name, "clears"): _clears(name) & _is_there() for name in touched},
        **{_absent(name): _clears(name) & ~_is_there() for name in touched},
        **{
            str(moment): _is_put(touched, moment, is_marked)
            for moment, is_marked in moments.items()
        },
        **{fate(name, "lives"): _lives(name) for name in touched},
    }
    counted = [F.count_if(kind).alias(name) for name, kind in kinds.items()]
    [found] = decided.agg(*counted).collect()
    return {name: int(found[name]) for name in kinds}
