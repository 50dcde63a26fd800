"""Before-images of many rows, and how rows are restored from them.

All functions are pure, from frame to frame.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra.cells import lives_for, written_at
from tidemark.event_groups.driver_engine.undo import STAYS_LATER, ColumnState
from tidemark.event_groups.spark_engine.rows import by_name
from tidemark.event_groups.spark_engine.shapes import (
    CELL,
    HAS_NULLS,
    IMAGE,
    IMAGE_COLUMN,
    KEPT,
    TEXTS,
    fate,
)
from tidemark.spark.shapes import shaped

IS_THERE = "tidemark_there"
"""True for a row that was read."""
MARKER_AT = "tidemark_marker_at"
"""For a row that the event created: the write time at which its marker is deleted, or null."""
IS_SHARED = "tidemark_shared"
"""For such a row: whether somebody else has written to it."""


@shaped(returns=KEPT)
def images(
    written: DataFrame,
    existing: DataFrame,
    key: Sequence[str],
    touched: Sequence[str],
    now_ms: int,
    *,
    makes_rows: bool,
) -> DataFrame:
    """Return before-images of the rows that an event writes.

    Args:
        written: the rows to write, with the key and `HAS_NULLS`.
        existing: the existing rows, with the key and, for each touched column, value, write time
            and remaining TTL, as `cells.of_rows` names them.
        key: columns of the key.
        touched: columns that the event writes.
        now_ms: when the rows were read.
        makes_rows: whether the event may create rows.
    """
    marked = existing.withColumn(IS_THERE, F.lit(True))
    rows = written.select(*key, HAS_NULLS).join(
        marked, on=list(key), how="left" if makes_rows else "inner"
    )
    cells = [
        part
        for name in touched
        for part in (
            F.lit(name),
            F.struct(
                F.col(name).alias("value"),
                F.col(written_at(name)).alias("written"),
                (F.lit(now_ms) + F.col(lives_for(name)).cast("bigint") * 1000).alias("expires"),
            ),
        )
    ]
    image = F.struct(
        F.coalesce(IS_THERE, F.lit(False)).alias("existed"),
        F.col(HAS_NULLS).alias("nulls"),
        (F.create_map(*cells) if cells else F.create_map().cast(f"map<string,{CELL}>")).alias(
            "cells"
        ),
    )
    return rows.select(
        by_name({name: F.col(name) for name in key}).alias("id"), F.to_json(image).alias("row_text")
    )


@shaped(kept=KEPT)
def read_back(kept: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return stored images: the key, and `IMAGE_COLUMN`."""
    key_texts = F.from_json("id", TEXTS)
    return kept.select(
        *(key_texts[name].alias(name) for name in key),
        F.from_json("row_text", IMAGE).alias(IMAGE_COLUMN),
    )


@dataclass(frozen=True)
class Rule:
    """Decides what is restored of a row, by the rule of `driver_engine.undo`.

    Attributes:
        touched: columns that the event has written.
        plain: all columns outside of the key that have one cell.
        many_celled: all other columns outside of the key.
        leaves_null: whether the event may leave nulls in all rows.
        written_at: the event's write time.
        at: the write time of restored values.
        own: the write times of the events that are undone, and of their restored values.
        now_ms: the current time.
    """

    touched: Sequence[str]
    plain: Sequence[str]
    many_celled: Sequence[str]
    leaves_null: bool
    written_at: int
    at: int
    own: Collection[int]
    now_ms: int

    def decided(self, rows: DataFrame) -> DataFrame:
        """Add `MARKER_AT`, `IS_SHARED`, and the `fate` of each touched column.

        `puts` is whether its `value` is written, at a write time, for `lives` seconds (0: without
        TTL); `clears` whether null is written.

        Args:
            rows: images with the current rows: `IS_THERE`, null if there is no row; the write time
                of each plain column, null if there is none; the value and remaining TTL of each
                touched column; and the columns of many cells as texts.
        """
        foreign = F.array_min(F.array(*(self._foreign(name) for name in self.plain)))
        has_many_cells = F.lit(False)
        for name in self.many_celled:
            has_many_cells = has_many_cells | F.col(name).isNotNull()
        before_foreign = F.least(foreign - 1, F.lit(self.written_at))
        marker = F.when(
            ~has_many_cells, F.when(foreign.isNull(), F.lit(self.at)).otherwise(before_foreign)
        )
        is_shared = has_many_cells | foreign.isNotNull()
        return rows.select(
            *rows.columns,
            marker.alias(MARKER_AT),
            is_shared.alias(IS_SHARED),
            *(part for name in self.touched for part in self._column_fate(name)),
        )

    def _foreign(self, name: str) -> Column:
        time = F.col(written_at(name))
        return F.when(~time.isin(*self.own), time)

    def _column_fate(self, name: str) -> list[Column]:
        image = F.col(IMAGE_COLUMN)
        time, cell = F.col(written_at(name)), image["cells"][name]
        is_own = F.coalesce(time.isin(*self.own), F.lit(False))
        state = ColumnState(
            is_own=is_own,
            is_null=time.isNull(),
            is_older=~is_own & F.coalesce(time < self.written_at, F.lit(False)),
            may_be_cleared=image["nulls"] | F.lit(self.leaves_null),
        )
        image_ttl = F.floor((cell["expires"] - self.now_ms) / 1000)
        value = F.when(state.gets_image, F.when(image["existed"], cell["value"])).otherwise(
            F.col(name)
        )
        written = F.when(state.gets_image, F.when(image["existed"], cell["written"])).otherwise(
            time
        )
        stays_later = F.coalesce(~written.isin(*self.own), F.lit(False)).cast("int") * STAYS_LATER
        lives = F.when(state.gets_image, image_ttl).otherwise(F.col(lives_for(name)))
        # A value whose TTL is over would have expired by now.
        is_alive = value.isNotNull() & F.coalesce(lives > 0, F.lit(True))
        return [
            (state.is_written & is_alive).alias(fate(name, "puts")),
            (F.lit(self.at) + stays_later).alias(fate(name, "at")),
            value.alias(fate(name, "value")),
            F.coalesce(lives, F.lit(0)).cast("int").alias(fate(name, "lives")),
            (state.is_written & ~is_alive).alias(fate(name, "clears")),
        ]
