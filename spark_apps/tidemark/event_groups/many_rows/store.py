"""The rows of events that have many, in parts that are small enough for Cassandra."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.event_groups.many_rows.shapes import KEPT
from tidemark.spark.local_rows import local_rows
from tidemark.spark.read_once import kept_once
from tidemark.spark.shapes import shaped

ROWS, SIZES = "named_result", "named_result_size"
RESULT, BEFORE = "result", "before"
_PART_BYTES = 16 << 20
_PLACE = "stream string, group_id string, event string, kind string, part int"


class KeptRows:
    """The rows of one group's events."""

    def __init__(
        self,
        control: Control,
        keyspace: str,
        spark: SparkSession,
        group: tuple[str, str],
    ) -> None:
        """Bind to a group, which is its stream and its id."""
        self._control, self._spark, self._keyspace = control, spark, keyspace
        self._group = group

    @shaped(rows=KEPT)
    def keep(
        self, event: str, kind: str, rows: DataFrame, ensure_locked: Callable[[], None]
    ) -> int:
        """Keep the rows of an event instead of those of a run that died; return their number.

        How many parts there are is written first, so that whoever deletes them finds all.
        """
        rows = kept_once(rows)
        try:
            size = F.octet_length("id") + F.octet_length("row_text")
            [(count, total)] = rows.agg(F.count(F.lit(1)), F.sum(size)).collect()
            parts = 1 + (total or 0) // _PART_BYTES
            ensure_locked()
            self.empty(event, kind)
            ensure_locked()
            self.announce(event, kind, parts, count)
            ensure_locked()
            self.write(event, kind, rows, parts)
        finally:
            rows.unpersist()
        return int(count)

    def empty(self, event: str, kind: str) -> None:
        """Delete the rows of an event."""
        self._control.execute_many(
            f"DELETE FROM {table(self._keyspace, ROWS)}"
            " WHERE stream = ? AND group_id = ? AND event = ? AND kind = ? AND part = ?",
            [(*self._group, event, kind, part) for part in range(self._parts(event, kind))],
        )

    def announce(self, event: str, kind: str, parts: int, count: int) -> None:
        """Write how many parts and rows are about to be written."""
        self._control.execute(
            f"INSERT INTO {table(self._keyspace, SIZES)}"
            " (stream, group_id, event, kind, parts, row_count) VALUES (?, ?, ?, ?, ?, ?)",
            (*self._group, event, kind, parts, count),
        )

    def write(self, event: str, kind: str, rows: DataFrame, parts: int) -> None:
        """Write the rows, behind the deletes of this session."""
        stream, group = self._group
        connector.write(
            rows.select(
                F.lit(stream).alias("stream"),
                F.lit(group).alias("group_id"),
                F.lit(event).alias("event"),
                F.lit(kind).alias("kind"),
                F.pmod(F.xxhash64("id"), F.lit(parts)).cast("int").alias("part"),
                *KEPT,
                F.lit(self._control.write_time()).alias("write_time"),
            ),
            self._keyspace,
            ROWS,
            write_time="write_time",
        )

    @shaped(returns=KEPT)
    def read(self, event: str, kind: str) -> DataFrame:
        """Return the rows of an event."""
        places = [(*self._group, event, kind, part) for part in range(self._parts(event, kind))]
        keys = local_rows(self._spark, places, _PLACE)
        return connector.read_partitions(keys, self._keyspace, ROWS, *KEPT)

    def whole(self, event: str, kind: str) -> int | None:
        """Return how many rows were kept of an event; None if some are not there any more."""
        size = self._size(event, kind)
        count = self.read(event, kind).count() if size else None
        return count if size and count == size["row_count"] else None

    def _parts(self, event: str, kind: str) -> int:
        size = self._size(event, kind)
        return size["parts"] if size else 0

    def _size(self, event: str, kind: str) -> Row | None:
        found = self._control.execute(
            f"SELECT parts, row_count FROM {table(self._keyspace, SIZES)}"
            " WHERE stream = ? AND group_id = ? AND event = ? AND kind = ?",
            (*self._group, event, kind),
        )
        return found[0] if found else None
